"""mcp_ref: the Model Context Protocol (MCP), client and server, in all six revisions.

    from mcp_ref import Client, Server

jsonrpc/      JSON-RPC 2.0: messages, requests and responses
revisions.py  the six revisions as data; codec.py converts dataclasses to JSON and back, for one revision
basic/        the specification's "Base Protocol"
features/     the specification's "Server Features" and "Client Features"
transports/   ways to exchange messages: pipes, HTTP, and memory (client and server in one program)
session.py    one conversation between a client and a server
extensions/   tasks: requests whose results the sender fetches later; auth: other ways to get and to protect tokens
client/       `Client` and its parts
server/       `Server` and its parts
host/         `Host`: several servers, one policy
check/        recordings of conversations between any client and any server
recorder/     a recorder between a client and a server, and a player that repeats the recorded server or client
bridge/       one server that is made of others, of any revision and transport
lib/          code without MCP: HTTP, JSON Schema, URI templates, JSON Schemas of Python functions
cli/, demo/   the commands of `__main__.py`; version.py lists the changes of each version

MCP lets a host (an application that uses a language model) call programs that other people wrote. A `Server` offers
functions and data, a `Client` calls them, and both exchange JSON-RPC messages over a transport. Everything between a
message and the function that it calls is in these folders, from the bottom up.

Read the modules in the order of `READING_ORDER`, where each one imports only modules that come before it, and skip
those in `OPTIONAL_READING` the first time. Run the demo before you begin: `python3 -m mcp_ref demo`.

Many docstrings end with `Spec:`, the pages that the module implements, and with `Threats:`, the attacks that it
prevents: after each label, the first sentence is the attack, and the others are the defense.

A public name is imported when a program first uses it, so `import mcp_ref` is fast, and a server that has only tools
never loads `features/prompts.py`. All imports inside the package are relative, so you can rename it.
"""

