"""`python3 -m mcp_ref toc`: the pages of the specification, their modules, and the lines that cite them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from mcp_ref.__main__ import main
from mcp_ref.cli import UsageError
from mcp_ref.cli.citations import Citation, citations_in
from mcp_ref.cli.toc import PAGES, RELEASED, citations, pages_of, show_toc
from tests.settings import DATA, ROOT


@pytest.fixture(autouse=True)
def parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command use the citations of an earlier test, because it takes a second to parse the package."""
    monkeypatch.setattr("mcp_ref.cli.toc.citations", found)


@cache
def found() -> list[Citation]:
    return list(citations())


def test_toc_has_every_page_with_requirements() -> None:
    if DATA is None:
        pytest.skip("the specification's data are not here; set MCP_REF_DATA")
    rows = json.loads((DATA / "requirements.json").read_text("utf-8"))
    for revision in RELEASED:
        required = {row["page"].partition("/")[2] for row in rows if row["revision"] == revision.name}
        missing = required - {page.path for page in pages_of(revision)}
        assert not missing, f"{revision}: {sorted(missing)}"


def test_toc_names_modules_that_exist() -> None:
    for page in PAGES:
        for module in page.modules:
            assert (ROOT / "mcp_ref" / module).exists(), f"{page.path}: {module}"


Toc = Callable[..., str]


@pytest.fixture
def toc(capsys: pytest.CaptureFixture[str]) -> Toc:
    """Return a function that runs the command with some words, and returns what it prints."""

    def printed(*words: str, json: bool = False) -> str:
        assert main(["toc", *words, *(["--json"] if json else [])]) == 0
        return capsys.readouterr().out

    return printed


def test_toc_command_prints_one_revision_or_all(toc: Toc) -> None:
    assert toc().count("server/tools") == len(RELEASED)
    assert list(json.loads(toc("2026-07-28", json=True))) == ["2026-07-28"]


def test_toc_of_a_page_or_heading_names_the_lines_that_cite_it(toc: Toc) -> None:
    page, heading = toc("basic/transports"), toc("basic/transports#session-management", "2025-11-25")
    assert "basic/transports#security-warning" in page and "security-warning" not in heading
    assert "transports/streamable_http/server.py:" in heading and "2024-11-05" not in heading
    for row in json.loads(toc("basic/transports#session-management", json=True)):
        line = (ROOT / "mcp_ref" / row["path"]).read_text("utf-8").splitlines()[row["line"] - 1]
        assert row["words"] and ("[20" in line or line.startswith("Spec:")), row


@pytest.mark.parametrize("word", ["Phishing", "visible ASCII", "server/utilities/logging"])
def test_toc_search_finds_words_of_citations_and_of_the_sentences_that_they_support(word: str, toc: Toc) -> None:
    rows = json.loads(toc("--search", word, json=True))
    assert rows and all(word.lower() in f"{row['text']} {row['words']}".lower() for row in rows)


@pytest.mark.parametrize(
    ("words", "search", "error"),
    [
        (["server/tool"], None, "no module cites the page server/tool; did you mean 'server/tools'"),
        (["tools"], None, "no module cites the page tools; did you mean 'server/tools'?"),
        (["nothing"], None, "no module cites the page nothing; `toc` without a page lists all pages"),
        (["server/tools#tool-name"], None, "the heading tool-name of server/tools; did you mean 'tool-names'"),
        (["2025-11-26"], None, "unknown protocol revision '2025-11-26'"),
        (["server/tools", "server/prompts"], None, "at most one revision and one page"),
        ([], "no such word", "no citation contains 'no such word'"),
    ],
)
def test_toc_of_nothing_is_a_usage_error_with_advice(words: list[str], search: str | None, error: str) -> None:
    with pytest.raises(UsageError, match=re.escape(error)):
        show_toc(words, search, False)


def test_toc_finds_every_citation_of_the_package() -> None:
    count = Counter((one.path, one.line) for one in found())
    for path in (ROOT / "mcp_ref").rglob("*.py"):
        name = path.relative_to(ROOT / "mcp_ref").as_posix()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            brackets = re.findall(r"\[20\d\d-\d\d-\d\d\b(?!/)", line)  # with a slash, it is the id of a sentence
            assert count[name, number] >= len(brackets), f"{name}:{number}"


@pytest.mark.parametrize(
    ("source", "words", "line"),
    [
        ('"""Title.\n\nA rule that\nspans lines. [2025-11-25 server/tools]\n\nOther.\n"""', "A rule that spans lines.",
         4),
        ('"""Title.\n\nText.\n\nSpec:  server/tools (2025-11-25); schema: Tool\n"""', "Title.", 5),
        ("# [2025-11-25 server/tools#call] a name\n# MUST be short\ny = 2", "a name MUST be short", 1),
        ("x = 'a'  # [2025-11-25 server/tools] one reason\n", "one reason", 1),
        ("# A reason. [2025-11-25 server/tools#a, #b]\nx = 1", "A reason.", 1),
        ("# A reason that\n# goes on. [2025-11-25 server/tools]\nx = 1", "A reason that goes on.", 2),
        ("# other\nx = 1  # a reason [2025-11-25 server/tools]", "a reason", 2),
        ("\n\n# [2025-11-25 server/tools]\nx = 1", "x = 1", 3),
    ],
)  # fmt: skip
def test_citation_has_its_line_and_the_sentence_that_it_supports(source: str, words: str, line: int) -> None:
    assert {(one.words, one.line) for one in citations_in("x.py", source)} == {(words, line)}


@pytest.mark.parametrize("place", ["zip", "app/_vendor/copied"])
def test_toc_and_help_work_from_a_zip_file_and_vendored_under_another_name(place: str, tmp_path: Path) -> None:
    if place == "zip":
        path, name = Path(shutil.make_archive(str(tmp_path / "a"), "zip", ROOT, "mcp_ref")), "mcp_ref"
    else:
        path, name = tmp_path, place.replace("/", ".")
        shutil.copytree(ROOT / "mcp_ref", tmp_path / place, ignore=shutil.ignore_patterns("__pycache__"))
    commands = "m.main(['toc', 'server/tools']); m.main(['record', '--help'])"
    code = f"import sys; sys.path.insert(0, {str(path)!r}); import {name}.__main__ as m; {commands}"
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert "server/tools#tool-names\n  features/registered_tools.py:" in done.stdout
    assert f"To judge the conversation: python3 -m {name} check FILE" in done.stdout
