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
    from .basic.patterns.tasks import MemoryTaskStore as MemoryTaskStore
    from .basic.patterns.tasks import Task as Task
    from .basic.patterns.tasks import TaskStore as TaskStore
    from .basic.transports.events import MemoryEventStore as MemoryEventStore
    from .basic.transports.events import SqliteEventStore as SqliteEventStore
    from .basic.transports.http_session import EndpointLimits as EndpointLimits
    from .basic.transports.trace import tracer as tracer
    from .client.elicitation import ElicitRequestFormParams as ElicitRequestFormParams
    from .client.elicitation import ElicitRequestURLParams as ElicitRequestURLParams
    from .client.elicitation import ElicitResult as ElicitResult
    from .client.elicitation import url_required as url_required
    from .client.roots import Root as Root
    from .client.sampling import CreateMessageRequestParams as CreateMessageRequestParams
    from .client.sampling import CreateMessageResult as CreateMessageResult
    from .client.sampling import SamplingMessage as SamplingMessage
    from .client.sampling import ToolResultContent as ToolResultContent
    from .client.sampling import ToolUseContent as ToolUseContent
    from .http.client import ClientLimits as ClientLimits
    from .http.client import HttpClient as HttpClient
    from .http.server import HttpLimits as HttpLimits
    from .jsonrpc.dispatcher import Limits as Limits
    from .jsonrpc.errors import ConnectionClosed as ConnectionClosed
    from .jsonrpc.errors import InvalidMessage as InvalidMessage
    from .jsonrpc.errors import McpError as McpError
    from .jsonrpc.errors import ProtocolError as ProtocolError
    from .jsonrpc.errors import RemoteError as RemoteError
    from .jsonrpc.errors import RequestTimeout as RequestTimeout
    from .revisions import NotInRevision as NotInRevision
    from .revisions import Revision as Revision
    from .runtime.client import Client as Client
    from .runtime.context import Context as Context
    from .runtime.server import Server as Server
    from .runtime.sync import SyncClient as SyncClient
    from .runtime.tasks_client import RunningTask as RunningTask
    from .server.prompts import GetPromptResult as GetPromptResult
    from .server.prompts import PromptMessage as PromptMessage
    from .server.tools import CallToolResult as CallToolResult
    from .server.tools import Tool as Tool
    from .server.tools import ToolAnnotations as ToolAnnotations
    from .server.tools import ToolError as ToolError
    from .server.utilities.completion import Completion as Completion
    from .server.utilities.completion import PromptReference as PromptReference
    from .server.utilities.completion import ResourceTemplateReference as ResourceTemplateReference

__version__ = "0.1.0"

_PAGES = {
    "basic.content": (
        "Annotations AudioContent BlobResourceContents EmbeddedResource Icon ImageContent ResourceLink TextContent "
        "TextResourceContents"
    ),
    "basic.lifecycle": "CapabilityError Implementation UnsupportedRevision",
    "basic.patterns.tasks": "MemoryTaskStore Task TaskStore",
    "basic.transports.events": "MemoryEventStore SqliteEventStore",
    "basic.transports.http_session": "EndpointLimits",
    "basic.transports.trace": "tracer",
    "client.elicitation": "ElicitRequestFormParams ElicitRequestURLParams ElicitResult url_required",
    "client.roots": "Root",
    "client.sampling": (
        "CreateMessageRequestParams CreateMessageResult SamplingMessage ToolResultContent ToolUseContent"
    ),
    "http.client": "ClientLimits HttpClient",
    "http.server": "HttpLimits",
    "jsonrpc.dispatcher": "Limits",
    "jsonrpc.errors": "ConnectionClosed InvalidMessage McpError ProtocolError RemoteError RequestTimeout",
    "revisions": "NotInRevision Revision",
    "runtime.client": "Client",
    "runtime.context": "Context",
    "runtime.server": "Server",
    "runtime.sync": "SyncClient",
    "runtime.tasks_client": "RunningTask",
    "server.prompts": "GetPromptResult PromptMessage",
    "server.tools": "CallToolResult Tool ToolAnnotations ToolError",
    "server.utilities.completion": "Completion PromptReference ResourceTemplateReference",
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
