"""The README is run: its files are written, its commands typed, its tables compared with the code."""

from __future__ import annotations

import dataclasses
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

from mcp_ref.client.session import QUESTIONS
from mcp_ref.codec import shape_of
from mcp_ref.revisions import REVISIONS, Revision, find_method
from tests import transcripts
from tests.support import ROOT, run

README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a reader has: the package, the examples, and the README's own files beside them."""
    for name in ("mcp_ref", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for source in blocks("python"):
        first = re.match(r"# (\w+\.py)\n", source)
        assert first, f"a program's first line says what it is saved as: {source[:40]!r}"
        (tmp_path / first[1]).write_text(source, "utf-8")
    return tmp_path


def shell(command: str, folder: Path) -> str:
    """What a person sees who types this: both outputs."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PATH": path}
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, text=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip
    return done.stdout


def sessions() -> list[list[tuple[str, str]]]:
    """The README's console blocks: (command, what it prints) each."""
    found = []
    for text in blocks("console"):
        pairs = [part.partition("\n") for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
        found.append([(command, output) for command, _, output in pairs])
    return found


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    assert {name for name, _ in BLOCKS} == {"console", "python", "sh", "json", "text"}
    assert len(BLOCKS) == README.count("```") // 2


@pytest.mark.skipif(shutil.which("sh") is None, reason="the README's commands are for a POSIX shell")
def test_every_command_prints_what_the_readme_says(folder: Path) -> None:
    for session in sessions():
        for command, expected in session:
            output = shell(command, folder)
            if not expected:  # the demo: its own test looks at what it prints
                assert "Traceback" not in output, output
                continue
            assert output.rstrip() == expected.rstrip(), command


def test_the_test_command_is_the_one_that_ci_runs() -> None:
    (command,) = blocks("sh")
    assert command.strip().endswith("&& python3 -m pytest")
    assert "python3 -m pytest" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_the_same_tool_call_in_six_revisions_is_what_goes_over_the_wire() -> None:
    written = run(transcripts.page(), 60.0)
    assert transcripts.present() == written, f"the README shows something else; {transcripts.COMMAND} writes it anew"
    assert len(blocks("text")) == len(REVISIONS) + 1  # there is no other


def test_the_host_configuration_is_json() -> None:
    for text in blocks("json"):
        assert json.loads(text)["mcpServers"]


def test_every_link_leads_to_a_file() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).is_file(), target


def table(heading: str) -> list[list[str]]:
    """The rows of the table below a heading, without the rule."""
    section = README.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if set(row[0]) != {"-"}]


def has(path: str, member: str | None = None) -> Callable[[Revision], bool]:
    """Whether a revision has a type, or a member of it."""
    module, _, name = path.partition(":")
    cls = getattr(importlib.import_module(f"mcp_ref.{module}"), name)
    if member is None:
        return lambda revision: bool(cls.life.covers(revision))
    return lambda revision: member in shape_of(cls, revision)


def methods(*names: str) -> Callable[[Revision], bool]:
    """Whether a revision has these methods, whoever sends them."""
    return lambda revision: all(
        find_method(name, revision, "client") or find_method(name, revision, "server") for name in names
    )


def asks_in_results(revision: Revision) -> bool:
    """Whether what a server wants to know stands in its results."""
    return revision.era == "modern" and not any(find_method(name, revision, "server") for name in QUESTIONS)


FEATURES: dict[str, list[Callable[[Revision], bool]]] = {
    "handshake, negotiation, ping": [methods("initialize", "ping")],
    "discovery, requests that stand alone, headers that repeat them, caching hints": [
        methods("server/discover"),
        has("features.tools:ListToolsResult", "ttlMs"),
        lambda revision: revision.era == "modern",
    ],
    "tools, resources, prompts, completion, log messages, progress": [
        methods("tools/call", "resources/read", "prompts/get", "completion/complete"),
        methods("notifications/message", "notifications/progress"),
    ],
    "resources that are watched, lists that change": [
        lambda revision: methods("resources/subscribe")(revision) != methods("subscriptions/listen")(revision),
        methods("notifications/resources/updated", "notifications/tools/list_changed"),
    ],
    "sampling, roots: by requests of the server": [methods("sampling/createMessage", "roots/list")],
    "sampling, roots, elicitation: by results that ask, in several rounds": [asks_in_results],
    "cancellation": [methods("notifications/cancelled")],
    "pagination": [lambda revision: revision.pagination, has("features.tools:ListToolsResult", "nextCursor")],
    "audio, tool annotations": [has("basic.content:AudioContent"), has("features.tools:Tool", "annotations")],
    "batches": [lambda revision: revision.batch],
    "structured results, output schemas, resource links": [
        lambda revision: revision.structured_results,
        has("features.tools:Tool", "outputSchema"),
        has("basic.content:ResourceLink"),
    ],
    "structured results that are any JSON": [lambda revision: revision.structured_content_is_any_json],
    "elicitation by form, by requests of the server": [methods("elicitation/create")],
    "elicitation by URL, tools in sampling, icons": [
        lambda revision: revision.elicitation_modes,
        lambda revision: revision.sampling_tools,
        has("features.tools:Tool", "icons"),
    ],
    "tasks: an experiment, then the extension `io.modelcontextprotocol/tasks`": [methods("tasks/get", "tasks/cancel")],
}
"""What each row of the table of features stands for."""


def test_the_table_of_features_is_what_the_data_say() -> None:
    header, *rows = table("What is supported")
    assert header[1:] == [revision.name for revision in REVISIONS]
    assert [row[0] for row in rows] == list(FEATURES)
    for name, *cells in rows:
        for revision, cell in zip(REVISIONS, cells, strict=True):
            truth = [check(revision) for check in FEATURES[name]]
            assert truth == [cell == "yes"] * len(truth), f"{name} in {revision}: {cell}, but {truth}"


def limits() -> dict[str, str]:
    """Where each documented limit is, and its documented value."""
    _, *rows = table("Limits and security")
    return {place.strip("`"): value for _, value, place in rows}


def test_the_table_of_limits_is_what_the_code_says() -> None:
    for place, value in limits().items():
        module, _, name = place.rpartition(".")
        if module.rpartition(".")[2].endswith("Limits"):
            page, _, kind = module.rpartition(".")
            found = getattr(getattr(importlib.import_module(f"mcp_ref.{page}"), kind)(), name)
        else:
            found = getattr(importlib.import_module(f"mcp_ref.{module}"), name)
        assert str(found) == value, place


def test_no_limit_of_the_code_is_missing_from_the_table() -> None:
    known = set(limits())
    for path in sorted((ROOT / "mcp_ref").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "mcp_ref").with_suffix("").parts)
        for name in re.findall(r"^(MAX_\w+)", path.read_text("utf-8"), re.MULTILINE):
            assert f"{module}.{name}" in known, f"{module}.{name} is not in the README"
        for kind in re.findall(r"^class (\w*Limits)\b", path.read_text("utf-8"), re.MULTILINE):
            limits_of = getattr(importlib.import_module(f"mcp_ref.{module}"), kind)
            for field in dataclasses.fields(limits_of) if dataclasses.is_dataclass(limits_of) else ():
                assert f"{module}.{kind}.{field.name}" in known, f"{module}.{kind}.{field.name} is not in the README"
