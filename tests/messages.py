"""Messages as JSON, and checks of responses."""

from __future__ import annotations

from mcp_ref.jsonrpc.messages import JSON, Object
from tests.settings import META, MODERN

CACHEABLE = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)
"""The methods whose results say how long they may be kept."""


def request(method: str, params: Object | None = None, id: JSON = 1) -> Object:
    """A request as on the wire."""
    return {"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params is not None else {})}


def notification(method: str, params: Object | None = None) -> Object:
    """A notification as on the wire."""
    return {"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})}


def initialize(revision: str = "2025-11-25", capabilities: Object | None = None, id: JSON = "init") -> Object:
    """The first request of every legacy connection."""
    info: Object = {"name": "raw", "version": "1"}
    params: Object = {"protocolVersion": revision, "capabilities": capabilities or {}, "clientInfo": info}
    return request("initialize", params, id)


def stateless_request(
    method: str, params: Object | None = None, id: JSON = 1, capabilities: Object | None = None, **meta: JSON
) -> Object:
    """A request of 2026-07-28, which stands alone. meta: more of `_meta`, or None for what is to be left out:
    `protocolVersion`, `clientCapabilities`, `clientInfo`, `logLevel` by these names, others as they are."""
    said: Object = {
        "protocolVersion": MODERN,
        "clientInfo": {"name": "raw", "version": "1"},
        "clientCapabilities": capabilities or {},
    }
    own = {*said, "logLevel"}
    given = {META + name if name in own else name: value for name, value in {**said, **meta}.items()}
    return request(
        method, {**(params or {}), "_meta": {name: value for name, value in given.items() if value is not None}}, id
    )


def server_info_meta() -> Object:
    """Who the servers of these tests are, as each result of 2026-07-28 says it."""
    return {f"{META}serverInfo": {"name": "s", "version": "0.0.0"}}


def complete(id: JSON = 1, **result: JSON) -> Object:
    """The answer that a server named "s" gives in 2026-07-28."""
    return {"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "_meta": server_info_meta(), **result}}


def result_of(answer: JSON) -> Object:
    """The result in an answer."""
    assert isinstance(answer, dict) and isinstance(answer.get("result"), dict), answer
    result = answer["result"]
    assert isinstance(result, dict)
    return result


def error_of(answer: JSON, code: int, id: JSON = 1) -> Object:
    """The error in an answer, which has that code and answers that request."""
    assert isinstance(answer, dict) and isinstance(answer.get("error"), dict), answer
    error = answer["error"]
    assert isinstance(error, dict) and error["code"] == code and answer["id"] == id, answer
    assert isinstance(error["message"], str) and error["message"]
    return error
