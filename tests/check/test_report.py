"""Reports of findings: each form has the rule, the proof and the advice, and the command line its exit code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mcp_ref.__main__ import main
from mcp_ref.check.recording import Frame, content, format_event, format_head
from mcp_ref.check.report import JUnitCase, findings_to_show, json_report, junit_report, sarif_report, text_report
from mcp_ref.cli.check import message_of
from tests.check.conversations import STARTED, answered, findings, frames, handshake

FAULTY = frames(
    [
        *handshake(), *answered(1, "prompts/list", result={"prompts": [{}]}),
        *answered(2, "ping", result={"a": "\x1b<"}),
    ]
)  # fmt: skip


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(b"\n".join([format_head(STARTED), *map(format_event, FAULTY)]))
    return path


def test_check_prints_findings_with_rule_proof_and_advice(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(recording)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "talk.jsonl: 2 errors, 0 warnings in 7 events"
    assert lines[2].startswith("error: server: the result of prompts/list does not fit the schema: prompts[0].name: ")
    assert lines[3].endswith("[2025-11-25/basic/lifecycle#initialization-5]") and "proof  event 4, 5" in lines[4]
    assert lines[5].strip() == '{"jsonrpc": "2.0", "id": 1, "result": {"prompts": [{}]}}'


def test_check_quotes_a_message_in_one_short_line() -> None:
    forged = message_of(Frame("server", content(b"x\n\nerror: server: forged\x1b[2J" + 999 * b"y")))
    assert "\n" not in forged and "\x1b" not in forged and len(forged) < 210


def test_check_json_and_exit_code_0_without_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "clean.jsonl"
    path.write_bytes(b"\n".join([format_head(STARTED), *map(format_event, frames(handshake()))]))
    assert main(["check", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "recording": "clean.jsonl", "events": 3, "findings": [], "notVerified": []}  # fmt: skip


def test_text_report_counts_a_single_event_in_the_singular() -> None:
    assert text_report("x", [], 1, [], {}) == ["x: 0 errors, 0 warnings in 1 event"]


def test_text_report_quotes_the_last_message_of_a_proof() -> None:
    lines = text_report("x", findings(FAULTY)[1:], 7, [], {6: "first", 7: "last"})
    assert [line.split() for line in lines[-3:]] == [
        ["proof", "event", "6,", "7,", "judged", "by", "2025-11-25"], ["last"], ["do", "Respond", "with", "{}."]
    ]  # fmt: skip


@pytest.mark.attack("terminal-escapes")
def test_text_report_has_one_line_for_each_text_of_the_recording() -> None:
    forged = "a\nerror: client: forged\x1b[2J"
    talk = frames([*handshake(), *answered(2, "ping", result={forged: 1})])
    lines = text_report(forged, findings(talk), 5, [forged], {})
    escaped = r"a\u{a}error: client: forged\u{1b}[2J"
    assert len(lines) == 8 and sum(escaped in line for line in lines) == 3 and "\x1b" not in "".join(lines)


@pytest.mark.parametrize(("times", "end"), [(1, "member a"), (2, "member a (2 times)")])
def test_text_report_counts_equal_faults(times: int, end: str) -> None:
    [finding] = [replace(each, times=times) for each in findings(FAULTY)[1:]]
    assert text_report("x", [finding], 7, [], {})[2].endswith(end)


def test_json_report_has_all_facts_of_a_finding() -> None:
    page = "2025-11-25/basic/utilities/ping#behavior-requirements"
    assert json_report("x", findings(FAULTY)[1:], 7, ["note"]) == {"recording": "x", "events": 7, "findings": [{
        "rule": f"{page}-1", "name": "empty_pong", "level": "MUST", "side": "server", "revision": "2025-11-25",
        "events": [6, 7], "times": 1, "text": "the result of ping has the member a", "fix": "Respond with {}.",
        "meaning": "The result of a ping is empty.", "page": f"https://modelcontextprotocol.io/specification/{page}",
    }], "notVerified": ["note"]}  # fmt: skip


def test_sarif_report_has_all_facts_of_a_finding() -> None:
    report, where = sarif_report("x", findings(FAULTY)[1:], "1"), {"artifactLocation": {"uri": "x"}}
    page = "2025-11-25/basic/utilities/ping#behavior-requirements"
    assert report == {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [{
        "tool": {"driver": {"name": "mcp_ref check", "version": "1", "rules": [{
            "id": f"{page}-1", "name": "empty_pong", "shortDescription": {"text": "The result of a ping is empty."},
            "defaultConfiguration": {"level": "error"},
            "helpUri": f"https://modelcontextprotocol.io/specification/{page}",
        }]}},
        "results": [{
            "ruleId": f"{page}-1", "level": "error",
            "message": {"text": "server: the result of ping has the member a. Respond with {}."},
            "locations": [{"physicalLocation": {**where, "region": {"startLine": 8}}}],
            "relatedLocations": [{"physicalLocation": {**where, "region": {"startLine": 7}}}],
        }],
    }]}  # fmt: skip


def test_check_writes_junit_and_sarif(recording: Path, tmp_path: Path) -> None:
    junit, sarif = tmp_path / "junit.xml", tmp_path / "check.sarif"
    assert main(["check", str(recording), "--junit", str(junit), "--sarif", str(sarif)]) == 1
    suite = ElementTree.fromstring(junit.read_text("utf-8"))
    assert (suite.get("tests"), suite.get("failures"), len(suite.findall("testcase/failure"))) == ("2", "2", 2)
    run = json.loads(sarif.read_text("utf-8"))["runs"][0]
    assert {result["ruleId"] for result in run["results"]} == {rule["id"] for rule in run["tool"]["driver"]["rules"]}


def test_check_of_a_file_that_is_not_a_recording_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.txt"
    path.write_text("hello")
    assert main(["check", str(path)]) == 2
    assert "not a recording" in capsys.readouterr().err


def test_check_rules_lists_rules_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--rules"]) == 0
    text = capsys.readouterr().out
    assert "MUST    The id of a request is a string or an integer, and not null." in text
    assert "no message shows it" in text and text.splitlines()[-1].endswith("cannot be observed")
    assert main(["check", "--rules", "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert {*written} == {"rules", "notObservable"}
    assert {*written["rules"][0]} == {"id", "name", "level", "meaning", "sentences"}


def test_shown_leaves_out_advice_and_begins_with_errors() -> None:
    found = findings(FAULTY)
    assert [finding.level for finding in findings_to_show(found, with_advice=True)] == sorted(
        (finding.level for finding in found), key=["MUST", "SHOULD", "advice"].index)  # fmt: skip
    assert all(finding.level != "advice" for finding in findings_to_show(found, with_advice=False))


def test_junit_report_is_xml_whatever_its_texts_contain() -> None:
    text = "<\x00\x1b\n\ud800\ufffe\uffff\"'&]]>"
    suite = ElementTree.fromstring(
        junit_report(text, findings(FAULTY), [text], [JUnitCase(text, text, "failure", text)])
    )
    assert [suite.get("tests"), suite.get("failures"), suite.get("skipped")] == ["4", "3", "1"]
    assert sorted(child.tag for case in suite for child in case) == ["failure", "failure", "failure", "skipped"]
    assert "\n" not in (suite[0].get("name") or "\n") and suite[0].get("name") == suite[0][0].text
