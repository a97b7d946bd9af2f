"""mcp_ref: the Model Context Protocol, as client and as server, in every revision, with the standard library alone.

    from mcp_ref import Client, Server

Nothing is imported before it is used: `import mcp_ref` is cheap, and a server that has only tools never loads the
pages about prompts. The package imports itself by relative names only, so that it works under any name, and from a zip
file.

Reading order, front to back; nothing is used before it is explained:

    jsonrpc/messages.py             bytes <-> messages, strictly
    jsonrpc/errors.py               what can go wrong, and who broke the rule
    jsonrpc/dispatcher.py           requests and answers, in flight, both ways
    revisions.py                    the six revisions, as data
    codec.py                        dataclasses <-> JSON, for a revision
    basic/meta.py, content.py       shapes that all pages share
    basic/lifecycle.py              the handshake
    basic/versioning.py, headers.py requests that stand alone: what each one says, in its body and over HTTP in its head
    basic/patterns/                 ping, cancellation, progress; mrtr, subscriptions; tasks
    basic/transports/               stdio, memory, and how to see the wire; Streamable HTTP and HTTP+SSE
    http/                           HTTP/1.1 on asyncio, and server-sent events; of use by itself
    typed/                          a typed function is the schema
    jsonschema/, uritemplate.py     two standards that the features stand on
    server/                         tools, resources, prompts; utilities: pagination, caching, completion, logging
    client/                         roots, sampling, elicitation
    runtime/                        Connection, Context, Server; Client, and what it is made of: client_connection,
                                    answering, opening, reaching, subscribing, hearing, calling; live_task, tasks;
                                    web.py
    cli/, __main__.py               the command line

Before all of it, see it at work: `python3 -m mcp_ref demo` runs demo/server.py and demo/tour.py, which read like any
program that uses this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `as` is how a type checker knows that a name is public
    from .basic.content import Annotations as Annotations
    from .basic.content import AudioContent as AudioContent
    from .basic.content import BlobResourceContents as BlobResourceContents
    from .basic.content import EmbeddedResource as EmbeddedResource
    from .basic.content import Icon as Icon
    from .basic.content import ImageContent as ImageContent
    from .basic.content import ResourceLink as ResourceLink
    from .basic.content import TextContent as TextContent
    from .basic.content import TextResourceContents as TextResourceContents
    from .basic.lifecycle import CapabilityError as CapabilityError
    from .basic.lifecycle import Implementation as Implementation
    from .basic.lifecycle import UnsupportedRevision as UnsupportedRevision
    from .client.client import Client as Client
    from .client.sync import SyncClient as SyncClient
    from .extensions.tasks.requestor import RunningTask as RunningTask
    from .extensions.tasks.types import MemoryTaskStore as MemoryTaskStore
    from .extensions.tasks.types import Task as Task
    from .extensions.tasks.types import TaskStore as TaskStore
    from .features.completion import Completion as Completion
    from .features.completion import PromptReference as PromptReference
    from .features.completion import ResourceTemplateReference as ResourceTemplateReference
    from .features.elicitation import ElicitRequestFormParams as ElicitRequestFormParams
    from .features.elicitation import ElicitRequestURLParams as ElicitRequestURLParams
    from .features.elicitation import ElicitResult as ElicitResult
    from .features.elicitation import url_required as url_required
    from .features.prompts import GetPromptResult as GetPromptResult
    from .features.prompts import PromptMessage as PromptMessage
    from .features.roots import Root as Root
    from .features.sampling import CreateMessageRequestParams as CreateMessageRequestParams
    from .features.sampling import CreateMessageResult as CreateMessageResult
    from .features.sampling import SamplingMessage as SamplingMessage
    from .features.sampling import ToolResultContent as ToolResultContent
    from .features.sampling import ToolUseContent as ToolUseContent
    from .features.tools import CallToolResult as CallToolResult
    from .features.tools import Tool as Tool
    from .features.tools import ToolAnnotations as ToolAnnotations
    from .features.tools import ToolError as ToolError
    from .jsonrpc.dispatcher import Limits as Limits
    from .jsonrpc.errors import ConnectionClosed as ConnectionClosed
    from .jsonrpc.errors import InvalidMessage as InvalidMessage
    from .jsonrpc.errors import McpError as McpError
    from .jsonrpc.errors import ProtocolError as ProtocolError
    from .jsonrpc.errors import RemoteError as RemoteError
    from .jsonrpc.errors import RequestTimeout as RequestTimeout
    from .lib.http.client import ClientLimits as ClientLimits
    from .lib.http.client import HttpClient as HttpClient
    from .lib.http.server import HttpLimits as HttpLimits
    from .revisions import NotInRevision as NotInRevision
    from .revisions import Revision as Revision
    from .server.context import Context as Context
    from .server.server import Server as Server
    from .transports.streamable_http.event_store import MemoryEventStore as MemoryEventStore
    from .transports.streamable_http.event_store import SqliteEventStore as SqliteEventStore
    from .transports.streamable_http.session import EndpointLimits as EndpointLimits
    from .transports.trace import tracer as tracer

__version__ = "0.1.0"

_PAGES = {
    "basic.content": (
        "Annotations AudioContent BlobResourceContents EmbeddedResource Icon ImageContent ResourceLink TextContent "
        "TextResourceContents"
    ),
    "basic.lifecycle": "CapabilityError Implementation UnsupportedRevision",
    "extensions.tasks.types": "MemoryTaskStore Task TaskStore",
    "transports.streamable_http.event_store": "MemoryEventStore SqliteEventStore",
    "transports.streamable_http.session": "EndpointLimits",
    "transports.trace": "tracer",
    "features.elicitation": "ElicitRequestFormParams ElicitRequestURLParams ElicitResult url_required",
    "features.roots": "Root",
    "features.sampling": (
        "CreateMessageRequestParams CreateMessageResult SamplingMessage ToolResultContent ToolUseContent"
    ),
    "lib.http.client": "ClientLimits HttpClient",
    "lib.http.server": "HttpLimits",
    "jsonrpc.dispatcher": "Limits",
    "jsonrpc.errors": "ConnectionClosed InvalidMessage McpError ProtocolError RemoteError RequestTimeout",
    "revisions": "NotInRevision Revision",
    "client.client": "Client",
    "server.context": "Context",
    "server.server": "Server",
    "client.sync": "SyncClient",
    "extensions.tasks.requestor": "RunningTask",
    "features.prompts": "GetPromptResult PromptMessage",
    "features.tools": "CallToolResult Tool ToolAnnotations ToolError",
    "features.completion": "Completion PromptReference ResourceTemplateReference",
}
"""The public names, by the page that has each; a test holds it to the imports above."""

_HOME = {name: page for page, names in _PAGES.items() for name in names.split()}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> object:
    """Import a public name's page when the name is first used."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