# SPDX-License-Identifier: MIT

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - first of all, because older versions fail at imports in other modules
    raise ImportError(f"{__name__} needs Python 3.11 or later, this is {sys.version_info[0]}.{sys.version_info[1]}")

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `X as X` tells a type checker that X is public
    from .basic.authorization.client import Bearer as Bearer
    from .basic.authorization.errors import AuthorizationError as AuthorizationError
    from .basic.authorization.errors import DiscoveryFailed as DiscoveryFailed
    from .basic.authorization.errors import InsufficientScope as InsufficientScope
    from .basic.authorization.errors import RegistrationFailed as RegistrationFailed
    from .basic.authorization.errors import SignInNeeded as SignInNeeded
    from .basic.authorization.errors import SignInRefused as SignInRefused
    from .basic.authorization.errors import TokenRefused as TokenRefused
    from .basic.authorization.server import Protection as Protection
    from .basic.authorization.sign_in import AuthorizationCode as AuthorizationCode
    from .basic.authorization.store import FileStore as FileStore
    from .basic.authorization.store import MemoryStore as MemoryStore
    from .basic.authorization.verifiers import Introspection as Introspection
    from .basic.authorization.verifiers import JwtVerifier as JwtVerifier
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
    from .basic.meta import PaginatedRequestParams as PaginatedRequestParams
    from .basic.principal import HttpCaller as HttpCaller
    from .basic.principal import Principal as Principal
    from .client.client import Client as Client
    from .client.sync import SyncClient as SyncClient
    from .extensions.auth.dpop import DpopCheck as DpopCheck
    from .extensions.auth.dpop import DpopKey as DpopKey
    from .extensions.auth.headless import ClientCredentials as ClientCredentials
    from .extensions.auth.headless import EnterpriseManaged as EnterpriseManaged
    from .extensions.auth.headless import WorkloadIdentity as WorkloadIdentity
    from .extensions.auth.headless import es256_signer as es256_signer
    from .extensions.tasks.async_store import AsyncTaskStore as AsyncTaskStore
    from .extensions.tasks.async_store import OwnedTask as OwnedTask
    from .extensions.tasks.requestor import RunningTask as RunningTask
    from .extensions.tasks.store import MemoryTaskStore as MemoryTaskStore
    from .extensions.tasks.store import TaskStore as TaskStore
    from .extensions.tasks.types import Task as Task
    from .features.completion import Completion as Completion
    from .features.completion import PromptReference as PromptReference
    from .features.completion import ResourceTemplateReference as ResourceTemplateReference
    from .features.elicitation import ElicitRequestFormParams as ElicitRequestFormParams
    from .features.elicitation import ElicitRequestURLParams as ElicitRequestURLParams
    from .features.elicitation import ElicitResult as ElicitResult
    from .features.elicitation import url_required as url_required
    from .features.prompts import GetPromptResult as GetPromptResult
    from .features.prompts import ListPromptsResult as ListPromptsResult
    from .features.prompts import PromptMessage as PromptMessage
    from .features.resources import ListResourcesResult as ListResourcesResult
    from .features.resources import ListResourceTemplatesResult as ListResourceTemplatesResult
    from .features.resources import ResourceNotFound as ResourceNotFound
    from .features.roots import Root as Root
    from .features.sampling import CreateMessageRequestParams as CreateMessageRequestParams
    from .features.sampling import CreateMessageResult as CreateMessageResult
    from .features.sampling import SamplingMessage as SamplingMessage
    from .features.sampling import ToolResultContent as ToolResultContent
    from .features.sampling import ToolUseContent as ToolUseContent
    from .features.tools import CallToolResult as CallToolResult
    from .features.tools import ListToolsResult as ListToolsResult
    from .features.tools import Tool as Tool
    from .features.tools import ToolAnnotations as ToolAnnotations
    from .features.tools import ToolError as ToolError
    from .host.approval import Allow as Allow
    from .host.approval import Approval as Approval
    from .host.approval import Deny as Deny
    from .host.approval import Refused as Refused
    from .host.approval import ask_unless_read_only as ask_unless_read_only
    from .host.configuration import Configuration as Configuration
    from .host.configuration import ConfigurationError as ConfigurationError
    from .host.configuration import read_config as read_config
    from .host.host import Host as Host
    from .host.host import SyncHost as SyncHost
    from .host.names import UnknownName as UnknownName
    from .host.policy import Budget as Budget
    from .host.policy import BudgetExceeded as BudgetExceeded
    from .host.supervisor import ServerState as ServerState
    from .host.supervisor import ServerStatus as ServerStatus
    from .host.supervisor import ServerUnavailable as ServerUnavailable
    from .jsonrpc.dispatcher import Limits as Limits
    from .jsonrpc.errors import ConnectionClosed as ConnectionClosed
    from .jsonrpc.errors import InvalidMessage as InvalidMessage
    from .jsonrpc.errors import McpError as McpError
    from .jsonrpc.errors import ProtocolError as ProtocolError
    from .jsonrpc.errors import RemoteError as RemoteError
    from .jsonrpc.errors import RequestTimeout as RequestTimeout
    from .lib.http.client import HttpClient as HttpClient
    from .lib.http.message import HttpLimits as HttpLimits
    from .lib.http.message import HttpRequest as HttpRequest
    from .lib.http.response import ClientLimits as ClientLimits
    from .revisions import NotInRevision as NotInRevision
    from .revisions import Revision as Revision
    from .server.broadcast import Broadcast as Broadcast
    from .server.context import Context as Context
    from .server.middleware import Proceed as Proceed
    from .server.middleware import ServedRequest as ServedRequest
    from .server.routes import RouteResponse as RouteResponse
    from .server.server import Server as Server
    from .server.service import ServerStats as ServerStats
    from .transports.recorded import recording_trace as recording_trace
    from .transports.streamable_http.durable_store import DurableEventStore as DurableEventStore
    from .transports.streamable_http.durable_store import SessionChange as SessionChange
    from .transports.streamable_http.event_store import MemoryEventStore as MemoryEventStore
    from .transports.streamable_http.event_store import SessionOwned as SessionOwned
    from .transports.streamable_http.event_store import StoredSession as StoredSession
    from .transports.streamable_http.posted_session import EndpointLimits as EndpointLimits
    from .transports.streamable_http.sqlite_store import SqliteEventStore as SqliteEventStore
    from .transports.trace import tracer as tracer
    from .version import __version__ as __version__

