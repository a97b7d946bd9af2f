"""The options of `Client` and `SyncClient`. A `Host` passes them to the client of each server.

A program can let the server use a model (`sampling`), ask the user (`elicitation`), and see directories (`roots`). For
each of these options that is given, the client declares a capability.

Spec:  basic/lifecycle#initialization, client/roots, client/sampling, client/elicitation
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from ..features.caching import ResponseCache
from ..revisions import Era, Revision
from ..transports.base import Trace

if TYPE_CHECKING:
    from ..basic.authorization.client import Authorizer
    from ..basic.lifecycle import Implementation
    from ..features.elicitation import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult
    from ..features.logging import LoggingMessageNotificationParams
    from ..features.roots import Root, RootPaths
    from ..features.sampling import CreateMessageRequestParams, CreateMessageResult
    from ..jsonrpc.dispatcher import Limits
    from ..lib.http.client import HttpClient


class ClientOptions(TypedDict, total=False):
    """The options of a client. The default of each option is in brackets.

    Functions named `on_...` run on the event loop, which they block, so keep them short.
    """

    revision: Revision | str | None
    """The only revision to speak. [the latest revision that client and server both speak]"""
    revisions: Sequence[Revision | str] | None
    """The revisions to speak. [all six]"""
    eras: MutableMapping[str, Era] | None
    """A mapping in which the client stores the era of each server (sessions or none), so that later clients connect
    faster. [none]"""
    info: Implementation | None
    """The client's name and version, which the server gets. [`mcp_ref` and its version]"""
    sampling: Callable[[CreateMessageRequestParams], Awaitable[CreateMessageResult]] | None
    """Async function that returns a message from a model. [none: the client does not declare `sampling`]"""
    sampling_tools: bool
    """True if the `sampling` function can give tools to the model. [False]"""
    elicitation: Callable[[ElicitRequestFormParams | ElicitRequestURLParams], Awaitable[ElicitResult]] | None
    """Async function that shows the user a form. [none: the client does not declare `elicitation`]"""
    elicitation_url: bool
    """True if the `elicitation` function can also ask the user to visit a URL. [False]"""
    roots: Iterable[Root | str | os.PathLike[str]] | Callable[[], RootPaths | Awaitable[RootPaths]] | None
    """Paths, `file://` URIs or `Root`s that the server can use, or a function, async or not, that returns them
    for each request of the server. Even an empty list declares `roots`. [none]"""
    tasks: bool
    """True if `sampling` and `elicitation` can run as tasks, whose results the server fetches later (only in
    2025-11-25). [False]"""
    extensions: Mapping[str, object] | None
    """The extensions that the program implements: name -> settings (from 2026-07-28 on). [none]"""
    on_log: Callable[[LoggingMessageNotificationParams], None] | None
    """Called for each log message of the server. [none]"""
    on_tools_changed: Callable[[], None] | None
    """Called when the server's list of tools has changed. [none]"""
    on_resources_changed: Callable[[], None] | None
    """Called when the server's list of resources has changed. [none]"""
    on_prompts_changed: Callable[[], None] | None
    """Called when the server's list of prompts has changed. [none]"""
    on_elicitation_complete: Callable[[str], None] | None
    """Called with the elicitation's id when the server reports that the user has finished at its URL. [none]"""
    timeout: float | None
    """Time limit of each request, in seconds. None means no limit. Up to 2025-11-25, it includes the time in which
    `elicitation` and `sampling` run, so give a call that asks the user more time: `timeout=600`. [60.0]"""
    env: Mapping[str, str | None] | None
    """Environment variables for the server's command, which otherwise gets only a few safe ones such as PATH. None as a
    value removes a variable. [none]"""
    cwd: str | os.PathLike[str] | None
    """Working directory of the server's command. [the directory of this process]"""
    on_stderr: Callable[[bytes], None] | None
    """Called with the bytes of the command's standard error. [none: dropped, but errors quote its end]"""
    headers: Mapping[str, str] | None
    """HTTP headers of every request to the server's URL, such as {"Authorization": "Bearer ..."}. [none]"""
    authorization: Authorizer | None
    """An object that gets tokens for a protected URL, such as `AuthorizationCode()`. [none]"""
    http: HttpClient | None
    """HTTP client with its own TLS settings, proxy and limits. `Client.close` closes it too. [`HttpClient()`]"""
    limits: Limits | None
    """Limits of the session, such as the maximum number of open requests. [`Limits()`]"""
    cache: ResponseCache | bool
    """True for a cache of the client's own, False for none, or a `ResponseCache` shared with other clients. [True]"""
    trace: Trace | None
    """Called with the direction and the bytes of each message. [a trace if MCP_REF_TRACE is set in the environment]"""
