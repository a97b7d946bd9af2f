"""Docs are true: every message that a docstring shows is one, and is valid by the official schema."""

from __future__ import annotations

import ast
import json

import pytest

from mcp_ref.basic.versioning import is_stateless
from mcp_ref.codec import codec_for
from mcp_ref.jsonrpc.messages import Notification, Request, Response, decode, encode
from mcp_ref.revisions import LEGACY, REVISIONS, Revision, find_method, load_type
from tests.frame_schema import faults_of
from tests.settings import DATA, ROOT


def _examples() -> list[tuple[str, str]]:
    found = []
    for path in sorted((ROOT / "mcp_ref").rglob("*.py")):
        source = path.read_text("utf-8")
        if '{"jsonrpc"' not in source:
            continue  # because to parse all modules takes a second
        docstring = ast.get_docstring(ast.parse(source)) or ""
        at = docstring.find('{"jsonrpc"')
        while at >= 0:
            # an example may go over several lines; it ends where its braces are balanced
            text = " ".join(line.strip() for line in docstring[at:].splitlines())
            _, end = json.JSONDecoder().raw_decode(text)
            found.append((str(path.relative_to(ROOT)), text[:end]))
            at = docstring.find('{"jsonrpc"', at + 1)
    return found


EXAMPLES = _examples()


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 15


@pytest.mark.parametrize(("page", "text"), EXAMPLES)
def test_an_example_is_a_message_that_reads_and_writes_the_same(page: str, text: str) -> None:
    message = decode(text.encode())
    assert isinstance(message, (Request, Notification, Response)), f"{page}: {message}"
    assert json.loads(encode(message)) == json.loads(text)
    if isinstance(message, Response):
        return
    revisions = _revisions_of(message.method)
    assert revisions, f"{page}: there is no {message.method}"
    for revision in revisions:
        row = find_method(message.method, revision, "client") or find_method(message.method, revision, "server")
        assert row is not None
        codec = codec_for(revision)
        assert codec.encode(codec.decode(load_type(row.params), message.params)) is not None
        is_alone = is_stateless(message.params) or LEGACY[-1] not in revisions
        if DATA is not None and revision is (REVISIONS[-1] if is_alone else LEGACY[-1]):
            assert faults_of(message, revision.name, {}) == []


def _revisions_of(method: str) -> list[Revision]:
    return [r for r in REVISIONS if find_method(method, r, "client") or find_method(method, r, "server")]
