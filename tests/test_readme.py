"""The README is run: its files are written, its commands typed, its tables compared with the code."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_ref.basic.mrtr import INPUT_REQUESTS
from mcp_ref.revisions import REVISIONS, Revision, find_method
from tests import transcripts
from tests.messages import shape_of
from tests.server_programs import serving
from tests.settings import ROOT, run

README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create the folder of a reader: the package, the examples, and the README's own files."""
    for name in ("mcp_ref", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for source in blocks("python"):
        first = re.match(r"# (\w+\.py)\n", source)
        assert first, f"a program's first line says what it is saved as: {source[:40]!r}"
        (tmp_path / first[1]).write_text(source, "utf-8")
    return tmp_path


def shell(command: str, folder: Path) -> str:
    """Run a command and return both of its outputs."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PATH": path}
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, text=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip
    return done.stdout


def sessions() -> list[list[tuple[str, str]]]:
    """Return the README's console blocks, as pairs of a command and its output."""
    found = []
    for text in blocks("console"):
        pairs = [part.partition("\n") for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
        found.append([(command, output) for command, _, output in pairs])
    return found


def test_readme_has_only_blocks_of_the_kinds_that_are_tested() -> None:
    assert {name for name, _ in BLOCKS} == {"console", "python", "sh", "json", "text"}
    assert len(BLOCKS) == README.count("```") // 2


@pytest.mark.skipif(shutil.which("sh") is None, reason="the README's commands are for a POSIX shell")
def test_readme_commands_print_the_output_that_it_shows(folder: Path) -> None:
    for session in sessions():
        for command, expected in session:
            if command == "python3 -m mcp_ref demo" and not expected:
                continue  # `test_demo.py` runs it
            output = shell(command, folder)
            assert output.rstrip() == expected.rstrip(), command


def test_readme_test_command_is_the_one_that_ci_runs() -> None:
    command = blocks("sh")[0]
    assert command.strip().endswith("&& python3 -m pytest")
    assert "python3 -m pytest" in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.skipif(
    shutil.which("curl") is None and "CI" not in os.environ, reason="the README's stateless request is sent by curl"
)
def test_readme_curl_command_calls_the_tool(folder: Path) -> None:
    command = blocks("sh")[1]
    assert command.count("http://127.0.0.1:8000/mcp") == 1
    with serving(folder / "server.py") as program:
        printed = shell(command.replace("http://127.0.0.1:8000/mcp", program.url), folder)
    assert json.loads(printed)["result"]["structuredContent"] == 3


def test_readme_shows_the_tool_call_of_each_revision_as_it_is_on_the_wire() -> None:
    written = run(transcripts.page(), 60.0)
    assert transcripts.present() == written, f"the README shows something else; {transcripts.COMMAND} writes it anew"
    assert len(blocks("text")) == 4  # the drawing, and the three blocks of the section


def test_readme_host_configurations_are_json() -> None:
    for text in blocks("json"):
        assert json.loads(text)["mcpServers"]


def test_readme_links_lead_to_files() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def table(heading: str) -> list[list[str]]:
    """Return the rows of the table below a heading, without the rule."""
    section = README.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if set(row[0]) != {"-"}]


def has(path: str, member: str | None = None) -> Callable[[Revision], bool]:
    """Return a test of revisions: True if the revision has the type, or its member."""
    module, _, name = path.partition(":")
    cls = getattr(importlib.import_module(f"mcp_ref.{module}"), name)
    if member is None:
        return lambda revision: bool(cls.availability.covers(revision))
    return lambda revision: member in shape_of(cls, revision)


def methods(*names: str) -> Callable[[Revision], bool]:
    """Return a test of revisions: True if the revision has these methods."""
    return lambda revision: all(
        find_method(name, revision, "client") or find_method(name, revision, "server") for name in names
    )


def asks_in_results(revision: Revision) -> bool:
    """Return True if the server's requests are parts of its results."""
    return revision.era == "modern" and not any(find_method(name, revision, "server") for name in INPUT_REQUESTS)


FEATURES: dict[str, list[Callable[[Revision], bool]]] = {
    "handshake, negotiation, ping": [methods("initialize", "ping")],
    "discovery, stateless requests, headers that mirror the body, caching hints": [
        methods("server/discover"),
        has("features.tools:ListToolsResult", "ttlMs"),
        lambda revision: revision.era == "modern",
    ],
    "tools, resources, prompts, completion, log messages, progress": [
        methods("tools/call", "resources/read", "prompts/get", "completion/complete"),
        methods("notifications/message", "notifications/progress"),
    ],
    "subscriptions to resources, notifications of changed lists": [
        lambda revision: methods("resources/subscribe")(revision) != methods("subscriptions/listen")(revision),
        methods("notifications/resources/updated", "notifications/tools/list_changed"),
    ],
    "sampling, roots: as requests of the server": [methods("sampling/createMessage", "roots/list")],
    "sampling, roots, elicitation: as `input_required` results, in several rounds": [asks_in_results],
    "cancellation, pagination": [
        methods("notifications/cancelled"),
        lambda revision: revision.pagination,
        has("features.tools:ListToolsResult", "nextCursor"),
    ],
    "audio, tool annotations": [has("basic.content:AudioContent"), has("features.tools:Tool", "annotations")],
    "batches": [lambda revision: revision.batch],
    "structured results, output schemas, resource links": [
        lambda revision: revision.structured_results,
        has("features.tools:Tool", "outputSchema"),
        has("basic.content:ResourceLink"),
    ],
    "structured results of any JSON type": [lambda revision: revision.structured_content_is_any_json],
    "elicitation by form: as requests of the server": [methods("elicitation/create")],
    "elicitation by URL, tools in sampling, icons": [
        lambda revision: revision.elicitation_modes,
        lambda revision: revision.sampling_tools,
        has("features.tools:Tool", "icons"),
    ],
    "tasks: experimental, then the extension `io.modelcontextprotocol/tasks`": [methods("tasks/get", "tasks/cancel")],
}
"""The checks behind each row of the table of features."""


def test_readme_table_of_features_agrees_with_the_data_of_the_revisions() -> None:
    header, *rows = table("What is supported")
    assert header[1:] == [revision.name for revision in REVISIONS]
    assert [row[0] for row in rows] == list(FEATURES)
    for name, *cells in rows:
        for revision, cell in zip(REVISIONS, cells, strict=True):
            truth = [check(revision) for check in FEATURES[name]]
            assert truth == [cell == "yes"] * len(truth), f"{name} in {revision}: {cell}, but {truth}"


@pytest.mark.parametrize("role", ["server", "client"])
def test_stdio_program_works_without_the_parts_that_the_readme_calls_deletable(role: str, folder: Path) -> None:
    section = README.split("\nYou can delete ")[1].split("\n## ")[0]
    named = set(re.findall(r"`([\w/.]+)`", section))
    assert {"client/", "server/", "lib/http/", "__main__.py"} <= named
    slim = folder / "slim" / "mcp_ref"
    shutil.copytree(folder / "mcp_ref", slim)
    for part in named - {f"{role}/"}:
        shutil.rmtree(slim / part) if part.endswith("/") else (slim / part).unlink()
    python = sys.executable
    if role == "server":
        command = f"{python} -m mcp_ref call add a=1 b=2 -- env PYTHONPATH={slim.parent} {python} -P server.py"
        assert shell(command, folder).strip() == "3"
    else:
        start = [python, str(folder / "server.py")]
        program = (folder / "client.py").read_text().replace('["python3", "server.py"]', repr(start))
        (slim.parent / "client.py").write_text(program)
        assert shell(f"{python} client.py", slim.parent).strip() == "3"


def test_readme_has_at_most_250_lines() -> None:
    assert len(README.splitlines()) <= 250
