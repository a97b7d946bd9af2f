"""The official schemas as an oracle: is this message valid in that revision?

2024-10-07 was never published as a schema; its shapes are in `SHAPES_2024_10_07`, taken by hand from the history of the
spec.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.versioning import is_stateless
from mcp_ref.jsonrpc.errors import ProtocolError
from mcp_ref.jsonrpc.messages import (
    JSON,
    Batch,
    ErrorResponse,
    Malformed,
    Notification,
    Object,
    Outgoing,
    Request,
    RequestId,
    Response,
    encode,
)
from mcp_ref.lib.jsonschema import Validator, compile_schema
from mcp_ref.revisions import REVISIONS
from mcp_ref.server import stateless
from mcp_ref.server.announcements import OpenSubscriptions
from mcp_ref.server.catalog import Catalog
from mcp_ref.transports.base import Notify
from tests.settings import DATA

if TYPE_CHECKING:
    from mcp_ref.session import Session

MODERN = tuple(revision.name for revision in REVISIONS if revision.era == "modern")
"""The revisions of the modern era."""

_ERRORS = {
    -32020: "HeaderMismatchError",
    -32021: "MissingRequiredClientCapabilityError",
    -32022: "UnsupportedProtocolVersionError",
}
"""Error code -> the type of the error in these revisions."""

_TASK_AUGMENTED = {"tools/call", "sampling/createMessage", "elicitation/create"}
_EMPTY_RESULTS = {"ping", "resources/subscribe", "resources/unsubscribe", "logging/setLevel"}


@functools.cache
def official(revision: str) -> Object:
    """Return the schema.json of a revision. 2024-10-07 uses that of 2024-11-05, except for tool results."""
    assert DATA is not None
    name = "2024-11-05" if revision == "2024-10-07" else revision
    value = json.loads((DATA / "mcp-schema" / name / "schema.json").read_text("utf-8"))
    assert isinstance(value, dict)
    if name in ("2025-11-25", "2026-07-28"):
        # schema.ts, from which they were made, says `string | number | boolean | string[]`; a form may ask for 3.14.
        scalar = value["$defs"]["ElicitResult"]["properties"]["content"]["additionalProperties"]["anyOf"][1]
        assert scalar == {"type": ["string", "integer", "boolean"]}
        scalar["type"][1] = "number"
    return value


def definitions(revision: str) -> Object:
    """Return all named types of a revision."""
    schema = official(revision)
    found = schema.get("$defs") or schema["definitions"]
    assert isinstance(found, dict)
    return found


@functools.cache
def validator(revision: str, name: str) -> Validator:
    """Return a compiled validator for one named type."""
    schema = official(revision)
    key = "$defs" if "$defs" in schema else "definitions"
    rooted: Object = {"$schema": schema["$schema"], key: schema[key], "$ref": f"#/{key}/{name}"}
    if key == "definitions":  # in draft-07 a $ref hides its siblings
        rooted = {"$schema": schema["$schema"], key: schema[key], "allOf": [{"$ref": f"#/{key}/{name}"}]}
    return compile_schema(rooted)


@functools.cache
def name_of_method(revision: str, method: str) -> str | None:
    """Return the type of a method's message: ListToolsRequest for `tools/list`."""
    for name, definition in definitions(revision).items():
        properties = definition.get("properties", {}) if isinstance(definition, dict) else {}
        declared = properties.get("method") if isinstance(properties, dict) else None
        if isinstance(declared, dict) and declared.get("const") == method:
            return name
    return None


def faults_of(message: Outgoing, revision: str, methods: dict[RequestId, str]) -> list[str]:
    """Return the schema violations of a message.

    Args:
        message: The message.
        revision: The name of the revision.
        methods: The methods of the requests to which the message may respond, by id.
    """
    if isinstance(message, Batch):
        return [fault for member in message.messages for fault in _faults(member, revision, methods)]
    return _faults(message, revision, methods)


def _faults(message: object, revision: str, methods: dict[RequestId, str]) -> list[str]:
    if isinstance(message, Request | Notification):
        return _faults_of_call(message, revision)
    if isinstance(message, Response):
        name = _result_type(revision, methods.get(message.id, ""), message.result)
        return [] if name is None else _faults_of_type(revision, name, message.result)
    if isinstance(message, ErrorResponse):
        return _faults_of_error(message, revision)
    assert isinstance(message, Malformed)
    return ["a malformed message was sent"]