READING_ORDER = (
    "lib/shares.py", "lib/slots.py", "lib/time_limits.py", "jsonrpc/__init__.py", "jsonrpc/outline.py",
    "jsonrpc/messages.py", "jsonrpc/errors.py", "jsonrpc/failures.py", "jsonrpc/bounded_waits.py",
    "jsonrpc/requester.py", "lib/fields.py", "lib/turns.py",
    "jsonrpc/request_queue.py", "jsonrpc/dispatcher.py", "jsonrpc/large_messages.py",
    "version.py", "revisions.py", "codec.py", "lib/uri.py",
    "basic/__init__.py", "basic/meta.py", "basic/content.py", "basic/lifecycle.py", "basic/ping.py",
    "basic/cancellation.py", "basic/progress.py", "basic/versioning.py", "basic/mrtr.py", "basic/subscriptions.py",
    "lib/__init__.py", "lib/text.py", "lib/web_url.py", "lib/http/__init__.py", "lib/http/message.py",
    "basic/headers.py", "basic/principal.py", "basic/access.py", "basic/channel.py",
    "lib/uritemplate.py",
    "lib/jsonschema/limits.py", "lib/jsonschema/values.py", "lib/jsonschema/errors.py",
    "lib/jsonschema/expressions.py", "lib/jsonschema/ecma262.py", "lib/jsonschema/patterns.py",
    "lib/jsonschema/formats.py", "lib/jsonschema/model.py", "lib/jsonschema/assertions.py",
    "lib/jsonschema/applicators.py", "lib/jsonschema/unevaluated.py", "lib/jsonschema/resources.py",
    "lib/jsonschema/compiler.py", "lib/jsonschema/__init__.py",
    "lib/typed/values.py", "lib/typed/unions.py", "lib/typed/constraints.py", "lib/typed/models.py",
    "lib/typed/annotations.py", "lib/typed/docstrings.py", "lib/typed/signatures.py", "lib/typed/__init__.py",
    "lib/http/sse.py", "lib/http/framing.py", "lib/http/parser.py",
    "lib/http/exchange.py", "lib/http/connections.py", "lib/http/connection.py", "lib/http/server.py",
    "lib/http/asgi.py", "lib/http/proxies.py", "lib/http/origin.py", "lib/http/response.py", "lib/http/client.py",
    "lib/jose/__init__.py", "lib/jose/rsa.py", "lib/jose/curves.py", "lib/jose/ed25519.py", "lib/jose/keys.py",
    "lib/jose/tokens.py",
    "basic/authorization/__init__.py", "basic/authorization/errors.py", "basic/authorization/challenges.py",
    "basic/authorization/addresses.py", "basic/authorization/metadata.py",
    "basic/authorization/authorization_code.py", "basic/authorization/authorization_server_discovery.py",
    "basic/authorization/store.py", "basic/authorization/loopback.py",
    "basic/authorization/client_registration.py", "basic/authorization/token_endpoint.py",
    "basic/authorization/client.py",
    "basic/authorization/sign_in.py", "basic/authorization/server.py",
    "basic/authorization/verifiers.py",
    "features/__init__.py", "features/pagination.py", "features/registry.py", "features/task_augmentation.py",
    "features/caching.py", "features/discover.py", "features/invoke.py", "features/typed_json.py",
    "features/tools.py", "features/registered_tools.py", "features/expansions.py", "features/resource_access.py",
    "features/resources.py", "features/prompts.py", "features/completion.py", "features/logging.py",
    "features/roots.py", "features/sampling.py", "features/elicitation.py", "features/custom_methods.py",
    "transports/__init__.py", "transports/base.py", "transports/trace.py", "check/__init__.py", "check/recording.py",
    "check/masking.py", "transports/recorded.py", "transports/system.py",
    "transports/stdio/__init__.py", "transports/stdio/lines.py", "transports/stdio/server.py",
    "transports/stdio/client.py", "transports/memory.py",
    "transports/streamable_http/__init__.py", "transports/streamable_http/checks.py",
    "transports/streamable_http/leases.py", "transports/streamable_http/event_store.py",
    "transports/streamable_http/storage_thread.py", "transports/streamable_http/durable_store.py",
    "transports/streamable_http/sqlite_store.py", "transports/streamable_http/posted_session.py",
    "transports/streamable_http/kept_requests.py",
    "transports/streamable_http/session.py", "transports/streamable_http/restoration.py",
    "transports/streamable_http/idle_order.py", "transports/streamable_http/handover.py",
    "transports/streamable_http/session_table.py",
    "transports/streamable_http/stateless.py", "transports/streamable_http/server.py",
    "transports/streamable_http/stateless_client.py", "transports/streamable_http/resumption.py",
    "transports/http_sse/__init__.py", "transports/http_sse/server.py", "transports/http_sse/client.py",
    "transports/streamable_http/client.py",
    "session.py",
    "extensions/__init__.py", "extensions/auth/__init__.py", "extensions/auth/headless.py",
    "extensions/auth/dpop.py",
    "extensions/tasks/__init__.py", "extensions/tasks/types.py", "extensions/tasks/store.py",
    "extensions/tasks/async_store.py", "extensions/tasks/shared_tasks.py",
    "extensions/tasks/live_task.py", "extensions/tasks/receiver.py", "extensions/tasks/requestor.py",
    "check/state.py", "check/rules.py", "check/memory.py", "check/messages.py", "check/lifecycle.py",
    "check/versioning.py", "check/meta.py", "check/shapes.py", "check/stdio.py", "check/streamable_http.py",
    "check/authorization.py", "check/progress.py", "check/cancellation.py", "check/subscriptions.py", "check/mrtr.py",
    "check/tools.py", "check/tasks.py", "check/content.py", "check/pagination.py", "check/caching.py",
    "check/logging.py", "check/sampling.py", "check/elicitation.py", "check/roots.py", "check/findings.py",
    "check/reader.py", "check/exchanges.py", "check/conversation.py", "check/report.py",
    "client/__init__.py", "client/options.py", "client/handlers.py", "client/session.py", "client/negotiation.py",
    "client/target.py", "client/connector.py", "client/requests.py", "client/subscriptions.py", "client/tools.py",
    "client/client.py", "client/sync.py",
    "server/__init__.py", "server/input_requests.py", "server/context.py", "server/lifespan.py", "server/workers.py",
    "server/announcements.py", "server/broadcast.py", "server/service.py", "server/options.py", "server/catalog.py",
    "server/subscriptions.py", "server/stateless.py", "server/session.py", "server/middleware.py", "server/routes.py",
    "server/http_options.py", "server/health.py", "server/http.py", "server/listening.py", "server/main.py",
    "server/server.py",
    "host/__init__.py", "host/names.py", "host/configuration.py", "host/approval.py", "host/dangers.py",
    "host/launch.py", "host/supervisor.py", "host/policy.py", "host/definitions.py", "host/results.py",
    "host/throttle.py", "host/hosted.py", "host/host.py",
    "recorder/__init__.py", "recorder/streams.py", "recorder/http_stream.py", "recorder/tape.py", "recorder/pipes.py",
    "recorder/proxy.py", "recorder/installation.py", "recorder/exchanges.py", "recorder/replay.py",
    "recorder/regression.py", "recorder/wrong_headers.py", "recorder/drive.py", "recorder/as_test.py",
    "bridge/__init__.py", "bridge/relayed.py", "bridge/conversion.py", "bridge/callers.py", "bridge/calls.py",
    "bridge/held.py", "bridge/back_client.py", "bridge/backs.py", "bridge/namespaces.py", "bridge/changes.py",
    "bridge/exchange.py", "bridge/lists.py", "bridge/tasks.py", "bridge/relay.py", "bridge/front.py",
    "bridge/bridge.py", "bridge/explain.py",
    "__init__.py",
    "demo/__init__.py", "demo/server.py", "demo/screen.py", "demo/host.py", "demo/plain_http.py",
    "demo/connections.py", "demo/legacy.py", "demo/authorization.py", "demo/tour.py",
    "cli/__init__.py", "cli/options.py", "cli/values.py", "cli/show.py", "cli/save.py", "cli/person.py",
    "cli/authorization.py", "cli/client_commands.py", "cli/host_commands.py", "cli/accounts.py", "cli/serve.py",
    "cli/bridge.py", "cli/recorder.py", "cli/installation.py", "cli/replay.py", "cli/check.py", "cli/drive.py",
    "cli/revisions.py", "cli/citations.py", "cli/toc.py", "cli/limits.py",
    "__main__.py",
)  # fmt: skip
"""The modules in the order in which to read them, as paths inside the package."""

