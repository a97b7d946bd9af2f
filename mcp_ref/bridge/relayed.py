"""Relayed objects: the params and results that pass through a bridge as JSON, instead of as dataclasses.

A usual session decodes each message to the dataclass of its method, which would lose the members that this package does
not know. So on both sides, a bridge registers every method as a custom method whose params and result are a
`RelayedObject`, and the sessions of `Server` and `Client` do all the rest as usual. A few fields of `_meta` belong to
one hop (client to bridge, or bridge to server), so they are never copied to the other: the progress token, and the
fields of a stateless request, such as the client's capabilities.

A cursor, a task id or a `requestState` of a server is *sealed* for an authenticated caller (the principal): the client
gets a signed text that contains it and the server's name, so that no other user can use it. If there are several
servers, every cursor is sealed, even without authentication, because the bridge has to find the server's name again.

Threats:
    bridge-foreign-cursor: A client reads another user's list or task with a cursor or task id that it has seen
        elsewhere. The bridge refuses it, because its signature covers the principal.

Spec:  2026-07-28 basic/index#_meta, server/utilities/pagination
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, cast

from ..basic import versioning
from ..basic.channel import RequestContext
from ..basic.meta import extended_meta
from ..features.custom_methods import CustomData, CustomMethod
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object
from ..revisions import SPECIFIED, Method, Revision

HOP_META: Final = frozenset({
    "progressToken", versioning.PROTOCOL_VERSION, versioning.CLIENT_CAPABILITIES, versioning.CLIENT_INFO,
    versioning.SERVER_INFO, versioning.LOG_LEVEL, versioning.SUBSCRIPTION_ID,
})  # fmt: skip
"""The keys of `_meta` that each side of the bridge writes for itself."""

SIGNATURE_BYTES: Final = 16
"""Length of the signature of a sealed text, in bytes."""

_RELAYED_OBJECT = "bridge.relayed:RelayedObject"  # a `Method` names its dataclasses as "module:class"


@dataclass
class RelayedObject(CustomData):
    """The params or the result of a relayed message: the whole JSON object as `members`, and fields to add to its
    `_meta` as `meta`."""

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        return self.members if self.meta is None else {**self.members, "_meta": extended_meta(self.members, self.meta)}

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        # The codec then reads this object, whose keys are the fields of the class.
        return {"members": wire, "_meta": wire.get("_meta")}


class RelayedMethods(dict[str, CustomMethod]):
    """Custom methods by name, as a session looks them up. There is one for every name, except for `served_here`, which
    the session serves itself. `serve` gets the requests of all of them, and `receive` the notifications."""

    def __init__(
        self, served_here: Collection[str], serve: Callable[[str, Object, Any], Awaitable[Object]],
        receive: Callable[[str, Object], None],
    ) -> None:  # fmt: skip
        super().__init__()
        self._served_here, self._serve, self._receive = served_here, serve, receive

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def get(self, name: str, default: object = None) -> CustomMethod | None:  # type: ignore[override]
        known = super().get(name)
        if known is not None:
            return known
        if name in self._served_here:
            return None
        method = self._relayed_method(name)
        if name in SPECIFIED:  # a peer can invent any number of other names, so those are not kept
            self[name] = method
        return method

    def _relayed_method(self, name: str) -> CustomMethod:
        async def serve(params: CustomData, context: RequestContext) -> CustomData:
            return RelayedObject(await self._serve(name, params.members, context))

        def receive(params: CustomData) -> None:
            self._receive(name, params.members)

        result = None if "notifications/" in name else _RELAYED_OBJECT
        return CustomMethod(Method(name, "both", _RELAYED_OBJECT, result), serve, receive)


def without_hop_meta(wire: Object) -> Object:
    """Return params or a result without the fields of `_meta` that belong to one hop."""
    meta = wire.get("_meta")
    if not isinstance(meta, dict) or HOP_META.isdisjoint(meta):
        return wire
    other_meta: Object = {key: value for key, value in meta.items() if key not in HOP_META}
    if other_meta:
        return {**wire, "_meta": other_meta}
    return {name: member for name, member in wire.items() if name != "_meta"}


def sealed(key: bytes, kind: str, server: str, principal: str | None, text: JSON) -> str:
    """Return a text that only clients of this principal can use, and that names its server.

    Args:
        key: The secret key of the bridge.
        kind: The use of the text, such as "cursor". A text that is sealed for one use is invalid for another.
        server: The name of the server that has issued `text`.
        principal: The authenticated caller; None without authorization.
        text: The server's own cursor, task id or state.
    """
    content = json.dumps([server, text], separators=(",", ":")).encode()
    signature = _signature(key, kind, principal, content)
    return base64.urlsafe_b64encode(signature + content).decode().rstrip("=")


def unsealed(key: bytes, kind: str, principal: str | None, text: JSON, servers: Collection[str]) -> tuple[str, JSON]:
    """Return the server, which is one of `servers`, and the original text of `sealed`. Raise ProtocolError -32602 if
    the bridge did not seal the text for this kind and principal."""
    raw = b""  # has no valid signature, so a text that is not base64 is refused below
    if isinstance(text, str):
        with contextlib.suppress(ValueError):
            padding = "=" * (-len(text) % 4)  # base64 has groups of four characters
            raw = base64.urlsafe_b64decode(text + padding)
    signature, content = raw[:SIGNATURE_BYTES], raw[SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(key, kind, principal, content)):
        fault = f"this {kind} was not issued to this caller, or not by this bridge; get a new one"
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {fault}")
    server, original = cast("tuple[str, JSON]", json.loads(content))
    if server not in servers:  # another process has the same key, or this one had other servers before
        fault = f"this {kind} belongs to the server {server[:80]!r}, which this bridge does not have; get a new one"
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {fault}")
    return server, original


def _signature(key: bytes, kind: str, principal: str | None, content: bytes) -> bytes:
    purpose = json.dumps([kind, principal]).encode()
    return hmac.digest(key, purpose + content, "sha256")[:SIGNATURE_BYTES]
