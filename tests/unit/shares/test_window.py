"""The window of a share partition: what is kept is taken up, the start follows what is settled."""

from __future__ import annotations

import pytest

from kafkalite.shares import settling
from kafkalite.shares.acquiring import Acquisition, Fetched, Limits, Wish
from kafkalite.shares.settling import AckBatch, acknowledge
from kafkalite.shares.state import DeliveryState, StateBatch
from kafkalite.shares.window import Window

LIMITS = Limits(deliveries=5, records=2000, lock_ms=30_000)
ACCEPT, RELEASE = 1, 2


def taken(window: Window, *batches: tuple[int, int], member: str = "a") -> list[tuple[int, int]]:
    """Let a member have what it may of these batches of the log."""
    fetched = Fetched(batches, window.next_fetch_offset())
    acquisition = Acquisition(window, fetched, Wish(member, 500, 500), LIMITS, 0)
    acquisition.run()
    return [(one.first, one.last) for one in acquisition.acquired]


def said(window: Window, first: int, last: int, word: int = ACCEPT) -> None:
    acknowledge(window, "a", [AckBatch(first, last, [word])], LIMITS, 0).apply()
    window.settle_start()


def test_an_empty_window_reads_on_at_its_start() -> None:
    window = Window(7)
    assert window.next_fetch_offset() == 7
    assert window.record_count == 0
    assert not window.settle_start()


def test_the_start_follows_what_is_settled() -> None:
    window = Window(0)
    assert taken(window, (0, 4), (5, 9)) == [(0, 9)]
    assert (window.start_offset, window.end_offset, window.record_count) == (0, 9, 10)
    said(window, 3, 5)
    assert (window.start_offset, window.complete_count) == (0, 3)
    said(window, 0, 2)
    assert (window.start_offset, window.complete_count, window.record_count) == (6, 0, 4)
    said(window, 6, 9)
    assert (window.start_offset, window.end_offset, window.record_count) == (10, 10, 0)


def test_what_is_released_is_read_first() -> None:
    window = Window(0)
    taken(window, (0, 9))
    assert window.next_fetch_offset() == 10
    assert window.can_acquire(11)
    assert not window.can_acquire(10)
    said(window, 4, 5, RELEASE)
    assert window.next_fetch_offset() == 4
    assert window.can_acquire(10)


def test_a_kept_state_is_taken_up_with_its_gap() -> None:
    """Records 3 to 5 were acquired and not settled: nothing is known of them."""
    kept = (StateBatch(0, 2, 2, 1), StateBatch(6, 9, 2, 1), StateBatch(10, 11, 0, 2))
    window = Window(0, kept)
    assert (window.start_offset, window.end_offset, window.complete_count) == (3, 11, 4)
    assert window.next_fetch_offset() == 3
    assert taken(window, (0, 5), (6, 11)) == [(3, 5), (10, 11)]
    assert window.active_gap is None
    said(window, 3, 5)
    assert window.start_offset == 10


def test_a_gap_keeps_the_start_before_it() -> None:
    window = Window(0, (StateBatch(5, 9, 2, 1),))
    assert (window.start_offset, window.next_fetch_offset()) == (0, 0)
    assert not window.settle_start()
    assert taken(window, (0, 2)) == [(0, 2)]
    assert window.next_fetch_offset() == 3
    said(window, 0, 2)
    assert window.start_offset == 3
    assert taken(window, (3, 20)) == [(3, 4), (10, 20)]


@pytest.mark.parametrize(
    "kept",
    [
        [StateBatch(3, 9, 2, 1)],
        [StateBatch(5, 9, 2, 1), StateBatch(8, 9, 0, 1)],
        [StateBatch(9, 5, 2, 1)],
        [StateBatch(5, 9, 77, 1)],
    ],
)
def test_a_kept_state_that_makes_no_sense_is_refused(kept: list[StateBatch]) -> None:
    with pytest.raises(ValueError, match=r"batch from|DeliveryState"):
        Window(5, kept)


def test_the_window_follows_the_log_that_loses_records() -> None:
    window = Window(0)
    window.follow_log_start(3)
    assert (window.start_offset, window.end_offset) == (3, 3)
    taken(window, (3, 12))
    said(window, 5, 6, RELEASE)
    said(window, 8, 8)
    window.follow_log_start(10)
    assert (window.start_offset, window.end_offset, window.complete_count) == (10, 12, 0)
    assert window.next_fetch_offset() == 13
    window.follow_log_start(4)
    assert window.start_offset == 10
    window.follow_log_start(20)
    assert (window.start_offset, window.end_offset, window.next_fetch_offset()) == (20, 20, 20)


def test_the_start_never_goes_back_when_the_log_lost_what_somebody_had() -> None:
    """Kafka's does, until the next fetch finds that the log begins later."""
    window = Window(0)
    taken(window, (0, 2))
    window.follow_log_start(5)
    settling.release(window, "a", LIMITS).apply()
    assert window.settle_start()
    assert (window.start_offset, window.end_offset) == (5, 5)
    # The same with a gap of which nothing is known.
    window = Window(9, (StateBatch(9, 12, 0, 1), StateBatch(14, 14, 2, 1)))
    window.follow_log_start(14)
    window.settle_start()
    assert window.start_offset >= 14


def test_what_compaction_took_is_given_up() -> None:
    window = Window(0)
    taken(window, (0, 9))
    said(window, 0, 9, RELEASE)
    assert taken(window, (6, 9)) == [(6, 9)]
    states = [run.state for batch in window.in_flight.batches for run in batch.runs]
    assert states == [DeliveryState.ARCHIVED, DeliveryState.ACQUIRED]
    assert window.complete_count == 6
    assert window.settle_start()
    assert (window.start_offset, window.complete_count) == (6, 0)


def test_a_gap_in_the_log_moves_the_start_of_an_empty_window() -> None:
    window = Window(0)
    assert taken(window, (5, 9)) == [(5, 9)]
    assert window.start_offset == 5