OPTIONAL_READING = (
    "lib/", "extensions/", "basic/authorization/", "basic/principal.py", "basic/access.py",
    "jsonrpc/failures.py", "jsonrpc/bounded_waits.py",
    "jsonrpc/outline.py", "jsonrpc/request_queue.py", "jsonrpc/large_messages.py",
    "features/task_augmentation.py", "features/caching.py", "features/logging.py", "features/completion.py",
    "features/roots.py", "features/sampling.py", "features/elicitation.py", "features/typed_json.py",
    "features/custom_methods.py", "features/expansions.py", "features/resource_access.py",
    "transports/system.py", "transports/trace.py", "transports/recorded.py", "transports/memory.py", "check/",
    "transports/http_sse/",
    "transports/streamable_http/event_store.py", "transports/streamable_http/storage_thread.py",
    "transports/streamable_http/durable_store.py",
    "transports/streamable_http/sqlite_store.py", "transports/streamable_http/resumption.py",
    "transports/streamable_http/leases.py", "transports/streamable_http/idle_order.py",
    "transports/streamable_http/kept_requests.py", "transports/streamable_http/restoration.py",
    "transports/streamable_http/handover.py",
    "client/options.py", "client/subscriptions.py", "client/sync.py",
    "server/input_requests.py", "server/lifespan.py", "server/workers.py", "server/service.py", "server/middleware.py",
    "server/broadcast.py", "server/options.py", "server/routes.py", "server/http_options.py", "server/health.py",
    "server/listening.py", "server/main.py",
    "host/", "recorder/", "bridge/", "version.py", "__init__.py", "demo/", "cli/", "__main__.py",
)  # fmt: skip
"""The modules and folders of `READING_ORDER` that a first reader can skip."""

