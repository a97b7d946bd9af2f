"""Elicitation: a server asks the client's user a question in the middle of a request.

Two ways to ask. *Form* mode (2025-06-18 on) sends a flat JSON Schema, from which the client makes a form, and gets the
answers back through the client. *URL* mode (2025-11-25 on) sends a web address for what must not pass through the
client, such as a password; `accept` then means that the user agreed to open it, not that it is done.

Spec:  client/elicitation (2025-06-18, 2025-11-25); schema: ElicitRequest, ElicitResult, PrimitiveSchemaDefinition
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": "Your name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}}
       S->C notifications/elicitation/complete
Elsewhere: what a tool calls is `Context.elicit` and `Context.elicit_url`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object
from ..lib.jsonschema import compile_schema
from ..revisions import R2025_11_25, R2026_07_28, Life, Revision
from .task_augmentation import TaskHint, without_task

URL_ELICITATION_REQUIRED = -32042
"""[2025-11-25 client/elicitation#url-elicitation-required-error] the user must visit a URL before this can be served"""

# ---------------------------------------------------------------------------------------------------- types


@dataclass
class ElicitRequestFormParams:
    """A question with a form. `requested_schema` is an object of strings, numbers, booleans and choices, not nested."""

    message: str
    requested_schema: Object
    mode: Annotated[Literal["form"] | None, Life(since=R2025_11_25)] = None
    meta: Object | None = None
    task: TaskHint = None


@dataclass
class ElicitRequestURLParams:
    """A web page for the user to visit. `elicitation_id` names this question in a later notification, in 2025-11-25."""

    message: str
    url: str
    elicitation_id: Annotated[str | None, Life(until=R2026_07_28, required_since=R2025_11_25)] = None
    meta: Object | None = None
    mode: Literal["url"] = "url"
    task: TaskHint = None


@dataclass
class ElicitRequestParams:
    """Either of the two, told apart by `mode`; no mode is a form."""

    request: ElicitRequestFormParams | ElicitRequestURLParams

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """The wire has no such envelope."""
        inner = wire["request"]
        assert isinstance(inner, dict)
        return inner

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """See `to_wire`."""
        return {"request": without_task(wire, revision)}


@dataclass
class ElicitResult:
    """What the user did. accept: with `content` for a form; decline: said no; cancel: closed it without choosing."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, str | int | float | bool | list[str]] | None = None
    meta: Object | None = None


@dataclass
class ElicitationCompleteNotificationParams:
    """What the user was sent to do at a URL is done."""

    elicitation_id: str
    meta: Object | None = None


ElicitationHandler: TypeAlias = Callable[[ElicitRequestFormParams | ElicitRequestURLParams], Awaitable[ElicitResult]]
"""Shows the question to the user, and who asks. For a URL: shows it whole, and opens it only with consent."""

# ---------------------------------------------------------------------------------------------------- both sides

_TEXT = {"type", "title", "description", "default"}
_KEYWORDS: dict[str, set[str]] = {
    "string": _TEXT | {"minLength", "maxLength", "format", "enum", "enumNames", "oneOf", "pattern"},
    "number": _TEXT | {"minimum", "maximum"},
    "integer": _TEXT | {"minimum", "maximum"},
    "boolean": _TEXT,
    "array": _TEXT | {"minItems", "maxItems", "items"},
}
FORMATS = ("email", "uri", "date", "date-time")


def schema_fault(schema: Object, revision: Revision) -> str | None:
    """What makes a schema unfit for a form, or None. [2025-11-25 client/elicitation#requested-schema]"""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        return 'requestedSchema is a flat object: {"type": "object", "properties": {...}}'
    for name, field in properties.items():
        kind = field.get("type") if isinstance(field, dict) else None
        if not isinstance(field, dict) or type(kind) is not str or kind not in _KEYWORDS:
            return f"{name}: a field is a string, number, integer, boolean or a list of choices, not nested"
        if kind == "array" and (not revision.elicitation_modes or not _is_choice(field.get("items"))):
            return (
                f"{name}: a list is a choice of strings (items.enum or items.anyOf), in revision 2025-11-25 and later"
            )
        if unknown := field.keys() - _KEYWORDS[kind]:
            return f"{name}: {', '.join(sorted(unknown))} cannot be used in a form's {kind} field"
        if field.get("format") is not None and field["format"] not in FORMATS:
            return f"{name}: the format is one of {', '.join(FORMATS)}"
    return None


def _is_choice(items: JSON) -> bool:
    return isinstance(items, dict) and (isinstance(items.get("enum"), list) or isinstance(items.get("anyOf"), list))


def url_fault(url: str) -> str | None:
    """What makes a URL unfit to be shown to a user, or None: only http and https, with a host."""
    parts = urlsplit(url) if url.isprintable() and " " not in url else None
    if parts is None or parts.scheme not in ("https", "http") or not parts.hostname:
        # [2025-11-25 client/elicitation#safe-url-handling] never hand anything else to the system to open
        return f"the url is an http or https address, not {url[:100]!r}"
    return None


def content_errors(schema: Object, content: Object) -> list[str]:
    """What is wrong with a form's answers, by its schema; formats count."""
    return [str(error) for error in compile_schema(schema, assert_formats=True).errors(content)]


# ---------------------------------------------------------------------------------------------------- client


def supported_modes(capability: Object) -> set[str]:
    """The modes that an `elicitation` capability declares. `{}` means form."""
    # [2025-11-25 client/elicitation#capabilities] an empty object is equivalent to form mode alone
    modes = {mode for mode in ("form", "url") if capability.get(mode) is not None}
    return modes or {"form"}


def check_request(
    request: ElicitRequestFormParams | ElicitRequestURLParams, modes: set[str], revision: Revision
) -> None:
    """Refuse, with -32602, what this client did not declare or what is no proper question."""
    mode = "url" if isinstance(request, ElicitRequestURLParams) else "form"
    if mode not in modes:
        # [2025-11-25 client/elicitation#error-handling] a mode that was not declared is -32602
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: this client does not support elicitation mode {mode!r}")
    if isinstance(request, ElicitRequestURLParams):
        fault = url_fault(request.url)
    else:
        fault = schema_fault(request.requested_schema, revision)
    if fault is not None:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {fault}")


def complete_answer(request: ElicitRequestFormParams | ElicitRequestURLParams, result: ElicitResult) -> ElicitResult:
    """Fill in the schema's defaults for fields that the user left alone, and check the rest, before it is sent.

    Raises ValueError when the handler's content does not match the schema that the server asked for.
    """
    if result.action != "accept" or isinstance(request, ElicitRequestURLParams):
        # [2025-11-25 client/elicitation#response-actions] content only for an accepted form
        return ElicitResult(result.action, None, result.meta)
    properties = request.requested_schema["properties"]
    assert isinstance(properties, dict)
    defaults = {n: f["default"] for n, f in properties.items() if isinstance(f, dict) and f.get("default") is not None}
    content: Object = {**defaults, **(result.content or {})}  # type: ignore[dict-item]
    errors = content_errors(request.requested_schema, content)
    if errors:
        raise ValueError(f"the elicitation handler's content does not match the requested schema: {'; '.join(errors)}")
    return ElicitResult("accept", content, result.meta)  # type: ignore[arg-type]


def required_ids(error: ProtocolError) -> list[str]:
    """The ids of the elicitations that the error -32042 asks for; none for any other error."""
    listed = error.data.get("elicitations") if isinstance(error.data, dict) else None
    if error.code != URL_ELICITATION_REQUIRED or not isinstance(listed, list):
        return []
    ids = [each.get("elicitationId") for each in listed if isinstance(each, dict)]
    return [id for id in ids if isinstance(id, str)]


# ---------------------------------------------------------------------------------------------------- server


def url_elicitations(error: ProtocolError) -> dict[str, ElicitRequestParams]:
    """The questions that stand for the error -32042 in 2026-07-28, which has none; empty for any other error."""
    found = {}
    for id in required_ids(error):
        assert isinstance(error.data, dict) and isinstance(error.data["elicitations"], list)
        [page] = [e for e in error.data["elicitations"] if isinstance(e, dict) and e.get("elicitationId") == id][:1]
        found[id] = ElicitRequestParams(ElicitRequestURLParams(str(page.get("message")), str(page.get("url")), id))
    return found


def url_required(message: str, elicitations: list[ElicitRequestURLParams]) -> ProtocolError:
    """The error to raise when a request cannot be served before the user has been to these URLs.

    In 2026-07-28 the client is asked for that in the result, and the request comes again.
    """
    data: JSON = [
        {"mode": "url", "message": e.message, "url": e.url, "elicitationId": e.elicitation_id} for e in elicitations
    ]
    return ProtocolError(URL_ELICITATION_REQUIRED, message, {"elicitations": data})
