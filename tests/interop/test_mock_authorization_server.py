"""Our protected server refuses the faulty tokens of npm oauth2-mock-server, and our client asks the user only once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_ref import AuthorizationCode, AuthorizationError, Client
from tests.interop.browser import Browser
from tests.interop.protected_notes import Notes, protected_by
from tests.interop.recorded import Recorded

SCRIPT = Path(__file__).parent / "peers" / "mock_authorization_server.mjs"


@pytest.fixture(scope="module")
def issuer(peers: Path, shared_record: Recorded) -> Iterator[str]:
    command: list[str | Path] = [peers / "node_modules/.bin/node", SCRIPT]
    with shared_record.listening(command, r"running on (http://\S+)", {"MCP_REF_PEERS": str(peers)}) as ready:
        yield ready[1]


async def use(issuer: str, fault: str, browser: Browser) -> Notes:
    """Sign in at the mock server, and call a tool."""
    async with protected_by(issuer, "2026-07-28") as notes:
        authorization = AuthorizationCode(client_id=fault, issuer=issuer, open_browser=browser.open)
        if fault != "none":
            with pytest.raises(AuthorizationError, match="refuses a token that was issued for it just now"):
                await Client(notes.url, authorization=authorization).connect()
            return notes
        async with Client(notes.url, authorization=authorization) as client:
            assert (await client.call_tool("read_notes")).text == "notes of alice"
        return notes


async def test_token_without_fault_is_accepted(issuer: str) -> None:
    browser = Browser()
    notes = await use(issuer, "none", browser)
    assert [step.status for step in notes.requests("mcp", "/mcp")] == [401, 200, 200]
    assert browser.opened[0]["resource"] == notes.url


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#token-handling-1",
    "2026-07-28/basic/authorization/index#token-handling-2",
    "2026-07-28/basic/authorization/index#token-handling-4",
)
@pytest.mark.parametrize("fault", ["audience", "expired", "issuer", "key", "signature"])
async def test_faulty_token_is_401_and_the_user_is_asked_once(issuer: str, fault: str) -> None:
    browser = Browser()
    notes = await use(issuer, fault, browser)
    first, second = notes.requests("mcp", "/mcp")
    assert (first.status, first.token, second.status) == (401, "", 401) and second.token
    assert second.challenge is not None and second.challenge.parameters["error"] == "invalid_token"
    assert b"not valid here" in second.body and fault.encode() not in second.body
    assert len(browser.opened) == 1
