"""The announcement of changes, with announcers that note what they send."""

from __future__ import annotations

import asyncio

import pytest

from mcp_ref.server import announcements
from mcp_ref.server.announcements import MAX_QUEUED_CHANGES, Announcer, Announcers, Change, OpenSubscriptions
from tests.settings import PATIENCE

UPDATED = "notifications/resources/updated"


class Noting(Announcer):
    """An announcer that wants all changes but "unwanted", and fails to send "broken"."""

    def __init__(self, announcers: Announcers) -> None:
        self.loop, self.shares = asyncio.get_running_loop(), announcers.queued
        self.ready = self.room = True
        self.reading = asyncio.Event()
        self.reading.set()
        self.sent: list[Change] = []

    @property
    def is_ready(self) -> bool:
        return self.ready

    @property
    def has_room(self) -> bool:
        return self.room

    def subscribed_uris(self) -> list[str]:
        return []

    def wants(self, method: str, subject: str | None) -> bool:
        return subject != "unwanted"

    def send_change(self, method: str, subject: str | None) -> None:
        if subject == "broken":
            raise ValueError("broken")
        self.sent.append((method, subject))

    async def drain_changes(self) -> None:
        await self.reading.wait()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_wanted_change_is_sent_at_once_if_there_is_room(caplog: pytest.LogCaptureFixture) -> None:
    announcer = Noting(Announcers())
    for subject in ("a", "unwanted", "broken", "a"):
        announcer.announce(UPDATED, subject)
    assert announcer.sent == [(UPDATED, "a")] * 2 and announcer._sender is None
    assert caplog.messages == [f"the notification {UPDATED} could not be sent, so a client missed a change"]
    caplog.clear()


@pytest.mark.parametrize("reason", ["ready", "room"])
async def test_change_waits_in_a_queue_until_the_client_is_ready_and_reads(reason: str) -> None:
    announcers = Announcers()
    announcer = Noting(announcers)
    setattr(announcer, reason, False)
    announcer.reading.clear()
    for subject in ("a", "unwanted", "b", "a"):
        announcer.announce(UPDATED, subject)
    await turns()
    assert announcer.sent == ([] if reason == "ready" else [(UPDATED, "a")])
    setattr(announcer, reason, True)
    announcer.announce(UPDATED, "c")  # after those of the queue
    await turns()
    assert announcer.sent == [(UPDATED, "a")]
    assert (announcers.queued.used > 0) and announcer._sender is not None
    announcer.reading.set()
    await turns()
    assert announcer.sent == [(UPDATED, subject) for subject in ("a", "b", "c")]
    assert announcers.queued.used == 0 and not announcer._sender and announcer._changes is None


async def test_queue_of_a_client_that_is_not_ready_drops_the_oldest_change() -> None:
    announcer = Noting(Announcers())
    announcer.ready = False
    for number in range(MAX_QUEUED_CHANGES + 1):
        announcer.announce(UPDATED, str(number))
    announcer.ready = True
    announcer.send_queued()
    for _ in range(MAX_QUEUED_CHANGES + 5):
        await asyncio.sleep(0)
    assert announcer.sent == [(UPDATED, str(number)) for number in range(1, MAX_QUEUED_CHANGES + 1)]


async def test_stop_announcing_forgets_the_queue_and_ends_its_task() -> None:
    announcers = Announcers()
    announcer = Noting(announcers)
    announcer.room = False
    announcer.reading.clear()
    for subject in ("a", "b", "c"):
        announcer.announce(UPDATED, subject)
    await turns()
    sender = announcer._sender
    announcer.stop_announcing()
    await turns()
    assert sender is not None and sender.cancelled() and announcer._sender is None
    assert (announcer.sent, announcers.queued.used) == ([(UPDATED, "a")], 0)


async def test_equal_changes_of_one_iteration_are_announced_once_and_published_each_time() -> None:
    announcers, published = Announcers(), list[Change]()
    announcers.publish = published.append
    first, second = Noting(announcers), Noting(announcers)
    announcers.update((first, second))
    changes = [(UPDATED, "b"), (UPDATED, "a"), (UPDATED, "b"), ("notifications/tools/list_changed", None)]

    def announce() -> None:
        for change in changes:
            announcers.announce(*change)

    await asyncio.to_thread(announce)
    announcers.announce_here(*changes[0])
    await turns()
    assert published == changes
    assert set(first.sent) == set(changes) and first.sent == second.sent
    first.sent.clear()
    announcers.announce("notifications/tools/list_changed")
    await turns()
    assert first.sent == [("notifications/tools/list_changed", None)]


async def test_end_of_open_subscriptions_waits_a_limited_time_for_their_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Open:
        def __init__(self, task: asyncio.Task[object] | None) -> None:
            self.task, self.has_ended = task, False

        def end(self) -> None:
            self.has_ended = True
            subscriptions.discard(self)

    subscriptions = OpenSubscriptions()
    await subscriptions.end()
    monkeypatch.setattr(announcements, "SUBSCRIPTION_END_SECONDS", PATIENCE)
    served = asyncio.create_task(asyncio.sleep(0.001))
    both = [Open(None), Open(served)]
    subscriptions.update(both)
    await subscriptions.end()
    assert served.done() and all(each.has_ended for each in both)
    monkeypatch.setattr(announcements, "SUBSCRIPTION_END_SECONDS", 0.001)
    endless = asyncio.create_task(asyncio.sleep(PATIENCE))
    subscriptions.add(Open(endless))
    await subscriptions.end()
    assert not endless.done()
    endless.cancel()
    await asyncio.wait([endless])
