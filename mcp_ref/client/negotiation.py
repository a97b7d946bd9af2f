"""Negotiation: a client finds out which era (legacy: a handshake; modern: none) and which revision a server speaks.

A client that speaks a modern revision sends `server/discover` first, as a probe of the era:

    a result, or the error -32022 (both list the server's revisions)  -> use the latest common revision
    another error that only modern servers send: -32020 or -32021     -> raise this error
    any other error, or no response in PROBE_SECONDS                  -> send `initialize`, the legacy handshake

`server/discover` is a safe probe, because no legacy server knows this method, while some would run a `tools/call` even
before a handshake [2026-07-28 basic/transports/stdio#backward-compatibility]. Legacy servers respond to the probe with
different error codes, so a client MUST NOT depend on one of them. Some ignore it, so after `PROBE_SECONDS` the client
sends `initialize` too, and uses the first result. It MAY store eras (`Client(eras=...)`), and probe a legacy server
only if the handshake fails [2026-07-28 basic/versioning#backward-compatibility-with-initialization-based-versions].

Spec:  2026-07-28 basic/versioning, basic/transports/stdio#backward-compatibility, server/discover; basic/lifecycle
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import cast

from ..basic import lifecycle
from ..basic.lifecycle import ClientCapabilities, Implementation, UnsupportedRevision
from ..basic.versioning import MODERN_ERROR_CODES, SERVER_INFO, UNSUPPORTED_PROTOCOL_VERSION, with_request_meta
from ..codec import ShapeError, codec_for
from ..features.discover import DiscoverResult
from ..jsonrpc.errors import ConnectionClosed, InvalidMessage, RemoteError, RequestTimeout, UnrecognizedReply
from ..jsonrpc.messages import JSON, Object
from ..revisions import Era, Revision, find_revision
from .session import ClientSession

log = logging.getLogger(__name__)

PROBE_SECONDS = 5.0
"""Time to wait for the response to `server/discover`, in seconds; at most half of the request's time limit."""


@dataclass(frozen=True, slots=True)
class ClientOffer:
    """A client's side of the negotiation. The oldest revision is first. `timeout` limits each attempt, in seconds."""

    revisions: Sequence[Revision]
    info: Implementation
    capabilities: ClientCapabilities
    timeout: float | None

    def revisions_of(self, era: Era) -> list[Revision]:
        return [revision for revision in self.revisions if revision.era == era]

    def no_common_revision_error(self, server_revisions: Sequence[JSON]) -> UnsupportedRevision:
        listed = ", ".join(str(name)[:40] for name in server_revisions[:20]) or "other revisions"
        return UnsupportedRevision(f"the server speaks {listed}; this client speaks {self.revision_names}")

    @property
    def revision_names(self) -> str:
        return ", ".join(map(str, self.revisions))


async def negotiate(
    open_session: Callable[[], Awaitable[ClientSession]], offer: ClientOffer, known_era: Era | None, is_process: bool
) -> None:
    """Open a session, make it use a common revision, and store the server's name and instructions in it.

    Try once more if `known_era`, which an earlier client found, is wrong, or if the server is a process (`is_process`)
    that ended when it got the probe. The second try opens a new session if the first one has ended. Raise
    UnsupportedRevision if no revision is common, or an exception of `Session.request`.
    """
    session = await open_session()
    try:
        return await _negotiate_once(session, offer, known_era)
    except (ConnectionClosed, RemoteError) as error:
        # A process ends with its connection, even if its session has not noticed the end of its output yet.
        has_ended = session.ended.done() or (is_process and isinstance(error, ConnectionClosed))
        if known_era == "legacy" and offer.revisions_of("modern"):
            retry_era: Era | None = None  # the server may be modern now, so send a probe
        elif known_era != "legacy" and is_process and has_ended and offer.revisions_of("legacy"):
            retry_era = "legacy"  # without a probe, because some legacy servers end when they get it
        else:
            raise
        log.debug("the negotiation failed and is tried again: %s", error)
    if has_ended:  # outside the `except` block, so that a second error does not quote the first
        await session.close()
        session = await open_session()
    await _negotiate_once(session, offer, retry_era)


async def _negotiate_once(session: ClientSession, offer: ClientOffer, known_era: Era | None) -> None:
    is_modern_only, is_legacy_only = not offer.revisions_of("legacy"), not offer.revisions_of("modern")
    if is_modern_only:
        return await _negotiate_by_probe(session, offer, None)
    if is_legacy_only or known_era == "legacy":
        try:
            return await _initialize(session, offer)
        except RemoteError as error:
            if error.code != UNSUPPORTED_PROTOCOL_VERSION:
                raise
            if is_legacy_only:  # otherwise probe below, because only modern servers send this error
                raise offer.no_common_revision_error(_supported_in(error)) from None
    probe_seconds = PROBE_SECONDS if offer.timeout is None else min(PROBE_SECONDS, offer.timeout / 2)
    try:
        with session.dispatcher.time_limits.timeout(offer.timeout):
            return await _negotiate_by_probe(session, offer, probe_seconds)
    except TimeoutError:
        raise RequestTimeout(f"server/discover and initialize: no response within {offer.timeout} seconds") from None


