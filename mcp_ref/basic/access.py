"""Access: the principal (the authenticated caller) of a request over HTTP, and the scopes that the caller has.

    HTTP request -> a server without authentication       Access: no principal, no scopes
                 -> `authenticate=`                       Access: a principal, no scopes
                 -> `authorization=Protection(...)`       TokenAccess: principal and scopes of an access token

A *scope* is a right that a user granted to a client, such as `notes:write`. Each HTTP request has one `Access`, which
all handlers that it starts find in `current_access`. A request over stdio has none, because the user started the server
and its handlers have the user's own rights. [2026-07-28 basic/authorization/index#protocol-requirements]

Threats:
    subscription-memory: A client fills the server's memory by subscribing to thousands of URIs of 8 KB, in many
        requests and sessions. The server limits the bytes of one caller's URIs, and of all callers' URIs together.

Spec:  2026-07-28 basic/authorization/index; RFC 6749, section 3.3
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping
from contextvars import ContextVar
from sys import getsizeof
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, INVALID_REQUEST, Batch, Incoming, Notification, Request
from ..lib.shares import ShareExceeded, Shares

if TYPE_CHECKING:
    from ..lib.http.message import Headers
    from .principal import Principal

MAX_SUBSCRIPTIONS: Final = 1000
"""Maximum number of subscribed URIs in one session."""
MAX_SUBSCRIBED_BYTES_PER_CALLER: Final = 8 * 1024 * 1024
"""Maximum memory of the subscribed URIs of one caller, in all its sessions and subscriptions, in bytes (8 MiB)."""
MAX_SUBSCRIBED_BYTES: Final = 64 * 1024 * 1024
"""Maximum memory of the subscribed URIs of all callers, in bytes (64 MiB)."""
SUBSCRIPTION_COST: Final = 1024
"""Memory of a subscribed URI in addition to its text, in bytes: the Python objects, and the rights of its caller."""
MAX_SCOPE: Final = 200
"""Maximum length of a scope, in characters."""


class AccessRefused(ProtocolError):
    """The refusal of a request: the status, headers and reason of the HTTP response that it becomes."""

    def __init__(self, status: int, reason: str, headers: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(INVALID_REQUEST, reason)
        self.status, self.headers = status, [*headers]

    def __str__(self) -> str:
        return self.message


class Access:
    """The rights of one HTTP request. This class grants no scopes; `TokenAccess` grants those of an access token."""

    principal: Principal | None = None
    id: str | None = None
    """The id of the principal. Sessions, tasks and states are bound to it."""
    headers: Headers | None = None
    """The headers of the HTTP request; None until the request has passed its checks."""
    address: tuple[str, int] | None = None
    """The remote IP address and port of the HTTP request; None if unknown."""
    caller = ""
    """The principal, or without one the network of the remote address. All limits for one caller count by this."""
    session_id: str | None = None
    """The id of the request's session; None without one."""
    ends_at: float | None = None
    """Time when the streams of this request close, in seconds since 1970; None for never."""
    hides_forbidden = False
    """True if lists leave out the items whose scopes the caller lacks."""
    refusal: AccessRefused | None = None
    """The latest refusal. It becomes the HTTP response, unless another response has already begun."""
    checks_every_message = False
    """True if even a message that names no tool, resource or prompt with scopes can need scopes, so all are checked."""
    method_scopes: Mapping[str, Collection[str]] = MappingProxyType({})
    """The scopes that a request needs, by its method."""

    def refusal_for(self, scopes: Collection[str]) -> AccessRefused | None:
        """Return the refusal of an operation that needs these scopes, or None if the caller may do it."""
        if not scopes:
            return None
        return AccessRefused(403, f"scopes are needed, but this server grants none: {' '.join(sorted(scopes))}")

    @property
    def has_ended(self) -> bool:
        """True if the access token has expired."""
        return self.ends_at is not None and time.time() >= self.ends_at

    def to_keep(self, kept: Access | None) -> Access:
        """Return the rights for a session to keep: a copy of these, or `kept` if they come from the same token."""
        if kept is not None and kept.principal is self.principal:  # each token has a `principal` object of its own
            return kept
        return self.without_headers()

    def require(self, scopes: Collection[str]) -> None:
        """Raise AccessRefused if the caller lacks one of the scopes."""
        refusal = self.refusal_for(scopes)
        if refusal is not None:
            self.refusal = refusal
            raise refusal

    def check_scopes(self, message: Incoming, table: ScopeTable) -> None:
        """Raise AccessRefused if the caller lacks a scope that the message, or any message of a batch, needs."""
        needed = set[str]()
        messages = message.messages if isinstance(message, Batch) else (message,)
        for call in messages:
            if isinstance(call, (Request, Notification)):
                item_scopes = table.scopes_of(call) if table.needs_scopes else ()
                needed.update(item_scopes, self.method_scopes.get(call.method, ()))
        self.require(needed)

    def copy(self) -> Self:
        """Return a copy with its own `refusal`, because a refusal in a task must not become the HTTP response."""
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def without_headers(self) -> Self:
        """Return a copy for a subscription, which can last for hours but needs no headers."""
        copied = self.copy()
        copied.headers = None
        return copied


