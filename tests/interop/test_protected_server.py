"""Other projects' clients sign in at a protected server of ours, take another scope, and renew their token.

The authorization server is the one of the examples. The scripts in peers/ play the user's browser.
"""

import asyncio
import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.protected_notes import PASSWORD, Notes, Step, protected_notes

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "peers"
PATIENCE = 25.0
"""Time for a client, in seconds."""

#: name → the program, and its script with arguments
CLIENTS = {
    "python-sdk-2": ("python-sdk-2/bin/python", "protected_client.py"),
    "fastmcp": ("fastmcp/bin/python", "protected_client.py"),
    "typescript-sdk-1": ("node_modules/.bin/node", "protected_client.mjs", "1"),
    "typescript-sdk-2": ("node_modules/.bin/node", "protected_client.mjs", "2"),
}
REVISIONS = ["2025-06-18", "2025-11-25", "2026-07-28"]
VISITS = [(client, revision) for client in CLIENTS for revision in REVISIONS]
VISITS.remove(("typescript-sdk-1", "2026-07-28"))  # it knows the handshake only


async def run(peers: Path, *command: str | Path, **environment: str) -> dict[str, Any]:
    """Run a client, and return the JSON object that it prints."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env={**os.environ, "MCP_REF_PEERS": str(peers), **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    printed: dict[str, Any] = json.loads(output)
    return printed


def check_authorization(step: Step, scope: str, notes: Notes) -> None:
    assert step.values["scope"] == scope
    assert step.values["resource"] == notes.url
    assert step.values["response_type"] == "code"
    assert step.values["code_challenge_method"] == "S256"
    assert step.values["state"]


@pytest.mark.spec("2026-07-28/basic/authorization/index#runtime-insufficient-scope-errors-2")
@pytest.mark.parametrize(("client", "revision"), VISITS)
async def test_protection_leads_foreign_client_through_sign_in_step_up_and_refresh(
    peers: Path, client: str, revision: str
) -> None:
    async with protected_notes(revision) as notes:
        program, script, *arguments = CLIENTS[client]
        era = "auto" if revision == "2026-07-28" else "legacy"
        report = await run(peers, peers / program, SCRIPTS / script, *arguments, era, notes.url, PASSWORD)
    assert report == {"revision": revision, "texts": ["notes of alice", "added", "notes of alice"]}

    # the 401 leads to both metadata documents, the registration, and the consent page
    first, *_ = requests = notes.requests("mcp", "/mcp")
    document = f"{notes.url.removesuffix('/mcp')}/.well-known/oauth-protected-resource/mcp"
    assert (first.status, first.token) == (401, "") and first.challenge is not None
    assert first.challenge.parameters == {"resource_metadata": document, "scope": "notes:read"}
    assert [str(step) for step in notes.wire[1:4]] == [
        "GET /.well-known/oauth-protected-resource/mcp 200",
        "GET /.well-known/oauth-authorization-server 200",
        "POST /register 201",
    ]
    [registered] = notes.requests("auth", "/register")
    asked = [step for step in notes.requests("auth", "/authorize") if step.method == "GET"]
    check_authorization(asked[0], "notes:read", notes)
    check_authorization(asked[-1], "notes:read notes:write", notes)
    # FastMCP requests each page twice: it checks the client id before it opens the browser
    assert len(asked) == (4 if client == "fastmcp" else 2)

    # both codes are exchanged with the verifier of PKCE, and the tokens are for this server
    codes = notes.grants("authorization_code")
    assert [step.status for step in codes] == [200, 200]
    for code, authorization in zip(codes, (asked[0], asked[-1]), strict=True):
        digest = hashlib.sha256(code.values["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == authorization.values["code_challenge"]
        assert code.values["resource"] == notes.url
        assert code.values["redirect_uri"] in json.loads(registered.values["redirect_uris"])
    issued = [json.loads(step.body)["access_token"] for step in notes.requests("auth", "/token")]
    assert list(dict.fromkeys(step.token for step in requests)) == ["", *issued]

    # one 403 names all scopes of the call, and the repeated call succeeds
    [forbidden] = [step for step in requests if step.status == 403]
    assert forbidden.challenge is not None and forbidden.challenge.parameters["error"] == "insufficient_scope"
    assert forbidden.challenge.parameters["scope"] == "notes:read notes:write"
    assert forbidden.challenge.parameters["resource_metadata"] == document

    # the refresh token of the second grant leads to the third token, without the user
    [refresh] = notes.grants("refresh_token")
    assert (refresh.status, refresh.values["resource"]) == (200, notes.url)
    assert refresh.values["refresh_token"] == json.loads(codes[1].body)["refresh_token"]


async def inspect(peers: Path, folder: Path, notes: Notes, tool: str, *options: str) -> str:
    """Call a tool with the command line of the official inspector, in a new home folder. Return the text."""
    programs = peers / "node_modules/.bin"
    script = folder / "browser"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{SCRIPTS / "browser.py"}" "{PASSWORD}" "$1"\n', "utf-8")
    script.chmod(0o700)
    printed = await run(
        peers, programs / "node", programs / "mcp-inspector", "--cli", notes.url, "--format", "json",
        "--method", "tools/call", "--tool-name", tool, *options,
        HOME=str(folder), PATH=f"{programs}:{os.environ['PATH']}", BROWSER=str(script), MCP_AUTO_OPEN_ENABLED="true",
        MCP_INSPECTOR_SECRET_STORE="memory",
    )  # fmt: skip
    [block] = printed["result"]["content"]
    return str(block["text"])


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_protection_lets_the_inspector_sign_in(peers: Path, tmp_path: Path, era: str) -> None:
    # `add_note` fails: with a refresh token, the inspector responds to a 403 for more scopes with a refresh
    async with protected_notes("2026-07-28" if era == "modern" else "2025-11-25") as notes:
        options = ("--callback-url", "http://127.0.0.1:0/oauth/callback", "--protocol-era", era)
        assert await inspect(peers, tmp_path, notes, "read_notes", *options) == "notes of alice"
    asked, _ = notes.requests("auth", "/authorize")
    check_authorization(asked, "notes:read", notes)
    [code] = notes.grants("authorization_code")
    assert code.values["resource"] == notes.url


async def test_protection_accepts_the_header_of_the_inspector(peers: Path, tmp_path: Path) -> None:
    async with protected_notes("2025-11-25") as notes:
        header = f"Authorization: Bearer {notes.token('notes:read notes:write')}"
        assert await inspect(peers, tmp_path, notes, "add_note", "--header", header) == "added"
    assert {step.status for step in notes.requests("mcp", "/mcp")} <= {200, 202, 204}
