"""Elicitation: a server asks the client's user for information in the middle of a request.

*Form mode*: the server sends a message and a flat JSON Schema. The client shows a form and returns the values.
*URL mode*: the server sends a web address. The user opens it in a browser, and the data never pass through the client.
The user is in control, and can accept, decline (an explicit no), or cancel (close the form). In URL mode `accept` means
only that the user agreed to open the address. The work on that page may not be done.

Secrets. Servers MUST NOT request passwords, API keys, tokens or payment data in a form, and MUST use URL mode for them
[2025-11-25 client/elicitation#user-interaction-model]. The values of a form pass through the client, its logs, the
model's context and other servers. So URL mode exists (SEP-1036): for API keys, payments, and third-party OAuth, where
the server is the OAuth client. The third party's tokens MUST NOT reach the MCP client. URL mode MUST NOT be used to
authorize the MCP client itself.

Phishing [2025-11-25 client/elicitation#phishing]. Alice starts an elicitation and sends its URL to Bob. Bob logs in,
and the server binds Bob's tokens to Alice. So the server MUST verify that the user who opens the URL is the user who
started the request. The URL leads to a page of the server, which compares the user of the browser's session with the
caller (the `sub` claim) before it redirects. A form cannot prove the user's identity.

Safe URLs [2025-11-25 client/elicitation#safe-url-handling]. The client MUST show the whole URL and get consent. It MUST
NOT prefetch the URL. It MUST open the URL where neither client nor model can read the page: in a browser, not in an
embedded web view. It SHOULD highlight the domain and warn of Punycode. The server MUST NOT put user data or a login
link into the URL, because a malicious client could use it. A form SHOULD NOT hold clickable links, so that every link
outside `url` is suspicious. The client MUST name the server, and SHOULD limit the rate (until 2025-11-25).

    2025-06-18  Form mode only. Servers MUST NOT request sensitive data. Clients SHOULD name the server, let the user
                review the values, and offer decline and cancel. `enumNames` for choices. Defaults only for booleans.
    2025-11-25  URL mode, with `elicitationId`, `notifications/elicitation/complete`, and the error -32042 for a request
                that needs a URL first. The three duties of clients became MUST. A client declares its modes; `{}` means
                form only. Servers MUST NOT use an undeclared mode; it is -32602 (MUST). Choices with `oneOf` and
                `const`, multiple choices, defaults for all types (SEP-1330, SEP-1034). The server MUST bind its state
                to the user, not to a session id alone.
    2026-07-28  `elicitation/create` is an input request inside an `input_required` result. The result of the retry
                shows the outcome, so `elicitationId`, the notification and -32042 were removed; the server keeps its
                own identifier in `requestState`. A client that fails sends nothing: servers MUST handle that.

Spec:  client/elicitation (2025-06-18 to 2026-07-28); schema: ElicitRequest, ElicitResult, PrimitiveSchemaDefinition
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": "Your name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}}
       {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "content": {"name": "Ada"}}}
       {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "550e8400"}}
Above: server/context.py (`Context.elicit`, `Context.elicit_url`), client/handlers.py
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object
from ..lib.jsonschema import compile_schema
from ..revisions import R2025_11_25, R2026_07_28, Availability, Revision
from .task_augmentation import TaskField, without_task_field

URL_ELICITATION_REQUIRED = -32042
"""The error code of a request that is served only after the user has visited a URL. 2025-11-25 only.
[2025-11-25 client/elicitation#url-elicitation-required-error]"""


@dataclass
class ElicitRequestFormParams:
    """A request for the values of a form."""

    message: str
    """The reason for the request, for the user."""
    requested_schema: Object
    """A JSON Schema of the form: a flat object of strings, numbers, booleans and choices."""
    mode: Annotated[Literal["form"] | None, Availability(since=R2025_11_25)] = None
    """None means "form"."""
    meta: Object | None = None
    task: TaskField = None


@dataclass
class ElicitRequestURLParams:
    """A web page for the user to visit."""

    message: str
    """The reason for the visit, for the user."""
    url: str
    elicitation_id: Annotated[str | None, Availability(until=R2026_07_28, required_since=R2025_11_25)] = None
    """A unique identifier, which `notifications/elicitation/complete` repeats. 2025-11-25 only."""
    meta: Object | None = None
    mode: Literal["url"] = "url"
    task: TaskField = None


@dataclass
class ElicitRequestParams:
    """The params of `elicitation/create`. In JSON the params are the form or the URL itself, told apart by `mode`."""

    request: ElicitRequestFormParams | ElicitRequestURLParams

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        return cast(Object, wire["request"])

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return {"request": without_task_field(wire, revision)}


@dataclass
class ElicitResult:
    """The user's decision."""

    action: Literal["accept", "decline", "cancel"]
    """The decision: "decline" is an explicit no; "cancel" means that the user closed the form without a decision."""
    content: dict[str, str | int | float | bool | list[str]] | None = None
    """The values of an accepted form."""
    meta: Object | None = None


@dataclass
class ElicitationCompleteNotificationParams:
    """The identifier of a URL elicitation that the user has completed. 2025-11-25 only."""

    elicitation_id: str
    meta: Object | None = None


ElicitationHandler: TypeAlias = Callable[[ElicitRequestFormParams | ElicitRequestURLParams], Awaitable[ElicitResult]]
"""The client's function that shows the request and the server's name. It opens a URL only with the user's consent."""

_COMMON_KEYWORDS = {"type", "title", "description", "default"}
_KEYWORDS_BY_TYPE: dict[str, set[str]] = {
    "string": _COMMON_KEYWORDS | {"minLength", "maxLength", "format", "enum", "enumNames", "oneOf", "pattern"},
    "number": _COMMON_KEYWORDS | {"minimum", "maximum"},
    "integer": _COMMON_KEYWORDS | {"minimum", "maximum"},
    "boolean": _COMMON_KEYWORDS,
    "array": _COMMON_KEYWORDS | {"minItems", "maxItems", "items"},
}
FORMATS = ("email", "uri", "date", "date-time")
"""The formats of a text field. [2025-11-25 client/elicitation#requested-schema]"""


def schema_fault(schema: Object, revision: Revision) -> str | None:
    """Return the reason why a schema is unfit for a form, or None if the schema is fit."""
    # [2025-11-25 client/elicitation#requested-schema] the schema is flat, so that any client can show a form
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        return 'requestedSchema must be a flat object: {"type": "object", "properties": {...}}'
    for name, field in properties.items():
        kind = field.get("type") if isinstance(field, dict) else None
        if not isinstance(field, dict) or type(kind) is not str or kind not in _KEYWORDS_BY_TYPE:
            return f"{name}: a field must be a string, number, integer, boolean or a list of choices, not nested"
        if kind == "array" and (not revision.elicitation_modes or not _is_choice(field.get("items"))):
            return f"{name}: a list must be a choice of strings (items.enum or items.anyOf), since revision 2025-11-25"
        if unknown := field.keys() - _KEYWORDS_BY_TYPE[kind]:
            return f"{name}: {', '.join(sorted(unknown))} cannot be used in a form's {kind} field"
        if field.get("format") is not None and field["format"] not in FORMATS:
            return f"{name}: the format must be one of {', '.join(FORMATS)}"
    return None


def _is_choice(items: JSON) -> bool:
    return isinstance(items, dict) and (isinstance(items.get("enum"), list) or isinstance(items.get("anyOf"), list))


def url_fault(url: str) -> str | None:
    """Return the reason why the client must not open a URL, or None for an http or https URL with a host."""
    parts = urlsplit(url) if url.isprintable() and " " not in url else None
    if parts is None or parts.scheme not in ("https", "http") or not parts.hostname:
        # [2025-11-25 client/elicitation#safe-url-handling] file: or javascript: could act on the user's computer
        return f"the url must be an http or https address, not {url[:100]!r}"
    return None


def content_errors(schema: Object, content: Object) -> list[str]:
    """Return the breaches of a form's schema by its values. Formats such as "email" are checked, too."""
    return [str(error) for error in compile_schema(schema, assert_formats=True).errors(content)]


def supported_modes(capability: Object) -> set[str]:
    """Return the modes that an `elicitation` capability declares."""
    # [2025-11-25 client/elicitation#capabilities] {} means form mode only
    return {mode for mode in ("form", "url") if capability.get(mode) is not None} or {"form"}


def check_request(
    request: ElicitRequestFormParams | ElicitRequestURLParams, modes: set[str], revision: Revision
) -> None:
    """Raise ProtocolError -32602 if the client did not declare the mode, or the form or URL is invalid."""
    mode = "url" if isinstance(request, ElicitRequestURLParams) else "form"
    if mode not in modes:
        # [2025-11-25 client/elicitation#error-handling] an undeclared mode MUST be -32602
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: this client does not support elicitation mode {mode!r}")
    if isinstance(request, ElicitRequestURLParams):
        fault = url_fault(request.url)
    else:
        fault = schema_fault(request.requested_schema, revision)
    if fault is not None:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {fault}")


def checked_result(request: ElicitRequestFormParams | ElicitRequestURLParams, result: ElicitResult) -> ElicitResult:
    """Return the result to send, with defaults. Raise ValueError if the content does not match the schema."""
    if result.action != "accept" or isinstance(request, ElicitRequestURLParams):
        # [2025-11-25 client/elicitation#response-actions] content only with an accepted form
        return ElicitResult(result.action, None, result.meta)
    properties = request.requested_schema["properties"]
    assert isinstance(properties, dict)
    defaults = {n: f["default"] for n, f in properties.items() if isinstance(f, dict) and f.get("default") is not None}
    content: Object = {**defaults, **(result.content or {})}  # type: ignore[dict-item]
    if errors := content_errors(request.requested_schema, content):
        raise ValueError(f"the elicitation handler's content does not match the requested schema: {'; '.join(errors)}")
    return ElicitResult("accept", content, result.meta)  # type: ignore[arg-type]


def url_elicitations(error: ProtocolError) -> dict[str, ElicitRequestParams]:
    """Return the URL elicitations that an error -32042 demands, by id. Other errors demand none.

    A client of 2025-11-25 waits for their completion. A server of 2026-07-28 sends them as input requests instead.
    """
    listed = error.data.get("elicitations") if isinstance(error.data, dict) else None
    if error.code != URL_ELICITATION_REQUIRED or not isinstance(listed, list):
        return {}
    found: dict[str, ElicitRequestParams] = {}
    for each in listed:
        if isinstance(each, dict) and isinstance(id := each.get("elicitationId"), str):
            page = ElicitRequestURLParams(str(each.get("message")), str(each.get("url")), id)
            found.setdefault(id, ElicitRequestParams(page))
    return found


def url_required(message: str, elicitations: list[ElicitRequestURLParams]) -> ProtocolError:
    """Return the error to raise if the user must visit URLs before a request can be served.

    A client of 2025-11-25 gets the error -32042. A client of 2026-07-28 gets an `input_required` result instead.

    Args:
        message: The reason, for the user.
        elicitations: The URLs; each has an `elicitation_id`.
    """
    pages = [(each.message, each.url, each.elicitation_id) for each in elicitations]
    data: JSON = [{"mode": "url", "message": text, "url": url, "elicitationId": id} for text, url, id in pages]
    return ProtocolError(URL_ELICITATION_REQUIRED, message, {"elicitations": data})