class SubscribedResource(NamedTuple):
    """A resource that a client subscribed to."""

    uri: str
    """The URI in the client's spelling."""
    access: Access | None
    """The rights of the subscriber; None if the request did not come over HTTP."""


class Subscriptions(dict[str, SubscribedResource]):
    """The subscriptions of a session or one `subscriptions/listen`, by canonical URI. `shares` limits their memory."""

    def __init__(self, shares: Shares | None) -> None:
        super().__init__()
        self._shares = shares

    def add(self, uri: str, subscribed: SubscribedResource) -> None:
        """Add a subscription unless this URI has one already. Raise ProtocolError if a limit is reached."""
        if uri in self:
            return
        if len(self) >= MAX_SUBSCRIPTIONS:
            text = f"too many subscriptions: a session can have {MAX_SUBSCRIPTIONS}; unsubscribe from a resource first"
            raise ProtocolError(INVALID_PARAMS, text)
        if self._shares is not None:
            try:
                self._shares.take(*_caller_and_size(uri, subscribed))
            except ShareExceeded as error:
                raise ProtocolError(INVALID_PARAMS, f"too many subscriptions: {error}; unsubscribe first") from None
        if subscribed.uri == uri:
            subscribed = subscribed._replace(uri=uri)  # so that two equal texts are one object in memory
        self[uri] = subscribed

    def remove(self, uri: str) -> None:
        """Remove the subscription to a URI, if there is one."""
        subscribed = self.pop(uri, None)
        if subscribed is not None and self._shares is not None:
            self._shares.give_back(*_caller_and_size(uri, subscribed))

    def clear(self) -> None:
        for uri in tuple(self):
            self.remove(uri)


def _caller_and_size(uri: str, subscribed: SubscribedResource) -> tuple[str, int]:
    """Return the caller and the memory of a subscription, in bytes."""
    caller = subscribed.access.caller if subscribed.access is not None else ""
    size = getsizeof(uri) + SUBSCRIPTION_COST
    if subscribed.uri != uri:  # `add` has made equal spellings one object
        size += getsizeof(subscribed.uri)
    return caller, size


class ScopeTable(Protocol):
    """The scopes of the tools, resources and prompts of a server."""

    needs_scopes: bool
    """True if at least one of them needs scopes."""

    def scopes_of(self, call: Request | Notification) -> Collection[str]:
        """Return the scopes of the tool, resource or prompt that a message names."""


current_access: ContextVar[Access | None] = ContextVar("current_access", default=None)
"""The access of the HTTP request that is being served; None for other transports."""


def is_scope(text: str) -> bool:
    """Return True if a text consists of 1 to `MAX_SCOPE` characters that a scope can have. [RFC 6749 3.3]"""
    return re.fullmatch(rf"[!#-\[\]-~]{{1,{MAX_SCOPE}}}", text) is not None


def checked_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Return the scopes that an author has written. Raise TypeError or ValueError for an invalid scope."""
    if isinstance(scopes, str):
        raise TypeError(f'scopes must be a set of strings, such as {{"notes:read"}}, not the string {scopes[:80]!r}')
    for scope in scopes:
        if not is_scope(scope):
            raise ValueError(f"a scope must be 1 to {MAX_SCOPE} printable ASCII characters without space, quotation "
                             f"mark and backslash, not {scope[:80]!r}")  # fmt: skip
        # [2026-07-28 basic/authorization/index#refresh-tokens] a server SHOULD NOT ask for this scope
        if scope == "offline_access":
            raise ValueError("offline_access concerns only the client and the authorization server: leave it out")
    return frozenset(scopes)
