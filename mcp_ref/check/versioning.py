"""Versioning: the revision and the capabilities that each stateless request of the modern era carries.

Spec:  2026-07-28 basic/versioning, server/discover, basic/index#_meta
Used by: conversation.py
"""

from __future__ import annotations

import re
from typing import Final

from ..basic.versioning import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PROTOCOL_VERSION,
    UNSUPPORTED_PROTOCOL_VERSION,
    is_stateless,
)
from ..jsonrpc.messages import METHOD_NOT_FOUND
from ..revisions import find_revision
from .rules import MUST, SHOULD, Fault, Verdict, modern_rule, rule
from .state import Message, an_object, quoted

_PAGE: Final = "2026-07-28/basic/versioning"


@rule(MUST, f"{_PAGE}#protocol-version-negotiation-1", "error")
def supported_is_listed(message: Message) -> Verdict:
    """The error -32022 lists the revisions that the server supports."""
    if message.code != UNSUPPORTED_PROTOCOL_VERSION:
        return None
    supported = an_object(message.body.get("data")).get("supported")
    if not isinstance(supported, list) or not all(isinstance(name, str) for name in supported):
        return f"the data of the error -32022 is {quoted(message.body.get('data'))}"
    meta = message.call.params.get("_meta") if message.call is not None else None
    version = an_object(meta).get(PROTOCOL_VERSION)
    revision = find_revision(version)
    if revision is not None and revision.era == "legacy":
        return None  # the server can support a legacy revision, but not in a stateless request
    is_contradiction = version is not None and version in supported
    return f"the error -32022 refuses {quoted(version)}, and lists it as supported" if is_contradiction else None


@modern_rule(MUST, "2026-07-28/basic/index#meta-11", "error")
def required_capabilities_are_listed(message: Message) -> Verdict:
    """The error -32021 lists the capabilities that the client lacks."""
    if message.code != MISSING_REQUIRED_CLIENT_CAPABILITY:
        return None
    required = an_object(message.body.get("data")).get("requiredCapabilities")
    if not isinstance(required, dict) or not required:
        return f"the data of the error -32021 is {quoted(message.body.get('data'))}"
    return None


@modern_rule(MUST, f"{_PAGE}#protocol-version-negotiation-3", "result error", needs="unshared")
def discover_is_served(message: Message) -> Verdict:
    """A modern server has server/discover."""
    earlier_event = None
    if message.method == "server/discover" and message.code == METHOD_NOT_FOUND:
        earlier_event = message.dialogue.served_modern_event
    elif message.method != "server/discover" and message.kind == "result":
        earlier_event = message.dialogue.discover_refused_event
    if earlier_event is None:
        return None
    return Fault("the server serves stateless requests, but not server/discover", (earlier_event,), key="")


@rule(SHOULD, "2026-07-28/basic/transports/stdio#backward-compatibility-1",
      "request", methods="initialize", needs="seen ordered stdio")  # fmt: skip
def probe_comes_first(message: Message) -> Verdict:
    """A client of both eras sends server/discover before any other request."""
    dialogue = message.dialogue
    if dialogue.first_event is None or dialogue.modern_revision is None or dialogue.discover_event is not None:
        return None
    text = "the client sends stateless requests and then initialize, but never probed with server/discover"
    return None if is_stateless(message.body) else Fault(text, (dialogue.first_event,))


@modern_rule(MUST, "schema/DiscoverResult", "result", methods="server/discover")
def discover_names_modern(message: Message) -> Verdict:
    """server/discover lists the revision in which it was served."""
    versions = message.body.get("supportedVersions")
    served = str(message.revision)
    if not isinstance(versions, list) or not versions or served in versions:
        return None
    return f"the server serves server/discover in {served}, but lists only {', '.join(map(str, versions))[:200]}"


@rule(SHOULD, f"{_PAGE}#backward-compatibility-with-initialization-based-versions-2",
      "error", methods="initialize", needs="call")  # fmt: skip
def refusal_names_revisions(message: Message) -> Verdict:
    """A modern server that refuses initialize names its revisions."""
    names_one = re.search(r"\d{4}-\d\d-\d\d", str(message.body)) is not None
    if message.dialogue.served_modern_event is None or names_one:
        return None
    if not isinstance(message.request.params.get("protocolVersion"), str):
        return None  # a legacy client sends a string, so a server of both eras refuses this request too
    return "the error for initialize names no revision"
