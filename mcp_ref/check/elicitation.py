"""Elicitation: forms and URLs that a server asks the user to fill in or to visit.

Spec:  client/elicitation (2025-06-18 to 2026-07-28)
Used by: conversation.py
"""

from __future__ import annotations

from typing import Final

from ..features.elicitation import FORMATS, URL_ELICITATION_REQUIRED, content_errors, supported_modes
from ..jsonrpc.messages import INVALID_PARAMS, Object
from ..lib.jsonschema import SchemaError
from ..lib.uri import check_uri
from ..revisions import R2025_06_18, R2025_11_25
from .rules import MUST, SHOULD, Verdict, legacy_rule, rule
from .sampling import input_rule, requested_params
from .state import LOOPBACK, Message, an_object, objects, quoted, url_parts
from .tools import illegal_schema_fault

_PAGE: Final = "2026-07-28/client/elicitation"
_LEGACY_PAGE: Final = "2025-11-25/client/elicitation"
_PRIMITIVES = ("string", "number", "integer", "boolean")


def _modes(message: Message) -> set[str] | None:
    """Return the modes that the client declared, or None if they are unknown."""
    capability = an_object(message.client_capabilities).get("elicitation")
    return supported_modes(capability) if isinstance(capability, dict) else None


@input_rule(MUST, f"{_PAGE}#capabilities-3")
def declared_mode(message: Message) -> Verdict:
    """An elicitation has a mode that the client declared."""
    requests = requested_params(message, "elicitation/create")
    modes = _modes(message) if requests else None
    for params in requests:
        mode = params.get("mode", "form")
        if isinstance(mode, str) and modes is not None and mode not in modes:
            return f"an elicitation has the mode {quoted(mode)}, which the client did not declare"
    return None


@legacy_rule(MUST, f"{_LEGACY_PAGE}#error-handling-2",
             "result error", methods="elicitation/create", needs="call", since=R2025_11_25)  # fmt: skip
def undeclared_mode_is_refused(message: Message) -> Verdict:
    """A mode that was not declared is refused with -32602."""
    capability, mode = an_object(message.sender.capabilities).get("elicitation"), message.request.params.get("mode")
    if not isinstance(capability, dict) or message.code == INVALID_PARAMS:
        return None
    if not isinstance(mode, str | None) or (mode or "form") in supported_modes(capability):
        return None
    return f"the mode {quoted(mode)}, which was not declared, is not refused"


def _schema_fault(schema: Object, has_arrays: bool) -> str | None:
    allowed = (*_PRIMITIVES, "array") if has_arrays else _PRIMITIVES
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        return "it is not an object with properties"
    for name, value in properties.items():
        field = an_object(value)
        kind, format = field.get("type"), field.get("format")
        if kind not in allowed:
            return f"the type of {quoted(name)} is {quoted(kind)}"
        if kind == "array" and an_object(field.get("items")).keys().isdisjoint(("enum", "anyOf")):
            return f"the items of {quoted(name)} list no choices"
        # for a field with choices, the schema does not restrict the format
        if kind == "string" and format not in (None, *FORMATS) and field.keys().isdisjoint(("enum", "oneOf")):
            return f"the format of {quoted(name)} is {quoted(format)}"
    return illegal_schema_fault(schema)


@input_rule(MUST, "schema/ElicitRequestFormParams", since=R2025_06_18)
def flat_schema(message: Message) -> Verdict:
    """The schema of a form is a legal JSON Schema of a flat object of primitive values."""
    assert message.revision is not None
    for params in requested_params(message, "elicitation/create"):
        schema = params.get("requestedSchema")
        if params.get("mode", "form") == "form" and isinstance(schema, dict):
            fault = _schema_fault(schema, message.revision.elicitation_modes)
            if fault is not None:
                return f"the requestedSchema is not a form: {fault}"
    return None


@input_rule(MUST, f"{_PAGE}#url-mode-elicitation-requests-2")
def valid_url(message: Message) -> Verdict:
    """The URL of an elicitation is valid."""
    for params in requested_params(message, "elicitation/create"):
        url = params.get("url")
        if params.get("mode") != "url" or not isinstance(url, str):
            continue
        try:
            check_uri(url)
        except ValueError as error:
            return str(error)
    return None


@input_rule(SHOULD, f"{_PAGE}#safe-url-handling-4")
def https_url(message: Message) -> Verdict:
    """The URL of an elicitation begins with https."""
    for params in requested_params(message, "elicitation/create"):
        url = str(params.get("url", ""))
        if params.get("mode") == "url" and url.startswith("http://") and url_parts(url).hostname not in LOOPBACK:
            return f"an elicitation has the URL {quoted(url)}"
    return None


@rule(SHOULD, f"{_PAGE}#form-mode-security-2", "result", methods="elicitation/create", needs="call unmasked")
def content_fits(message: Message) -> Verdict:
    """Accepted values fit the schema of the form."""
    schema, content = message.request.params.get("requestedSchema"), message.body.get("content")
    if message.body.get("action") != "accept" or not isinstance(schema, dict) or not isinstance(content, dict):
        return None
    try:
        errors = content_errors(schema, content)
    except SchemaError:
        return None  # flat_schema reports an illegal schema
    return f"the accepted values do not fit the form: {errors[0]}"[:500] if errors else None


@legacy_rule(MUST, f"{_LEGACY_PAGE}#url-elicitation-required-error-3", "error", since=R2025_11_25)
def required_elicitations(message: Message) -> Verdict:
    """The error -32042 lists URL elicitations with an elicitationId."""
    if message.code != URL_ELICITATION_REQUIRED:
        return None
    listed = list(objects(an_object(message.body.get("data")).get("elicitations")))
    urls = [each for each in listed if each.get("mode") == "url" and isinstance(each.get("elicitationId"), str)]
    if listed and urls == listed:
        return None
    return f"the data of the error -32042 is {quoted(message.body.get('data'), 120)}"


@legacy_rule(MUST, f"{_LEGACY_PAGE}#completion-notifications-for-url-mode-elicitation-2",
             "notification", methods="notifications/elicitation/complete", needs="seen unshared")  # fmt: skip
def known_elicitation(message: Message) -> Verdict:
    """A completion names an elicitation that the server has requested."""
    id = message.body.get("elicitationId")
    is_unknown = message.dialogue.elicitations.lacks(str(id))
    return f"the elicitationId {quoted(id)} was in no request" if is_unknown else None
