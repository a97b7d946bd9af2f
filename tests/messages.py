"""Messages as JSON, and checks of responses."""

from __future__ import annotations

from typing import Any, TypeAlias

from mcp_ref.codec import members_of
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.revisions import Revision
from tests.settings import META, MODERN

CACHEABLE = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)
"""The methods whose results have caching hints."""

Received: TypeAlias = dict[str, Any]
"""A message from the package, or a part of one. A test reads its members without first checking their types."""


def request(method: str, params: Object | None = None, id: JSON = 1) -> Received:
    """Return a request as on the wire."""
    return {"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params is not None else {})}


def notification(method: str, params: Object | None = None) -> Received:
    """Return a notification as on the wire."""
    return {"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})}


def initialize(revision: str = "2025-11-25", capabilities: Object | None = None, id: JSON = "init") -> Received:
    """Return the first request of a session."""
    info: Object = {"name": "raw", "version": "1"}
    params: Object = {"protocolVersion": revision, "capabilities": capabilities or {}, "clientInfo": info}
    return request("initialize", params, id)


def stateless_request(
    method: str, params: Object | None = None, id: JSON = 1, capabilities: Object | None = None, **meta: JSON
) -> Received:
    """Return a stateless request.

    Args:
        method: The method.
        params: The params without `_meta`.
        id: The id.
        capabilities: The capabilities of the client; none by default.
        meta: Members of `_meta`; None leaves a member out. `protocolVersion`, `clientCapabilities`, `clientInfo` and
            `logLevel` get the prefix `META`; other names are used as they are.
    """
    usual: Object = {
        "protocolVersion": MODERN,
        "clientInfo": {"name": "raw", "version": "1"},
        "clientCapabilities": capabilities or {},
    }
    prefixed = {*usual, "logLevel"}
    members: Object = {}
    for name, value in {**usual, **meta}.items():
        if value is not None:
            members[META + name if name in prefixed else name] = value
    return request(method, {**(params or {}), "_meta": members}, id)


def server_info_meta() -> Object:
    """Return the `_meta` with the identity of a server named "s", as in each result of 2026-07-28."""
    return {f"{META}serverInfo": {"name": "s", "version": "0.0.0"}}


def complete(id: JSON = 1, **result: JSON) -> Object:
    """Return the response of a server named "s" in 2026-07-28."""
    return {"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "_meta": server_info_meta(), **result}}


def result_of(answer: JSON) -> Received:
    """Return the result in a response."""
    assert isinstance(answer, dict) and "result" in answer, answer
    result = answer["result"]
    assert isinstance(result, dict), answer
    return result


def text_of(answer: JSON) -> str:
    """Return the only text in the response to a tools/call, in any revision."""
    result = result_of(answer)
    if "toolResult" in result:
        return str(result["toolResult"])
    (block,) = result["content"]
    return str(block["text"])


def error_of(answer: JSON, code: int, id: JSON = 1) -> Received:
    """Return the error in a response. Fail if its code or id is another."""
    assert isinstance(answer, dict) and "error" in answer, answer
    error = answer["error"]
    assert isinstance(error, dict) and error["code"] == code and answer["id"] == id, answer
    assert isinstance(error["message"], str) and error["message"]
    return error


def shape_of(cls: type, revision: Revision) -> dict[str, bool]:
    """Return the members of a type in a revision: JSON name -> True if the member is required."""
    members = [member for member in members_of(cls) if member.availability.covers(revision)]
    return {
        member.name: member.is_constant or not member.is_optional or member.availability.requires(revision)
        for member in members
    }
