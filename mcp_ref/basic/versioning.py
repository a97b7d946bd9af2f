"""Stateless requests, the modern era: each request names its revision, its client and the client's capabilities.

A server MUST NOT rely on earlier requests, even on the same connection. So any process can serve any request, a crash
loses no session, and no request can use capabilities that only another request declared. State across requests MUST
have an explicit identifier, which the client sends with each request. [2026-07-28 basic/index#statelessness]

    `_meta` without revision or capabilities   -32602, HTTP 400
    headers differ from the body               -32020, HTTP 400 (headers.py)
    an undeclared client capability is needed  -32021 with `requiredCapabilities`, HTTP 400
    a revision that the server does not speak  -32022 with `supported`, HTTP 400: the client SHOULD choose one of these
    an unknown method                          -32601, HTTP 404
-32000 to -32019 are legacy: SDKs gave them different meanings, so receivers MUST NOT interpret them, except -32002.
The specification owns -32020 to -32099; others SHOULD avoid -32768 to -32000. [2026-07-28 basic/index#error-codes]

Each result MUST have a `resultType`: "complete", "input_required" (mrtr.py), or a type of an extension, as "task". A
client treats an absent type as "complete" (a legacy server), and an unknown type as an error: the shape is unknown too.

A *dual-era* server serves a request with modern `_meta` from that `_meta` only. `initialize` opens a legacy session and
never negotiates 2026-07-28. A dual-era client sends `server/discover` first; on HTTP, any request works. A result or a
modern error comes from a modern server. After another error, or silence, the client sends `initialize`. It SHOULD
remember the era of the process (stdio) or origin (HTTP). A modern server that refuses `initialize` SHOULD list its
revisions, which a legacy client can show to its user. Names of clients and servers are self-reported: for display only.
[2026-07-28 basic/versioning#backward-compatibility-with-initialization-based-versions]

Spec:  2026-07-28 basic/versioning, basic/index#_meta. The legacy handshake is in `lifecycle.py`.
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": {
           "io.modelcontextprotocol/protocolVersion": "2026-07-28",
           "io.modelcontextprotocol/clientCapabilities": {}}}}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, JSON, Object
from ..revisions import REVISIONS_BY_NAME, Revision
from .lifecycle import CapabilityError, capability_keys
from .meta import extended_meta

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"

HEADER_MISMATCH: Final = -32020
MISSING_REQUIRED_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022
MODERN_ERROR_CODES: Final = frozenset(
    {HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION}
)
"""Error codes that only a modern server sends."""
REPLACED_CODES: Final = {-32002: INVALID_PARAMS, -32042: INTERNAL_ERROR}
"""Legacy codes that MUST NOT be sent (unknown resource, URL elicitation required), with their replacements."""


class MalformedRequest(ProtocolError):
    """A request without the required `_meta`. On HTTP, unlike other invalid params, it is a 400."""


class MissingCapability(ProtocolError, CapabilityError):
    """A request that needs a client capability, but does not declare it."""

    def __init__(self, path: str) -> None:
        required: Object = {}
        for name in reversed(capability_keys(path)):
            required = {name: required}
        # [2026-07-28 basic/index#_meta] MUST be -32021, whose data lists the missing capabilities
        text = f"this request needs the client capability {path}, which its _meta does not declare"
        super().__init__(MISSING_REQUIRED_CLIENT_CAPABILITY, text, {"requiredCapabilities": required})


@dataclass(slots=True)
class RequestMeta:
    """The `_meta` of a stateless request. `client_info` is self-reported, and for display only."""

    revision: Revision
    capabilities: Object
    client_info: JSON
    log_level: JSON


def is_stateless(params: Object) -> bool:
    """Return True if a request is stateless: its `_meta` names a revision."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION in meta


def read_required_meta(params: Object) -> tuple[Object, str, Object]:
    """Return a request's `_meta`, revision and capabilities. Raise MalformedRequest if one of them is missing."""
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        fields = f"{PROTOCOL_VERSION} and {CLIENT_CAPABILITIES}"
        raise MalformedRequest(INVALID_PARAMS, f"Invalid params: _meta is missing; {fields} are required")
    version, capabilities = meta.get(PROTOCOL_VERSION), meta.get(CLIENT_CAPABILITIES)
    # [2026-07-28 basic/index#_meta] a request without a required field MUST be rejected with -32602
    if not isinstance(version, str):
        raise MalformedRequest(INVALID_PARAMS, f"Invalid params: _meta has no {PROTOCOL_VERSION}, a string")
    if not isinstance(capabilities, dict):
        raise MalformedRequest(INVALID_PARAMS, f"Invalid params: _meta has no {CLIENT_CAPABILITIES}, an object")
    return meta, version, capabilities


def read_request_meta(params: Object, supported: Sequence[Revision]) -> RequestMeta:
    """Return the `_meta` of a stateless request. Raise ProtocolError if it is malformed or its revision unsupported."""
    meta, version, capabilities = read_required_meta(params)
    revision = REVISIONS_BY_NAME.get(version)
    if revision is None or revision.era != "modern" or revision not in supported:
        raise unsupported_revision(version, supported)
    return RequestMeta(revision, capabilities, meta.get(CLIENT_INFO), meta.get(LOG_LEVEL))


def unsupported_revision(requested: str, supported: Iterable[Revision]) -> ProtocolError:
    """Return the error for an unsupported revision. It lists the supported ones, latest first."""
    names: list[JSON] = [revision.name for revision in sorted(supported, reverse=True)]
    # [2026-07-28 basic/versioning#protocol-version-negotiation] MUST list the versions that it does support
    data: Object = {"supported": names, "requested": requested[:100]}
    return ProtocolError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)


def without_legacy_codes(error: ProtocolError) -> ProtocolError:
    """Return a handler's error, with the modern code if its own code is in `REPLACED_CODES`."""
    # [2026-07-28 basic/index#error-codes] MUST NOT emit the codes of legacy revisions
    code = REPLACED_CODES.get(error.code)
    return error if code is None else ProtocolError(code, error.message, error.data)


def with_request_meta(
    params: Object, revision: Revision, capabilities: Object, info: Object, log_level: str | None
) -> Object:
    """Return a client's params with the required `_meta`."""
    fields: Object = {PROTOCOL_VERSION: revision.name, CLIENT_INFO: info, CLIENT_CAPABILITIES: capabilities}
    if log_level is not None:
        fields[LOG_LEVEL] = log_level
    return {**params, "_meta": extended_meta(params, fields)}
