"""Stateless requests (modern era): each one contains its own revision and the capabilities of the client.

A server MUST NOT rely on earlier requests, not even on the same connection. So any process can serve any request, and a
crash loses no session. A server that keeps state between requests MUST give it an identifier, which the client then
sends with each request. [2026-07-28 basic/index#statelessness]

    Fault of the request                         Error code, HTTP status
    `_meta` lacks the revision or capabilities   -32602, HTTP 400
    the headers differ from the body             -32020, HTTP 400 (headers.py)
    a needed client capability is not declared   -32021 with `requiredCapabilities`, HTTP 400
    the server does not support the revision     -32022 with `supported`, HTTP 400; the client SHOULD use one of these
    the method is unknown                        -32601, HTTP 404
Because programs have used the codes -32000 to -32019 with different meanings, a receiver MUST NOT interpret them,
except -32002. The codes -32020 to -32099 belong to the specification, and applications SHOULD avoid all codes from
-32768 to -32000. [2026-07-28 basic/index#error-codes]

A server MUST give each result a `resultType`: "complete", "input_required" (mrtr.py), or the type of an extension, such
as "task". If it is missing, the client assumes "complete", because legacy servers do not send it. An unknown
`resultType` is an error, because the client cannot know the members of such a result.

A *dual-era* client or server supports both eras. The client finds out which of them the server speaks
(client/negotiation.py), and SHOULD remember the era of a process (stdio) or origin (HTTP). The server serves each
request with modern `_meta` as a stateless request, while `initialize` opens a legacy session. A modern-only server that
refuses `initialize` SHOULD list its revisions, so that a legacy client can show them to the user.
[2026-07-28 basic/versioning#backward-compatibility-with-initialization-based-versions]

Spec:  2026-07-28 basic/versioning, basic/index#_meta. The legacy handshake is in `lifecycle.py`.
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": {
           "io.modelcontextprotocol/protocolVersion": "2026-07-28",
           "io.modelcontextprotocol/clientCapabilities": {}}}}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
MODERN_ERROR_CODES: Final = (HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION)
"""Error codes that only a modern server sends."""
REPLACED_CODES: Final = {-32002: INVALID_PARAMS, -32042: INTERNAL_ERROR}  # legacy error code -> its replacement


class MalformedRequest(ProtocolError):
    """The error for a request that lacks the required `_meta`. Over HTTP, its status is 400."""


class MissingCapability(ProtocolError, CapabilityError):
    """The error for a request that needs a client capability and does not declare it."""

    def __init__(self, path: str) -> None:
        required: Object = {}
        for name in reversed(capability_keys(path)):
            required = {name: required}  # `elicitation.url` becomes {"elicitation": {"url": {}}}
        # [2026-07-28 basic/index#_meta] the error MUST be -32021, whose data lists the missing capabilities
        text = f"this request needs the client capability {path}; declare it in the _meta of the request"
        super().__init__(MISSING_REQUIRED_CLIENT_CAPABILITY, text, {"requiredCapabilities": required})


def is_stateless(params: Object) -> bool:
    """Return True if a request is stateless, because its `_meta` has a revision."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION in meta


def read_required_meta(params: Object) -> tuple[Object, str, Object]:
    """Return a request's `_meta`, revision and capabilities. Raise MalformedRequest if one is missing or invalid."""
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        fields = f"{PROTOCOL_VERSION} and {CLIENT_CAPABILITIES}"
        raise MalformedRequest(INVALID_PARAMS, f"Invalid params: _meta is missing; it must have {fields}")
    version, capabilities = meta.get(PROTOCOL_VERSION), meta.get(CLIENT_CAPABILITIES)
    # [2026-07-28 basic/index#_meta] a request without a required field MUST be rejected with -32602
    if not isinstance(version, str):
        raise MalformedRequest(INVALID_PARAMS, f"Invalid params: _meta must have {PROTOCOL_VERSION}, a string")
    if not isinstance(capabilities, dict):
        raise MalformedRequest(INVALID_PARAMS, f"Invalid params: _meta must have {CLIENT_CAPABILITIES}, an object")
    return meta, version, capabilities


def read_request_meta(params: Object, supported: Sequence[Revision]) -> tuple[Object, Revision, Object]:
    """Return the `_meta`, revision and capabilities of a stateless request. Raise ProtocolError if one is invalid."""
    meta, version, capabilities = read_required_meta(params)
    revision = REVISIONS_BY_NAME.get(version)
    # `reversed`, because most requests have the latest revision, which is the last, and each comparison takes time
    if revision is None or revision.era != "modern" or revision not in reversed(supported):
        raise unsupported_revision(version, supported)
    return meta, revision, capabilities


def unsupported_revision(requested: str, supported: Iterable[Revision]) -> ProtocolError:
    names: list[JSON] = [revision.name for revision in sorted(supported, reverse=True)]
    # [2026-07-28 basic/versioning#protocol-version-negotiation] the server MUST list the versions that it supports
    data: Object = {"supported": names, "requested": requested[:100]}
    return ProtocolError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)


def without_legacy_codes(error: ProtocolError) -> ProtocolError:
    """Return the error, or a copy with another code if its own is in `REPLACED_CODES`."""
    # [2026-07-28 basic/index#error-codes] a server MUST NOT emit the codes of legacy revisions
    code = REPLACED_CODES.get(error.code)
    return error if code is None else ProtocolError(code, error.message, error.data)


def with_request_meta(params: Object, revision: Revision, capabilities: Object, info: Object) -> Object:
    """Return a copy of `params` with the `_meta` that a stateless request MUST have."""
    fields: Object = {PROTOCOL_VERSION: revision.name, CLIENT_INFO: info, CLIENT_CAPABILITIES: capabilities}
    return {**params, "_meta": extended_meta(params, fields)}
