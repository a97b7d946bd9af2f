"""The stateless era: no handshake. Each request says which revision it is in, who asks, and what the client can do.

A server that speaks both eras tells them apart request by request: one that carries a revision in its `_meta` is served
by what it says, and by nothing that was said before.

Spec:  2026-07-28 basic/versioning, basic/index#meta
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": {
           "io.modelcontextprotocol/protocolVersion": "2026-07-28",
           "io.modelcontextprotocol/clientCapabilities": {}}}}
Elsewhere: the handshake of the earlier revisions (lifecycle.py)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, JSON, Object
from ..revisions import Revision, find_revision
from .lifecycle import CapabilityError, capability_path
from .meta import with_meta

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"

HEADER_MISMATCH: Final = -32020
MISSING_REQUIRED_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022
MODERN_ERRORS: Final = frozenset({HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION})
"""Errors by which a server shows that it is of this era."""

REPLACED_CODES: Final = {-32002: INVALID_PARAMS, -32042: INTERNAL_ERROR}
"""Errors of earlier revisions (resource not found, URL elicitation required), and what is said instead of them."""


class MalformedRequest(ProtocolError):
    """A request without what every request must carry. Over HTTP, unlike other invalid params, it is a 400."""


class MissingCapability(ProtocolError, CapabilityError):
    """A request cannot be served without something that its client did not declare."""

    def __init__(self, path: str) -> None:
        required: Object = {}
        for name in reversed(capability_path(path)):
            required = {name: required}
        # [2026-07-28 basic/index#meta] MUST be -32021, whose data lists the missing capabilities
        text = f"this needs {path}, which the request's client capabilities do not have"
        super().__init__(MISSING_REQUIRED_CLIENT_CAPABILITY, text, {"requiredCapabilities": required})


@dataclass(slots=True)
class RequestMeta:
    """What a request says about itself and its client. client_info as on the wire: it is for display alone."""

    revision: Revision
    capabilities: Object
    client_info: JSON
    log_level: JSON


def is_stateless(params: Object) -> bool:
    """Whether a request is of this era: it says which revision it is in."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION in meta


def read_required_meta(params: Object) -> tuple[Object, str, Object]:
    """What every request must carry: its `_meta`, and in it a revision's name and the client's capabilities. Raises
    MalformedRequest."""
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        fields = f"{PROTOCOL_VERSION} and {CLIENT_CAPABILITIES}"
        raise MalformedRequest(INVALID_PARAMS, f"Invalid params: _meta is missing, whose fields {fields} are required")
    version, capabilities = meta.get(PROTOCOL_VERSION), meta.get(CLIENT_CAPABILITIES)
    # [2026-07-28 basic/index#meta] a request without a required field MUST be rejected with -32602
    if not isinstance(version, str):
        raise MalformedRequest(INVALID_PARAMS, f"Invalid params: _meta has no {PROTOCOL_VERSION}, a string")
    if not isinstance(capabilities, dict):
        raise MalformedRequest(INVALID_PARAMS, f"Invalid params: _meta has no {CLIENT_CAPABILITIES}, an object")
    return meta, version, capabilities


def read_request_meta(params: Object, supported: Sequence[Revision]) -> RequestMeta:
    """What a request must say, and may. Raises MalformedRequest, and ProtocolError for a revision that is not ours."""
    meta, version, capabilities = read_required_meta(params)
    revision = find_revision(version)
    if revision is None or revision.era != "modern" or revision not in supported:
        raise unsupported_revision(version, supported)
    return RequestMeta(revision, capabilities, meta.get(CLIENT_INFO), meta.get(LOG_LEVEL))


def unsupported_revision(requested: str, supported: Iterable[Revision]) -> ProtocolError:
    """The error for a revision that is not ours: it says which ones are, the latest first."""
    names: list[JSON] = [revision.name for revision in sorted(supported, reverse=True)]
    # [2026-07-28 basic/versioning#protocol-version-negotiation] MUST list the versions that it does support
    data: Object = {"supported": names, "requested": requested[:100]}
    return ProtocolError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)


def without_legacy_codes(error: ProtocolError) -> ProtocolError:
    """A handler's error as it can be said in this era."""
    # [2026-07-28 basic/index#error-codes] MUST NOT emit the codes that were of earlier revisions alone
    code = REPLACED_CODES.get(error.code)
    return error if code is None else ProtocolError(code, error.message, error.data)


def with_request_meta(
    params: Object, revision: Revision, capabilities: Object, info: Object, log_level: str | None
) -> Object:
    """A client's params, saying what every request must say."""
    said: Object = {PROTOCOL_VERSION: revision.name, CLIENT_INFO: info, CLIENT_CAPABILITIES: capabilities}
    if log_level is not None:
        said[LOG_LEVEL] = log_level
    return {**params, "_meta": with_meta(params, said)}
