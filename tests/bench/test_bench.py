"""The benchmark runs: each row with very little work, and the report of its figures."""

from __future__ import annotations

import os
import sys
from xml.etree import ElementTree

import pytest

if sys.platform != "linux":
    pytest.skip("the processor time of another process needs Linux", allow_module_level=True)

from tests.bench.__main__ import run_row
from tests.bench.implementations import LIMIT, Implementation, find_peers, ours, running
from tests.bench.load import FIRST_ID, encode
from tests.bench.report import Result, Values, page, summarize, table_line
from tests.bench.rows import ROWS, Figure, Row, Size, Turns, greet

LITTLE = Size(seconds=0.01, warm_up=0.02, events=3, calls=64, streams=2, tools=2)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_row_measures_mcp_ref_and_the_limit(row: Row) -> None:
    turns = run_row(row, [LIMIT, ours()], 1, LITTLE)
    for values in turns.values():
        assert [len(turn) for turn in values] == [len(row.figures)]
    # So little work can take no measurable time: the clock of a process may advance in steps of 10 ms.
    assert all(turn[0] >= 0 for values in turns.values() for turn in values)


def test_limit_lists_a_tool_in_the_same_bytes_as_mcp_ref() -> None:
    definitions = []
    for implementation in (LIMIT, ours()):
        with running(implementation, "stdio", "1") as server:
            greet(server, modern=False)
            server.write(encode("tools/list", {}, FIRST_ID, False) + b"\n")
            listed = server.read_line()
        definitions.append(listed[listed.index(b'{"name":"tool_0"') : listed.index(b"}]") + 1])
    assert definitions[0] == definitions[1]


@pytest.mark.parametrize("is_slow", [False, True])
def test_run_row_measures_the_limit_and_mcp_ref_in_neighboring_turns(is_slow: bool) -> None:
    order = []

    def measure(implementation: Implementation, size: Size) -> Turns:
        while True:
            order.append(implementation.name)
            yield (1.0,)

    run_row(Row("a", (Figure("time", "ms"),), measure, is_slow), [LIMIT, Implementation("mcp_ref", ())], 3, LITTLE)
    assert order == (["limit", "mcp_ref"] if is_slow else ["limit", "mcp_ref", "mcp_ref", "limit", "limit", "mcp_ref"])


@pytest.mark.parametrize("peer", find_peers(), ids=lambda peer: peer.name)
def test_http_session_runs_with_each_peer(peer: Implementation) -> None:
    if "MCP_REF_PEERS" not in os.environ:
        pytest.skip("no peers: MCP_REF_PEERS is not set")
    [row] = [row for row in ROWS if row.name == "http-session"]
    assert len(run_row(row, [peer], 1, LITTLE)[peer.name]) == 1


def test_page_is_well_formed_and_has_a_chart_for_each_figure() -> None:
    values: Values = {
        "limit": [(10.0, 2.0), (20.0, 2.0), (10.0, 2.0)],
        "mcp_ref": [(30.0, 4.0), (60.0, 4.0), (50.0, 4.0)],  # in the second turn, the machine is half as fast
    }
    row = Row("a", (Figure("size < 5", "kB", "2.5"), Figure("time", "ms")), ROWS[0].measure)
    results = summarize(row, values, ["limit", "mcp_ref", "absent"])
    root = ElementTree.fromstring(page(results, ["1 < 2 cores"]).removeprefix("<!DOCTYPE html>\n"))
    charts = root.findall(".//svg")
    assert [chart.get("aria-label") for chart in charts] == ["size < 5", "time"]
    assert [float(bar.get("width", "")) for bar in charts[0].findall("rect")] == [84.0, 420.0, 0.0]
    text = "".join(root.itertext())
    assert "1 < 2 cores" in text and "mcp_ref: 3.00 of limit (asked: at most 2.5)" in text
    assert "not measured" in text
    assert not root.findall(".//*[@src]") and not root.findall(".//*[@href]")


def test_table_line_shows_the_medians_and_the_ratios() -> None:
    values = {"limit": 2.0, "mcp_ref": 3.0, "official SDK": 30.0, "absent": None}
    result = Result(Figure("time", "ms"), values, {"limit": 1.5, "official SDK": 0.1})
    cells = "2.00            3.00            30.0               -"
    assert table_line(result).startswith("time, ms ")
    assert table_line(result).endswith(f"{cells}   1.50 of limit, 0.10 of official SDK")
