r"""Elicitation: a server asks the client's user for information while the server works on a request.

*Form mode*: the server sends a message and a flat JSON Schema; the client shows a form for it and returns the values.
*URL mode*: the server sends a URL, which the user opens in a browser to enter the data there, not in the client.
The user accepts, declines (an explicit no), or cancels (closes the dialog). In URL mode, "accept" means only that the
user agreed to open the URL, and perhaps has not finished the work on that web page.

Secrets. Servers MUST NOT request passwords, API keys, tokens or payment data with a form, but MUST use URL mode for
such data [2025-11-25 client/elicitation#user-interaction-model], because the client, its logs, the model and other
servers can see the values of a form. URL mode (SEP-1036) is for API keys, payments, and third-party OAuth, in which the
server is an OAuth client of another service. The tokens of this service MUST NOT reach the MCP client. A server MUST
NOT use URL mode to authorize the MCP client itself.

Phishing [2025-11-25 client/elicitation#phishing]. Suppose that Alice starts an elicitation and sends its URL to Bob. If
Bob opens it and logs in, the server believes that Bob's tokens belong to Alice. So the server MUST verify that the same
user sent the MCP request and opens the URL: the URL leads to a web page of the server, which compares the browser's
user with the MCP user (the `sub` claim of the access token) before it redirects.

Safe URLs [2025-11-25 client/elicitation#safe-url-handling]. The client MUST show the whole URL and get consent, and
MUST NOT fetch the URL by itself. It MUST open the web page where neither client nor model can read it: in a browser,
not in an embedded web view. It SHOULD highlight the domain, and warn of Punycode, because a domain in other letters can
look like a known one. The URL MUST NOT contain credentials or other sensitive data, because a malicious client could
use them. A form SHOULD NOT contain clickable links. The client MUST show the server's name.
Until 2025-11-25, the client SHOULD also limit the rate of elicitations.

    2025-06-18  Forms only. Servers MUST NOT request sensitive data. Clients SHOULD show the server's name, and let the
                user review the values, decline or cancel. `enumNames` names the choices. Only booleans have defaults.
    2025-11-25  Adds URL mode, with `elicitationId`, `notifications/elicitation/complete`, and the error -32042 ("the
                user must visit a URL first"). The SHOULD rules of 2025-06-18 become MUST. A client declares its modes;
                `{}` means form mode only. Servers MUST NOT use an undeclared mode; clients MUST refuse such a mode with
                -32602. Adds choices with `oneOf` and `const`, multiple choices, defaults for all types (SEP-1330,
                SEP-1034). The server MUST bind the state of an elicitation to the user, not only to a session.
    2026-07-28  `elicitation/create` is an input request inside an `input_required` result. The client then retries its
                request, and the new result shows the outcome, so `elicitationId`, the notification and -32042 were
                removed. The server stores its own identifier in `requestState`. If a client cannot get the
                information, it does not retry, and servers MUST handle that.

Threats:
    elicitation-url: A hostile server abuses the user's trust in a web page with a URL whose shown host differs from the
        host that the browser opens, such as `https://evil.example\@bank.example/`. The client refuses such a URL.

Spec:  client/elicitation (2025-06-18 to 2026-07-28); schema: ElicitRequest, ElicitResult, PrimitiveSchemaDefinition
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": "Your name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}}
       {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "content": {"name": "Ada"}}}
       {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "550e8400"}}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Generic, Literal, TypeAlias, TypeVar, cast

from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object
from ..lib.jsonschema import compile_schema
from ..lib.web_url import browser_host
from ..revisions import PYTHON_ONLY, R2025_11_25, R2026_07_28, Availability, Revision
from .task_augmentation import TaskField

if TYPE_CHECKING:
    # Type checkers know this module, even if it is not installed. Before Python 3.13, `typing.TypeVar` has no defaults.
    from typing_extensions import TypeVar as TypeVarWithDefault

    D = TypeVarWithDefault("D", default=object, covariant=True)
else:
    D = TypeVar("D", covariant=True)

URL_ELICITATION_REQUIRED = -32042
"""Error code: the user must visit a URL before the server can serve the request. 2025-11-25 only.
[2025-11-25 client/elicitation#url-elicitation-required-error]"""


@dataclass
class ElicitRequestFormParams:
    """The params of an elicitation in form mode."""

    message: str
    """The text that tells the user the reason for the request."""
    requested_schema: Object
    """The JSON Schema of the form: a flat object of strings, numbers, booleans and choices."""
    mode: Annotated[Literal["form"] | None, Availability(since=R2025_11_25)] = None
    """None means "form"."""
    meta: Object | None = None
    task: TaskField = None


@dataclass
class ElicitRequestURLParams:
    """The params of an elicitation in URL mode."""

    message: str
    """The text that tells the user why to visit the URL."""
    url: str
    elicitation_id: Annotated[str | None, Availability(until=R2026_07_28, required_since=R2025_11_25)] = None
    """The identifier that `notifications/elicitation/complete` repeats. 2025-11-25 only."""
    meta: Object | None = None
    mode: Literal["url"] = "url"
    task: TaskField = None


@dataclass
class ElicitRequestParams:
    """The params of `elicitation/create`. In JSON, the fields of `request` are not nested: they are the params."""

    request: ElicitRequestFormParams | ElicitRequestURLParams

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        return cast(Object, wire["request"])

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return {"request": wire}


@dataclass
class ElicitResult(Generic[D]):
    """The user's decision, and the values of an accepted form."""

    action: Literal["accept", "decline", "cancel"]
    """The decision. "decline" is an explicit no. "cancel" means that the user closed the dialog without a decision."""
    content: dict[str, str | int | float | bool | list[str]] | None = None
    """The values of an accepted form, by field name."""
    meta: Object | None = None
    data: Annotated[D | None, PYTHON_ONLY] = dataclasses.field(default=None, kw_only=True)
    """The values as an object of the class that `Context.elicit` got. None without a class, or if not accepted."""

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return {name: member for name, member in wire.items() if name != "data"}  # `data` is only ours


@dataclass
class ElicitationCompleteNotificationParams:
    """The identifier of a URL elicitation whose web page the user has completed. 2025-11-25 only."""

    elicitation_id: str
    meta: Object | None = None


ElicitationHandler: TypeAlias = Callable[[ElicitRequestFormParams | ElicitRequestURLParams], Awaitable[ElicitResult]]
"""The client's function that shows an elicitation and the server's name to the user, and returns the decision."""

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


def form_of(schema: Object) -> Object:
    """Turn a class's schema into that of a form. A field such as `str | None = None` can be left out of the form."""
    fields = cast("dict[str, Object]", schema.get("properties", {}))
    required = cast("list[str]", schema.get("required", []))
    optional = {name: _without_null(field) for name, field in fields.items() if name not in required}
    return {**schema, "properties": {**fields, **optional}}


def _without_null(field: Object) -> Object:
    """Return the schema of a field such as `str | None` without null, which no form can show."""
    kinds, choices = field.get("type"), field.get("enum")
    if not isinstance(kinds, list) or "null" not in kinds or len(kinds) != 2:
        return field
    field = {**field, "type": next(kind for kind in kinds if kind != "null")}
    if isinstance(choices, list):
        field["enum"] = [choice for choice in choices if choice is not None]
    return field


def schema_fault(schema: Object, revision: Revision) -> str | None:
    """Return the reason why a schema is not allowed for a form, or None if the schema is allowed."""
    # [2025-11-25 client/elicitation#requested-schema] no nested schemas, so that every client can show the form
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        return 'requestedSchema must have the form {"type": "object", "properties": {...}}'
    for name, field in properties.items():
        fault = _field_fault(field, revision)
        if fault is not None:
            return f"{name}: {fault}"
    return None


def _field_fault(field: JSON, revision: Revision) -> str | None:
    kind = field.get("type") if isinstance(field, dict) else None
    if not isinstance(field, dict) or type(kind) is not str or kind not in _KEYWORDS_BY_TYPE:
        return f"the type of a form's field must be one of {', '.join(_KEYWORDS_BY_TYPE)}"
    if kind == "array" and not revision.elicitation_modes:  # the modes came in the same revision as the arrays
        return f"a form's field can be an array only since 2025-11-25, not in revision {revision}"
    if kind == "array" and not _is_choice(field.get("items")):
        return "an array in a form must list its choices in items.enum or items.anyOf"
    unknown = field.keys() - _KEYWORDS_BY_TYPE[kind]
    if unknown:
        return f"a form's {kind} field must not have {', '.join(sorted(unknown))}"
    if field.get("format") is not None and field["format"] not in FORMATS:
        return f"the format must be one of {', '.join(FORMATS)}"
    return None


def _is_choice(items: JSON) -> bool:
    return isinstance(items, dict) and (isinstance(items.get("enum"), list) or isinstance(items.get("anyOf"), list))


def url_fault(url: str) -> str | None:
    """Return the reason why a client must not open a URL, or None if the client can open the URL."""
    try:
        # [2025-11-25 client/elicitation#safe-url-handling] a file: URL could open a program on the user's computer
        browser_host(url)
    except ValueError as error:
        return f"url: {error}, not {url[:100]!a}"
    return None


def content_errors(schema: Object, content: Object) -> list[str]:
    """Return the errors in a form's values, checked against the form's schema and its formats, such as "email"."""
    return [str(error) for error in compile_schema(schema, assert_formats=True).errors(content)]


def supported_modes(capability: Object) -> set[str]:
    """Return the modes that a client declares in the capability `elicitation`."""
    # [2025-11-25 client/elicitation#capabilities] {} means form mode only
    return {mode for mode in ("form", "url") if capability.get(mode) is not None} or {"form"}


def check_request(
    request: ElicitRequestFormParams | ElicitRequestURLParams, modes: set[str], revision: Revision
) -> None:
    """Raise ProtocolError -32602 if the client did not declare the mode, or if the form or URL is invalid."""
    mode = "url" if isinstance(request, ElicitRequestURLParams) else "form"
    if mode not in modes:
        # [2025-11-25 client/elicitation#error-handling] MUST be -32602
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: this client does not support elicitation mode {mode!r}")
    if isinstance(request, ElicitRequestURLParams):
        fault = url_fault(request.url)
    else:
        fault = schema_fault(request.requested_schema, revision)
    if fault is not None:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {fault}")


def checked_result(request: ElicitRequestFormParams | ElicitRequestURLParams, result: ElicitResult) -> ElicitResult:
    """Add the defaults to an accepted form, or drop the content of another result. Raise ValueError for bad values."""
    if result.action != "accept" or isinstance(request, ElicitRequestURLParams):
        # [2025-11-25 client/elicitation#response-actions] only an accepted form has content
        return ElicitResult(result.action, None, result.meta)
    properties = request.requested_schema["properties"]
    assert isinstance(properties, dict)
    fields = {name: field for name, field in properties.items() if isinstance(field, dict)}
    defaults = {name: field["default"] for name, field in fields.items() if field.get("default") is not None}
    content: Object = {**defaults, **(result.content or {})}  # type: ignore[dict-item]
    errors = content_errors(request.requested_schema, content)
    if errors:
        # [2025-11-25 client/elicitation#form-mode-security] a legacy server gets this text, but not the user's values
        expected = "; ".join(error.partition(", got ")[0] for error in errors)
        raise ValueError(f"the elicitation handler's content does not match the requested schema: {expected}")
    return ElicitResult("accept", content, result.meta)  # type: ignore[arg-type]


def url_elicitations(error: ProtocolError) -> dict[str, ElicitRequestParams]:
    """Return the URL elicitations in an error -32042, by elicitation id. Return {} for another error.

    A client of 2025-11-25 stores the ids. A server of 2026-07-28 puts the elicitations into an `input_required` result.
    """
    listed = error.data.get("elicitations") if isinstance(error.data, dict) else None
    if error.code != URL_ELICITATION_REQUIRED or not isinstance(listed, list):
        return {}
    found: dict[str, ElicitRequestParams] = {}
    for each in listed:
        id = each.get("elicitationId") if isinstance(each, dict) else None
        if isinstance(each, dict) and isinstance(id, str):
            params = ElicitRequestURLParams(str(each.get("message")), str(each.get("url")), id)
            found.setdefault(id, ElicitRequestParams(params))
    return found


def url_required(message: str, elicitations: list[ElicitRequestURLParams]) -> ProtocolError:
    """Return the error that a handler raises if the user must visit URLs before the server can serve the request.

    A client of 2025-11-25 gets the error -32042. A client of 2026-07-28 gets an `input_required` result instead.

    Args:
        message: The text that tells the user the reason.
        elicitations: The URLs to visit. Each elicitation must have an `elicitation_id`.
    """
    required = [(each.message, each.url, each.elicitation_id) for each in elicitations]
    data: JSON = [{"mode": "url", "message": text, "url": url, "elicitationId": id} for text, url, id in required]
    return ProtocolError(URL_ELICITATION_REQUIRED, message, {"elicitations": data})
