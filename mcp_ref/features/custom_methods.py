"""Custom methods: requests and notifications that the specification does not define, such as those of an extension.

A server registers its handlers with `@server.method(name)`, and a client with `@client.method(name)`. The other side
sends the messages with `client.request`, `client.notify`, `context.request` and `context.notify`. A handler of a
notification blocks the event loop while it runs, so it must be short.

    legacy era  No capability declares a custom method, so a peer without a handler for a request returns -32601.
    2026-07-28  A custom method belongs to an extension, which both sides MUST declare; this package declares the
                extension of each registered handler. If a client did not declare the extension, the server refuses its
                request with -32021. Only clients send requests, and only servers send notifications.

The name of a method begins with the name of its extension, unless the program names another extension: the extension of
`com.example/search` and `com.example/search/cancel` is `com.example/search`.

Spec:  2026-07-28 basic/versioning#extension-negotiation; schema: JSONRPCRequest, JSONRPCNotification
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from ..basic.channel import RequestContext
from ..basic.lifecycle import CapabilityError, declares
from ..basic.meta import checked_extensions
from ..jsonrpc.errors import InvalidMessage, ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, Object
from ..lib.jsonschema import compile_schema
from ..lib.typed import to_json
from ..revisions import SPECIFIED, Method, Revision
from .invoke import call, handler_signature
from .typed_json import read_json, type_name

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass
class CustomData:
    """The params or the result of a custom method, as JSON. `_meta` and `resultType` belong to the protocol."""

    members: Object
    meta: Object | None = None

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        return self.members if self.meta is None else {**self.members, "_meta": self.meta}

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        members = {name: member for name, member in wire.items() if name not in ("_meta", "resultType")}
        return {"members": members, "_meta": wire.get("_meta")}


@dataclass
class CustomMethod:
    method: Method
    serve: Callable[[CustomData, RequestContext], Awaitable[CustomData]]
    receive: Callable[[CustomData], None]
    """The handler of a notification."""


def extension_of(method: str, extension: str | None) -> str:
    """Return the name of a method's extension. Raise ValueError for a method or extension with an invalid name."""
    if not isinstance(method, str):
        raise TypeError(f"the method must be a str, such as 'com.example/search', not {method!r:.100}")
    if method in SPECIFIED or method.startswith("rpc."):  # JSON-RPC 2.0, section 4: reserved
        raise ValueError(f"{method[:80]!r} belongs to a specification; choose a name such as com.example/search")
    first_two_parts = method.removeprefix("notifications/").split("/")[:2]
    name = extension or "/".join(first_two_parts)
    checked_extensions({name: {}})
    return name


def registrar(
    methods: dict[str, CustomMethod], extensions: Object, context_type: type | None, name: str, extension: str | None,
    notification: bool,
) -> Callable[[F], F]:  # fmt: skip
    """Return a decorator that adds a function to `methods`, and its extension to `extensions`."""
    owner = extension_of(name, extension)

    def register(function: F) -> F:
        if name in methods:
            raise ValueError(f"the method {name!r} is already registered")
        methods[name] = _custom_method(function, context_type, name, owner, notification)
        extensions.setdefault(owner, {})
        return function

    return register


def _custom_method(
    function: Callable[..., object], context_type: type | None, name: str, extension: str, notification: bool
) -> CustomMethod:
    signature = handler_signature(function, context_type)
    parameters = signature.parameters
    if len(parameters) > 1 or (parameters and parameters[0].schema.get("type", "object") != "object"):
        raise TypeError(f"{signature.name}() must have one parameter, the params, with a type such as a dataclass")
    if notification and (signature.is_async or signature.context_parameter):
        raise TypeError(f"{signature.name}(), a handler of a notification, must be a plain `def` without a context")
    validator = compile_schema(parameters[0].schema) if parameters else None

    def bind(params: CustomData) -> dict[str, object]:
        if validator is None:
            return {}
        try:
            validator.validate(params.members)
            return signature.bind({parameters[0].name: params.members})
        except ValueError as error:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from None

    async def serve(params: CustomData, context: RequestContext) -> CustomData:
        return data_of(await call(function, signature, bind(params), context))

    def receive(params: CustomData) -> None:
        try:
            function(**bind(params))
        except ProtocolError as error:
            log.info("ignored the notification %s: %s", name, error.message)
        except Exception:  # no response can report the error
            log.exception("the handler of the notification %s failed", name)

    data_type = "features.custom_methods:CustomData"
    result_type = None if notification else data_type
    method = Method(name, "both", data_type, result_type, f"extensions.{extension}")
    return CustomMethod(method, serve, receive)


def data_of(value: object) -> CustomData:
    """Return the params or the result of a custom method. Raise TypeError if the value is not an object in JSON."""
    written = {} if value is None else to_json(value)
    if not isinstance(written, dict):
        raise TypeError(f"params and results are objects in JSON, such as a dataclass or a dict, not {value!r:.80}")
    return CustomData(written)


def read_result(method: str, result: CustomData, returns: type[T]) -> T:
    """Return the result of a custom method as an object of a type. Raise InvalidMessage if the result does not fit."""
    try:
        return read_json(result.members, returns)
    except ValueError as error:
        raise InvalidMessage(f"the result of {method} is not of the type {type_name(returns)}: {error}") from None


def check_sendable(method: str, extension: str | None, revision: Revision, client: Object, server: Object) -> None:
    """Raise CapabilityError if the capabilities of the client or the server lack a method's extension (2026-07-28)."""
    name = extension_of(method, extension)
    if revision.era == "legacy":
        return
    # [2026-07-28 basic/versioning#extension-negotiation] both sides MUST support an extension
    if not declares(server, f"extensions.{name}"):
        raise CapabilityError(f"the server did not declare the extension {name}, so {method} was not sent")
    if not declares(client, f"extensions.{name}"):
        advice = f"create the client with extensions={{{name!r}: {{}}}}"
        raise CapabilityError(f"the client did not declare the extension {name}, so {method} was not sent; {advice}")
