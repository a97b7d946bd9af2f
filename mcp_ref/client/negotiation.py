"""How a client finds out what a server speaks, and who it is.

    server/discover -> its answer, or an error of the stateless era: that era is spoken
                    -> any other error, or silence: the handshake, `initialize`

Spec:  2026-07-28 basic/versioning#backward-compatibility-with-initialization-based-versions,
       basic/transports/stdio#backward-compatibility; basic/lifecycle for the handshake
Above: client.py. Below: basic/lifecycle.py and basic/versioning.py, one for each era
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..basic import lifecycle
from ..basic.lifecycle import (
    ClientCapabilities,
    Implementation,
    InitializeRequestParams,
    InitializeResult,
    UnsupportedRevision,
)
from ..basic.meta import NotificationParams
from ..basic.versioning import MODERN_ERRORS, SERVER_INFO, UNSUPPORTED_PROTOCOL_VERSION, with_request_meta
from ..codec import ShapeError, codec_for
from ..jsonrpc.errors import ForeignAnswer, InvalidMessage, McpError, RemoteError, RequestTimeout
from ..jsonrpc.messages import JSON, Object
from ..revisions import Era, Revision, find_revision

if TYPE_CHECKING:
    from ..features.discover import DiscoverResult
    from .session import ClientSession

log = logging.getLogger(__name__)

PROBE_SECONDS = 5.0
"""Seconds of silence after which a server is also offered the handshake; it may still answer either."""


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """What a server says of itself."""

    info: Implementation
    instructions: str | None


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """What a client says of itself, and the revisions it speaks, oldest first."""

    revisions: Sequence[Revision]
    info: Implementation
    capabilities: ClientCapabilities

    def of(self, era: Era) -> list[Revision]:
        """The revisions of one era."""
        return [revision for revision in self.revisions if revision.era == era]


async def negotiate(
    connection: ClientSession, ours: ClientIdentity, timeout: float | None, known: Era | None = None
) -> ServerIdentity:
    """Find the revision to speak; the connection speaks it then. known: the server's era, where that is known.

    timeout: seconds for each request. Raises UnsupportedRevision where there is no revision in common, and what a
    request raises.
    """
    if not ours.of("modern") or (known == "legacy" and ours.of("legacy")):
        try:
            return await _shake_hands(connection, ours, timeout)
        except RemoteError as error:
            if error.code != UNSUPPORTED_PROTOCOL_VERSION or not ours.of("modern"):
                raise _refused(error, ours) from None
    probe = asyncio.create_task(_discover(connection, ours, timeout))
    handshake: asyncio.Task[ServerIdentity] | None = None
    try:
        await asyncio.wait([probe], timeout=PROBE_SECONDS if ours.of("legacy") else None)
        if not probe.done():
            handshake = asyncio.create_task(_shake_hands(connection, ours, timeout))
            await asyncio.wait([probe, handshake], return_when=asyncio.FIRST_COMPLETED)
        if not probe.done() and handshake is not None and handshake.exception() is None:
            return handshake.result()
        discovered = await probe
        if discovered is not None:
            return _accept(connection, ours, discovered)
        return await (handshake or _shake_hands(connection, ours, timeout))
    finally:
        tasks = [task for task in (probe, handshake) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# ---------------------------------------------------------------------------------------------------- stateless era


@dataclass(frozen=True, slots=True)
class _Discovered:
    revision: Revision
    result: DiscoverResult
    info: JSON


async def _discover(connection: ClientSession, ours: ClientIdentity, timeout: float | None) -> _Discovered | None:
    """Ask a server of the stateless era for itself. None where it turns out to be none, and the handshake is next."""
    from ..features.discover import DiscoverResult

    revision, refused = ours.of("modern")[-1], list[Revision]()
    while True:
        try:
            answer = await _ask(connection, revision, ours, timeout)
            result = codec_for(revision).decode(DiscoverResult, answer)
            chosen = _choose(result.supported_versions, ours, refused)
        except RemoteError as error:
            if error.code != UNSUPPORTED_PROTOCOL_VERSION:
                _check_legacy(ours, error)
                return None
            # [2026-07-28 basic/transports/stdio#backward-compatibility] modern, but another version: not initialize
            refused.append(revision)
            chosen = _choose(_supported_in(error), ours, refused)
        except (ForeignAnswer, InvalidMessage, ShapeError, RequestTimeout) as error:
            _check_legacy(ours, error)
            return None
        else:
            if chosen is not None and chosen.era == "modern":
                # Who it is stands in `_meta`; before the release, in the result.
                return _Discovered(chosen, result, (result.meta or {}).get(SERVER_INFO, answer.get("serverInfo")))
        if chosen is None or chosen.era == "legacy":
            # a version of the earlier era in the list: the server speaks it, but after a handshake
            return None
        revision = chosen


async def _ask(connection: ClientSession, revision: Revision, ours: ClientIdentity, timeout: float | None) -> Object:
    codec = codec_for(revision)
    params = with_request_meta({}, revision, codec.encode(ours.capabilities), codec.encode(ours.info), None)
    return await connection.dispatcher.request("server/discover", params, timeout=timeout)


def _supported_in(error: RemoteError) -> list[JSON]:
    listed = error.data.get("supported") if isinstance(error.data, dict) else None
    return listed if isinstance(listed, list) else []


def _choose(names: Sequence[JSON], ours: ClientIdentity, refused: Sequence[Revision]) -> Revision | None:
    """The latest revision that both speak. Raises UnsupportedRevision where there is none."""
    theirs = {find_revision(name) for name in names}
    # A server may refuse what it names, when one that is being replaced answers beside its successor: once more, then.
    common = [revision for revision in ours.revisions if revision in theirs and refused.count(revision) < 2]
    if not common:
        listed = ", ".join(str(name)[:40] for name in names[:20]) or "none that it names"
        raise UnsupportedRevision(f"the server speaks {listed}; this client speaks {_names(ours)}")
    return common[-1]


def _check_legacy(ours: ClientIdentity, why: Exception) -> None:
    """A server seems to be of the earlier era. Raises UnsupportedRevision for a client that is not."""
    if isinstance(why, RemoteError) and why.code in MODERN_ERRORS:
        raise why
    log.debug("no server of the stateless era: %s", why)
    if not ours.of("legacy"):
        # [2026-07-28 basic/versioning#compatibility-matrix] modern client, legacy server: an actionable error
        raise UnsupportedRevision(
            f"the server does not speak {_names(ours)}: asked who it is, it answered {str(why)[:200]!r}. It may speak "
            "an earlier revision: leave `revision` out, or name one"
        )


def _accept(connection: ClientSession, ours: ClientIdentity, found: _Discovered) -> ServerIdentity:
    """From now on, the stateless era is spoken."""
    codec = codec_for(found.revision)
    connection.speak(found.revision)
    connection.introduce(codec.encode(ours.capabilities), codec.encode(ours.info))
    connection.peer_capabilities = codec.encode(found.result.capabilities)
    try:
        info = codec.decode(Implementation, found.info)
    except ShapeError:
        info = Implementation("", "")  # [2026-07-28 server/discover#discoverresult] it only SHOULD say who it is
    connection.peer_info = info
    return ServerIdentity(info, found.result.instructions)


# ---------------------------------------------------------------------------------------------------- handshake


async def _shake_hands(connection: ClientSession, ours: ClientIdentity, timeout: float | None) -> ServerIdentity:
    """Agree on a revision, and tell each other who we are."""
    offered = ours.of("legacy")[-1]
    connection.speak(offered)
    connection.capabilities = connection.codec.encode(ours.capabilities)
    params = InitializeRequestParams(offered.name, ours.capabilities, ours.info)
    result = await connection.request("initialize", params, InitializeResult, timeout=timeout)
    connection.speak(lifecycle.accept_revision(result.protocol_version, ours.of("legacy")))
    connection.capabilities = connection.codec.encode(ours.capabilities)
    connection.peer_capabilities = connection.codec.encode(result.capabilities)
    connection.peer_info = result.server_info
    connection.notify("notifications/initialized", NotificationParams())
    return ServerIdentity(result.server_info, result.instructions)


def _refused(error: RemoteError, ours: ClientIdentity) -> McpError:
    """The error for a handshake that was refused: one that helps, where the server says what it speaks."""
    if error.code != UNSUPPORTED_PROTOCOL_VERSION:
        return error
    listed = ", ".join(str(name)[:40] for name in _supported_in(error)[:20]) or "another revision"
    return UnsupportedRevision(f"the server speaks {listed}; this client speaks {_names(ours)}")


def _names(ours: ClientIdentity) -> str:
    return ", ".join(revision.name for revision in ours.revisions)
