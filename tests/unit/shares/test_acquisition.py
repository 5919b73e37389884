"""Acquisition: batches of the log, limits, and throttling near the delivery limit."""

from __future__ import annotations

import pytest

from kafkalite.shares.acknowledgement import AcknowledgementBatch, acknowledge
from kafkalite.shares.acquisition import (
    AcquiredRecords,
    AcquireRequest,
    Acquisition,
    FetchedBatches,
    ShareLimits,
)
from kafkalite.shares.window import Window
from tests.unit.shares.share_coordinator import no_dead_letters

LIMITS = ShareLimits(max_deliveries=5, max_records_in_flight=2000, lock_duration_ms=30_000)
RELEASE = 2


class Group:
    """One share partition, its members and the batches of its log."""

    def __init__(self, *sizes: int, limits: ShareLimits = LIMITS) -> None:
        self.window = Window(0)
        self.limits = limits
        self.batches: list[tuple[int, int]] = []
        for size in sizes:
            base = self.batches[-1][1] + 1 if self.batches else 0
            self.batches.append((base, base + size - 1))

    def fetch(
        self,
        member: str = "a",
        max_records: int = 500,
        batch_size: int = 500,
        *,
        exact: bool = False,
    ) -> list[AcquiredRecords]:
        """Fetch from the next offset, and acquire as much as possible."""
        offset = self.window.next_fetch_offset()
        read = [each for each in self.batches if each[1] >= offset]
        acquisition = Acquisition(
            self.window,
            FetchedBatches(read, offset),
            AcquireRequest(member, max_records, batch_size, is_exact=exact),
            self.limits,
            1_000,
        )
        acquisition.run()
        assert acquisition.count == sum(one.size for one in acquisition.acquired)
        return acquisition.acquired

    def release(self, first: int, last: int, member: str = "a") -> None:
        batch = AcknowledgementBatch(first, last, [RELEASE])
        acknowledge(
            self.window, member, [batch], self.limits, 1_000, has_dead_letters=no_dead_letters
        ).apply()
        self.window.advance_start()


def spans(acquired: list[AcquiredRecords]) -> list[tuple[int, int, int]]:
    return [(one.first, one.last, one.delivery_count) for one in acquired]


def test_acquired_batches_begin_at_batches_of_the_log() -> None:
    group = Group(2, 3, 4, 5)
    assert spans(group.fetch(batch_size=4)) == [(0, 4, 1), (5, 8, 1), (9, 13, 1)]
    assert [(each.first, each.last) for each in group.window.in_flight.batches] == [
        (0, 4), (5, 8), (9, 13),
    ]  # fmt: skip


def test_batch_size_of_zero_is_accepted() -> None:
    assert spans(Group(2, 3).fetch(batch_size=0)) == [(0, 1, 1), (2, 4, 1)]
    assert spans(Group(2, 3).fetch(batch_size=-1)) == [(0, 1, 1), (2, 4, 1)]


def test_complete_batches_of_the_log_are_acquired_by_default() -> None:
    assert spans(Group(5, 5).fetch(max_records=3)) == [(0, 4, 1)]
    group = Group(5, 5)
    assert spans(group.fetch(max_records=3, exact=True)) == [(0, 2, 1)]
    assert spans(group.fetch("b", max_records=1, exact=True)) == [(3, 3, 1)]
    assert spans(group.fetch("b", max_records=9, exact=True)) == [(4, 4, 1), (5, 9, 1)]


def test_released_batch_is_acquired_as_a_whole() -> None:
    group = Group(2, 2, 2)
    group.fetch(batch_size=1)
    group.release(0, 5)
    assert spans(group.fetch("b", max_records=3)) == [(0, 1, 2), (2, 3, 2)]
    assert spans(group.fetch("c")) == [(4, 5, 2)]


def test_acquired_records_are_not_acquired_twice() -> None:
    group = Group(10)
    group.fetch()
    group.release(4, 5)
    assert spans(group.fetch("b")) == [(4, 5, 2)]
    assert group.fetch("c") == []


def test_records_in_flight_are_limited() -> None:
    group = Group(60, 60, 60, limits=LIMITS._replace(max_records_in_flight=100))
    assert spans(group.fetch()) == [(0, 119, 1)]
    assert group.fetch("b") == []
    group.release(10, 19)
    assert spans(group.fetch("b")) == [(10, 19, 2)]
    assert group.fetch("b") == []


def test_last_delivery_has_a_single_record() -> None:
    """Deliveries three and four have fewer and fewer records, the fifth only one."""
    group = Group(8)
    sizes: list[list[tuple[int, int, int]]] = []
    for _ in range(12):
        acquired = group.fetch()
        sizes.append(spans(acquired))
        for one in acquired:
            group.release(one.first, one.last)
    assert sizes[:8] == [
        [(0, 7, 1)], [(0, 7, 2)], [(0, 7, 3)],
        [(0, 3, 4)], [(0, 0, 5)], [(1, 1, 5)], [(2, 2, 5)], [(3, 3, 5)],
    ]  # fmt: skip
    assert sizes[8:] == [[(4, 7, 4)], [(4, 4, 5)], [(5, 5, 5)], [(6, 6, 5)]]


def test_throttled_batch_is_acquired_alone() -> None:
    group = Group(4, 4)
    for _ in range(3):
        group.fetch(batch_size=1)
        group.release(4, 7)
    group.release(0, 3)
    assert spans(group.fetch(batch_size=1)) == [(0, 3, 2)]
    assert spans(group.fetch("b", batch_size=1)) == [(4, 5, 4)]


@pytest.mark.parametrize(
    ("deliveries", "throttled_delivery_count"), [(2, 2), (3, 2), (4, 2), (5, 3), (10, 5)]
)
def test_throttling_begins_at_half_the_delivery_limit(
    deliveries: int, throttled_delivery_count: int
) -> None:
    assert (
        LIMITS._replace(max_deliveries=deliveries).throttled_delivery_count
        == throttled_delivery_count
    )


def test_with_two_deliveries_nothing_is_throttled() -> None:
    group = Group(4, limits=LIMITS._replace(max_deliveries=2))
    group.fetch()
    group.release(1, 3)
    assert spans(group.fetch("b")) == [(1, 3, 2)]


def test_empty_fetch_acquires_nothing() -> None:
    group = Group(4)
    assert group.fetch(max_records=0) == []
    group.batches.clear()
    assert group.fetch() == []
    assert not group.window.in_flight


def test_records_before_the_window_are_not_acquired() -> None:
    group = Group(4, 4)
    group.window.advance_log_start(6)
    assert spans(group.fetch()) == [(6, 7, 1)]
    acquisition = Acquisition(
        group.window, FetchedBatches([(0, 3)], 0), AcquireRequest("a", 9, 9), LIMITS, 0
    )
    acquisition.run()
    assert acquisition.acquired == []