def _faults_of_call(message: Request | Notification, revision: str) -> list[str]:
    name = name_of_method(revision, message.method)
    if name is not None:
        return _faults_of_type(revision, name, json.loads(encode(message)))
    is_about_tasks = revision in MODERN and message.method.removeprefix("notifications/").startswith("tasks")
    if is_about_tasks or message.method.startswith("com.example/"):
        return []  # an extension's, which this schema does not have
    return [f"{revision} has no {message.method}"]


def _faults_of_error(message: ErrorResponse, revision: str) -> list[str]:
    if message.id is None and revision < "2025-11-25":
        return []  # these schemas demand an id, but JSON-RPC demands null here, and JSON-RPC is followed
    name = _ERRORS.get(message.error.code) if revision in MODERN else None
    if name is None:
        name = "JSONRPCErrorResponse" if revision >= "2025-11-25" else "JSONRPCError"
    return _faults_of_type(revision, name, json.loads(encode(message)))


def _faults_of_type(revision: str, name: str, value: JSON) -> list[str]:
    if revision == "2024-10-07" and name == "CallToolResult":
        return [] if isinstance(value, dict) and "toolResult" in value else ["2024-10-07 wants toolResult"]
    return [f"{revision} {name}: {error} in {str(value)[:300]}" for error in validator(revision, name).errors(value)]


def _result_type(revision: str, method: str, result: Object) -> str | None:
    if result.get("resultType") == "input_required":
        return "InputRequiredResult"
    if result.get("resultType") == "task":
        return None  # an extension's
    if method in _TASK_AUGMENTED and "task" in result:
        return "CreateTaskResult"
    if method in _EMPTY_RESULTS:
        return "EmptyResult" if "EmptyResult" in definitions(revision) else "Result"
    name = name_of_method(revision, method)
    return name.removesuffix("Request") + "Result" if name is not None else None


class FrameChecker:
    """Checks all messages that one session sends against the schema of its revision.

    `checked_stateless` checks the responses to stateless requests.
    """

    def __init__(self, session: Session, faults: list[str]) -> None:
        self._session, self._faults = session, faults
        self._methods: dict[RequestId, str] = {}  # the method of each received request, by id
        self._stateless_ids: set[RequestId] = set()

    def attach(self) -> None:
        """Replace the functions of the session that send messages, by functions that check them first."""
        transport, serve = self._session.transport, self._session.dispatcher._serve
        send, round_trip = transport.send, transport.round_trip

        async def watched_serve(request: Request) -> Object:
            self._methods[request.id] = request.method
            if is_stateless(request.params):
                self._stateless_ids.add(request.id)
            else:
                self._stateless_ids.discard(request.id)
            return await serve(request)

        def check(message: Outgoing) -> None:
            # The probe of negotiation is a stateless request, before any revision is negotiated.
            is_probe = isinstance(message, Request) and is_stateless(message.params)
            revision = MODERN[-1] if is_probe else self._session.revision.name
            self._faults.extend(faults_of(message, revision, self._methods))

        def checked_send(message: Outgoing, related: RequestId | None = None) -> None:
            if related is None or related not in self._stateless_ids:
                check(message)
            send(message, related)

        def checked_round_trip(request: Request) -> Awaitable[None] | None:
            trip = round_trip(request)
            if trip is not None:
                check(request)
            return trip

        self._session.dispatcher._serve = watched_serve
        transport.send = checked_send  # type: ignore[method-assign]
        transport.round_trip = checked_round_trip  # type: ignore[method-assign]


def checked_stateless(faults: list[str]) -> Callable[..., Coroutine[object, object, Object]]:
    """Return a `stateless.serve_request` that checks all messages of a request against the schema of 2026-07-28."""
    serve_stateless = stateless.serve_request

    async def serve(
        catalog: Catalog,
        open_subscriptions: OpenSubscriptions,
        request: Request,
        notify: Notify,
        *arguments: Any,
        **options: Any,
    ) -> Object:
        def check(message: Outgoing) -> None:
            faults.extend(faults_of(message, MODERN[-1], {request.id: request.method}))

        def checked_notify(method: str, params: Object) -> None:
            check(Notification(method, params))
            notify(method, params)

        try:
            result = await serve_stateless(catalog, open_subscriptions, request, checked_notify, *arguments, **options)
        except ProtocolError as error:
            check(ErrorResponse(request.id, error.to_error()))
            raise
        check(Response(request.id, result))
        return result

    return serve
