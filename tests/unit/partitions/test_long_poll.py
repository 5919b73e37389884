"""Long polls end once, and are removed from all partitions."""

from __future__ import annotations

import pytest

from kafkalite.partitions.long_poll import LongPoll, Watcher
from kafkalite.testing.clock import ManualClock


class Place:
    """A partition that only counts bytes."""

    def __init__(self) -> None:
        self.watches: dict[Watcher, None] = {}
        self.sizes: list[int] = []
        self.last_stable_offset = 0
        self.reaches_far = True
        self.is_broken = False

    def watch(self, watch: Watcher) -> None:
        self.watches[watch] = None

    def unwatch(self, watch: Watcher) -> None:
        self.watches.pop(watch, None)

    def readable_bytes(self, offset: int, limit_offset: int) -> int | None:
        if self.is_broken:
            raise OSError
        return sum(self.sizes[offset:limit_offset]) if self.reaches_far else None

    def append(self, size: int, *, stable: bool = True) -> None:
        self.sizes.append(size)
        if stable:
            self.last_stable_offset = len(self.sizes)
        for watch in tuple(self.watches):
            watch.on_append(size)


class Poller:
    """A long poll on some partitions, and how often it ended."""

    def __init__(self, *places: Place, missing: int = 10, committed: bool = False) -> None:
        self.clock = ManualClock(0)
        self.ended = 0
        self.poll = LongPoll(missing_bytes=missing, on_end=self.on_end)
        for place in places:
            self.poll.add(
                place, offset=0, readable_bytes=0, max_bytes=100, is_read_committed=committed
            )
        self.poll.start(self.clock, 500)

    def on_end(self) -> None:
        self.ended += 1


@pytest.fixture
def place() -> Place:
    return Place()


def test_enough_bytes_end_the_wait(place: Place) -> None:
    poller = Poller(place)
    place.append(4)
    assert poller.ended == 0
    place.append(6)
    assert poller.ended == 1
    assert not place.watches
    assert poller.clock.next_deadline_ms is None


def test_bytes_of_several_partitions_count_together() -> None:
    first, second = Place(), Place()
    poller = Poller(first, second)
    first.append(5)
    second.append(5)
    assert poller.ended == 1
    assert not first.watches


def test_deadline_ends_the_wait(place: Place) -> None:
    poller = Poller(place)
    poller.clock.advance(499)
    assert poller.ended == 0
    poller.clock.advance(1)
    assert poller.ended == 1
    place.append(1000)
    assert poller.ended == 1


def test_a_change_ends_the_wait(place: Place) -> None:
    poller = Poller(place)
    for watch in tuple(place.watches):
        watch.on_change()
    assert poller.ended == 1
    assert poller.clock.next_deadline_ms is None


def test_abandoned_wait_does_not_call_on_end(place: Place) -> None:
    poller = Poller(place)
    poller.poll.abandon()
    place.append(1000)
    poller.clock.advance(1000)
    assert poller.ended == 0
    assert not place.watches


def test_bytes_of_an_open_transaction_count_when_it_ends(place: Place) -> None:
    poller = Poller(place, missing=15, committed=True)
    place.append(10, stable=False)
    place.append(4, stable=False)
    assert poller.ended == 0
    place.append(1)
    assert poller.ended == 1


def test_earlier_hidden_bytes_count_when_they_become_readable(place: Place) -> None:
    place.append(40, stable=False)
    poller = Poller(place, missing=41, committed=True)
    place.append(1)
    assert poller.ended == 1


def test_marker_of_one_of_several_transactions_counts_newly_readable_bytes(place: Place) -> None:
    place.append(40, stable=False)
    poller = Poller(place, missing=41, committed=True)
    place.append(1, stable=False)
    place.last_stable_offset = 1
    for watch in tuple(place.watches):
        watch.on_append(5)
    assert poller.ended == 0
    place.append(1)
    assert poller.ended == 1


def test_committed_records_beyond_one_read_end_the_wait(place: Place) -> None:
    poller = Poller(place, missing=1000, committed=True)
    place.reaches_far = False
    place.append(1)
    assert poller.ended == 1


def test_failing_disk_ends_the_wait(place: Place) -> None:
    poller = Poller(place, missing=1000, committed=True)
    place.is_broken = True
    place.append(1)
    assert poller.ended == 1


def test_a_partition_counts_up_to_its_own_limit() -> None:
    place = Place()
    poller = Poller(missing=120)
    poller.poll.add(place, offset=0, readable_bytes=30, max_bytes=100, is_read_committed=False)
    place.append(500)
    assert poller.ended == 0
    other = Place()
    poller.poll.add(other, offset=0, readable_bytes=0, max_bytes=100, is_read_committed=False)
    other.append(50)
    assert poller.ended == 1


def test_watch_called_after_the_end_has_no_effect(place: Place) -> None:
    poller = Poller(place, missing=1)
    (watch,) = place.watches
    place.append(1)
    watch.on_append(1)
    watch.on_change()
    assert poller.ended == 1