async def _negotiate_by_probe(session: ClientSession, offer: ClientOffer, probe_seconds: float | None) -> None:
    probe = asyncio.create_task(_discover(session, offer))
    handshake: asyncio.Task[None] | None = None
    try:
        with contextlib.suppress(TimeoutError), session.dispatcher.time_limits.timeout(probe_seconds):
            await asyncio.wait([probe])
        if not probe.done():  # perhaps a legacy server that ignores the probe
            handshake = asyncio.create_task(_initialize(session, offer))
            await asyncio.wait([probe, handshake], return_when=asyncio.FIRST_COMPLETED)
            if not probe.done() and handshake.exception() is None:
                return
        discovered = await probe  # even after a failed handshake, because a slow modern server may still respond
        if discovered is not None:
            return _use_modern_revision(session, offer, *discovered)
        return await (handshake or _initialize(session, offer))
    finally:
        tasks = [task for task in (probe, handshake) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _discover(session: ClientSession, offer: ClientOffer) -> tuple[Revision, DiscoverResult, JSON] | None:
    """Send `server/discover`. Return the chosen revision, the result and the server's info; None for a handshake."""
    revision, refused = offer.revisions_of("modern")[-1], list[Revision]()
    while revision.era == "modern":
        codec = codec_for(revision)
        params = with_request_meta({}, revision, codec.encode(offer.capabilities), codec.encode(offer.info))
        try:
            wire = await session.dispatcher.request("server/discover", params, timeout=offer.timeout)
            result = codec.decode(DiscoverResult, wire)
        except (RemoteError, UnrecognizedReply, InvalidMessage, ShapeError, RequestTimeout) as error:
            if not isinstance(error, RemoteError) or error.code != UNSUPPORTED_PROTOCOL_VERSION:
                _check_legacy_fallback(offer, error)
                return None
            # [2026-07-28 basic/transports/stdio#backward-compatibility] only a modern server sends this error
            refused.append(revision)
            revision = _choose_revision(_supported_in(error), offer, refused)
        else:
            revision = _choose_revision(result.supported_versions, offer, refused)
            if revision.era == "modern":
                # The server's info is in `_meta`, but in drafts of 2026-07-28 it was in the result itself.
                return revision, result, (result.meta or {}).get(SERVER_INFO, wire.get("serverInfo"))
    return None  # all common revisions are legacy, and need a handshake


def _supported_in(error: RemoteError) -> list[JSON]:
    listed = error.data.get("supported") if isinstance(error.data, dict) else None
    return listed if isinstance(listed, list) else []


def _choose_revision(names: Sequence[JSON], offer: ClientOffer, refused: Sequence[Revision]) -> Revision:
    theirs = {find_revision(name) for name in names}
    # A revision must be refused twice to be ruled out, because in an update, old processes refuse what new ones list.
    common = [revision for revision in offer.revisions if revision in theirs and refused.count(revision) < 2]
    if not common:
        raise offer.no_common_revision_error(names)
    return common[-1]


def _check_legacy_fallback(offer: ClientOffer, error: Exception) -> None:
    """Raise `error` if it comes from a modern server. Raise UnsupportedRevision if the client is modern only."""
    if isinstance(error, RemoteError) and error.code in MODERN_ERROR_CODES:
        raise error
    log.debug("the server speaks no modern revision: %s", error)
    if not offer.revisions_of("legacy"):
        # [2026-07-28 basic/versioning#compatibility-matrix] the user needs an error that says what to do
        raise UnsupportedRevision(
            f"the server does not speak {offer.revision_names}: server/discover failed with {str(error)[:200]!r}. "
            "If the server speaks an earlier revision, leave `revision` out, or name that one") from error  # fmt: skip


def _use_modern_revision(
    session: ClientSession, offer: ClientOffer, revision: Revision, result: DiscoverResult, info: JSON
) -> None:
    session.use_revision(revision)
    codec = session.codec
    session.capabilities = codec.encode(offer.capabilities)
    meta = with_request_meta({}, revision, session.capabilities, codec.encode(offer.info))["_meta"]
    session.request_meta = cast(Object, meta)
    session.peer_capabilities = codec.encode(result.capabilities)
    try:
        session.peer_info = codec.decode(Implementation, info)
    except ShapeError:
        session.peer_info = Implementation("", "")  # [2026-07-28 server/discover#discoverresult] it may be missing
    session.instructions = result.instructions


async def _initialize(session: ClientSession, offer: ClientOffer) -> None:
    latest = offer.revisions_of("legacy")[-1]
    session.use_revision(latest)
    session.capabilities = session.codec.encode(offer.capabilities)
    params = lifecycle.InitializeRequestParams(latest.name, offer.capabilities, offer.info)
    result = await session.request("initialize", params, lifecycle.InitializeResult, timeout=offer.timeout)
    session.use_revision(lifecycle.accept_revision(result.protocol_version, offer.revisions_of("legacy")))
    session.capabilities = session.codec.encode(offer.capabilities)  # again, in the revision that the server chose
    session.peer_capabilities = session.codec.encode(result.capabilities)
    session.peer_info = result.server_info
    session.instructions = result.instructions
    session.notify("notifications/initialized")
