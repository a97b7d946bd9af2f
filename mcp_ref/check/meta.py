"""The rules of `_meta`: its keys in all revisions, and the required fields of stateless requests.

Spec:  basic/index#_meta (2025-06-18 to 2026-07-28)
Used by: conversation.py
"""

from __future__ import annotations

import functools
import re
from typing import Final

from ..basic.meta import is_meta_key
from ..basic.versioning import CLIENT_INFO, SERVER_INFO, MalformedRequest, read_required_meta
from ..jsonrpc.messages import INTERNAL_ERROR, Object
from ..revisions import R2025_06_18
from .rules import ADVICE, MUST, ORDER, SHOULD, Fault, Verdict, modern_rule, rule
from .state import Message, an_object, quoted

_PAGE: Final = "2026-07-28/basic/index"
_TRACE_PARENT = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_REVERSE_DNS = re.compile(r"(com|org|net|io|dev|app|ai|co|edu|gov|[a-z]{2})\.")
MAX_JUDGED_KEY = 256
"""Maximum length of a key that is judged, in characters. Longer keys are not parsed."""


@functools.lru_cache(maxsize=1024)
def _is_key(name: str) -> bool:
    """Return True for a legal name, and for one that is too long to be judged."""
    return len(name) > MAX_JUDGED_KEY or is_meta_key(name)


@rule(MUST, f"{_PAGE}#meta-2", "request notification result", since=R2025_06_18)
def meta_keys(message: Message) -> Verdict:
    """A key of _meta is a name with an optional prefix."""
    for key in message.meta:
        if not _is_key(key):
            return Fault(f"the _meta of the {message.label} has the key {quoted(key)}", key=key[:80])
    return None


@modern_rule(MUST, f"{_PAGE}#meta-17", "request notification result")
def trace_context(message: Message) -> Verdict:
    """traceparent has the format of W3C Trace Context."""
    value = message.meta.get("traceparent")
    if value is None or (isinstance(value, str) and _TRACE_PARENT.fullmatch(value)):
        return None
    return f"the traceparent of the {message.label} is {quoted(value)}"


def missing_meta(params: Object) -> str | None:
    """Return the fault if the `_meta` of a stateless request lacks a required field; None if it has them all."""
    try:
        read_required_meta(params)
    except MalformedRequest as error:
        return error.message.removeprefix("Invalid params: ")
    return None


@modern_rule(MUST, f"{_PAGE}#meta-6", "request", by="client", stage=ORDER)
def required_meta(message: Message) -> Verdict:
    """A stateless request has its revision and the client's capabilities in _meta."""
    if message.method == "initialize":  # it opens a legacy session
        return None
    fault = missing_meta(message.body)
    return f"the request {message.method[:80]} is malformed: {fault}" if fault is not None else None


@modern_rule(MUST, f"{_PAGE}#meta-7", "result error", needs="call", by="server")
def malformed_request_is_refused(message: Message) -> Verdict:
    """A server refuses a request without the required fields of _meta."""
    call = message.request
    if call.method == "initialize":  # as in `required_meta`
        return None
    fault = missing_meta(call.params)
    if fault is None or message.code not in (None, INTERNAL_ERROR):
        return None  # any error, except an internal one, can be the refusal
    return f"the request {call.method} gets {message.outcome}, although {fault}"


@modern_rule(ADVICE, f"{_PAGE}#meta-9", "request", by="client")
def client_info(message: Message) -> Verdict:
    """A client names itself in each request."""
    if CLIENT_INFO in message.meta:
        return None
    return Fault(f"the request {message.method} has no {CLIENT_INFO}", key="")  # one finding for all methods


@modern_rule(SHOULD, "2026-07-28/server/discover#discoverresult-1", "result", methods="server/discover")
def server_info_of_discover(message: Message) -> Verdict:
    """A server names itself in its DiscoverResult."""
    return None if SERVER_INFO in message.meta else f"the result of server/discover has no {SERVER_INFO} in its _meta"


@modern_rule(ADVICE, f"{_PAGE}#meta-13", "result", by="server")
def server_info(message: Message) -> Verdict:
    """A server names itself in each result."""
    if SERVER_INFO in message.meta or message.method == "server/discover":
        return None
    return Fault(f"the {message.label} has no {SERVER_INFO} in its _meta", key="")  # one finding for all methods


@rule(ADVICE, f"{_PAGE}#meta-4", "request notification result", since=R2025_06_18)
def reverse_dns(message: Message) -> Verdict:
    """A prefix of a key of _meta begins with a reversed domain name."""
    for key in message.meta:
        prefix, slash, _ = key.partition("/")
        if slash and _is_key(key) and not _REVERSE_DNS.match(prefix):
            return Fault(f"the prefix of {quoted(key)} is not a reversed domain name", key=key[:80])
    return None


_OFFICIAL_DRAFTS = "io.modelcontextprotocol/auth/"
"""The start of the official names of two draft extensions (SEP-1932, SEP-1933). These names have a second slash, which
`extension_names` would blame."""


@modern_rule(MUST, "2026-07-28/basic/versioning#extension-negotiation-1", "request result")
def extension_names(message: Message) -> Verdict:
    """The name of an extension has a prefix, as in com.example/name."""
    for name in an_object(message.declared.get("extensions")):
        is_valid = name.startswith(_OFFICIAL_DRAFTS) or ("/" in name and _is_key(name))
        if not is_valid:
            return Fault(f"the extension {quoted(name)} is not named like com.example/name", key=name[:80])
    return None