_NAMES_BY_MODULE = {
    "basic.authorization.client": "Bearer",
    "basic.authorization.errors": (
        "AuthorizationError DiscoveryFailed InsufficientScope RegistrationFailed SignInNeeded SignInRefused "
        "TokenRefused"
    ),
    "basic.authorization.sign_in": "AuthorizationCode",
    "basic.authorization.store": "FileStore MemoryStore",
    "basic.content": (
        "Annotations AudioContent BlobResourceContents EmbeddedResource Icon ImageContent ResourceLink TextContent "
        "TextResourceContents"
    ),
    "basic.principal": "HttpCaller Principal",
    "basic.authorization.server": "Protection",
    "basic.authorization.verifiers": "Introspection JwtVerifier",
    "basic.lifecycle": "CapabilityError Implementation UnsupportedRevision",
    "extensions.auth.dpop": "DpopCheck DpopKey",
    "extensions.auth.headless": "ClientCredentials EnterpriseManaged WorkloadIdentity es256_signer",
    "extensions.tasks.async_store": "AsyncTaskStore OwnedTask",
    "extensions.tasks.store": "MemoryTaskStore TaskStore",
    "extensions.tasks.types": "Task",
    "transports.streamable_http.durable_store": "DurableEventStore SessionChange",
    "transports.streamable_http.event_store": "MemoryEventStore SessionOwned StoredSession",
    "transports.streamable_http.sqlite_store": "SqliteEventStore",
    "transports.streamable_http.posted_session": "EndpointLimits",
    "transports.recorded": "recording_trace",
    "transports.trace": "tracer",
    "features.elicitation": "ElicitRequestFormParams ElicitRequestURLParams ElicitResult url_required",
    "features.roots": "Root",
    "features.sampling": (
        "CreateMessageRequestParams CreateMessageResult SamplingMessage ToolResultContent ToolUseContent"
    ),
    "lib.http.client": "HttpClient",
    "lib.http.message": "HttpLimits HttpRequest",
    "lib.http.response": "ClientLimits",
    "host.approval": "Allow Approval Deny Refused ask_unless_read_only",
    "host.configuration": "Configuration ConfigurationError read_config",
    "host.host": "Host SyncHost",
    "host.names": "UnknownName",
    "host.policy": "Budget BudgetExceeded",
    "host.supervisor": "ServerState ServerStatus ServerUnavailable",
    "jsonrpc.dispatcher": "Limits",
    "jsonrpc.errors": "ConnectionClosed InvalidMessage McpError ProtocolError RemoteError RequestTimeout",
    "revisions": "NotInRevision Revision",
    "client.client": "Client",
    "server.broadcast": "Broadcast",
    "server.context": "Context",
    "server.middleware": "Proceed ServedRequest",
    "server.routes": "RouteResponse",
    "server.server": "Server",
    "server.service": "ServerStats",
    "client.sync": "SyncClient",
    "extensions.tasks.requestor": "RunningTask",
    "basic.meta": "PaginatedRequestParams",
    "features.prompts": "GetPromptResult ListPromptsResult PromptMessage",
    "features.resources": "ListResourcesResult ListResourceTemplatesResult ResourceNotFound",
    "features.tools": "CallToolResult ListToolsResult Tool ToolAnnotations ToolError",
    "features.completion": "Completion PromptReference ResourceTemplateReference",
    "version": "__version__",
}
"""Module -> the public names that it defines. A test compares the names with the imports above."""

_MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}

__all__ = [*_MODULE_BY_NAME, "OPTIONAL_READING", "READING_ORDER"]


def __getattr__(name: str) -> object:
    """Import the module of a public name when the name is first used."""
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f".{_MODULE_BY_NAME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
