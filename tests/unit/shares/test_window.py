"""The window of a share partition: loaded from a stored state, its start advances."""

from __future__ import annotations

import pytest

from kafkalite.shares import acknowledgement
from kafkalite.shares.acknowledgement import AcknowledgementBatch, acknowledge
from kafkalite.shares.acquisition import AcquireRequest, Acquisition, FetchedBatches, ShareLimits
from kafkalite.shares.state import DeliveryState, StateBatch
from kafkalite.shares.window import Window
from tests.unit.shares.share_coordinator import no_dead_letters

LIMITS = ShareLimits(max_deliveries=5, max_records_in_flight=2000, lock_duration_ms=30_000)
ACCEPT, RELEASE = 1, 2


def acquire(window: Window, *batches: tuple[int, int], member: str = "a") -> list[tuple[int, int]]:
    """Acquire what is possible from these batches of the log for a member."""
    fetched = FetchedBatches(batches, window.next_fetch_offset())
    acquisition = Acquisition(window, fetched, AcquireRequest(member, 500, 500), LIMITS, 0)
    acquisition.run()
    return [(one.first, one.last) for one in acquisition.acquired]


def acknowledge_and_advance(
    window: Window, first: int, last: int, acknowledge_type: int = ACCEPT
) -> None:
    acknowledge(
        window,
        "a",
        [AcknowledgementBatch(first, last, [acknowledge_type])],
        LIMITS,
        0,
        has_dead_letters=no_dead_letters,
    ).apply()
    window.advance_start()


def test_empty_window_fetches_at_its_start() -> None:
    window = Window(7)
    assert window.next_fetch_offset() == 7
    assert window.record_count == 0
    assert not window.advance_start()


def test_start_advances_over_final_records() -> None:
    window = Window(0)
    assert acquire(window, (0, 4), (5, 9)) == [(0, 9)]
    assert (window.start_offset, window.end_offset, window.record_count) == (0, 9, 10)
    acknowledge_and_advance(window, 3, 5)
    assert (window.start_offset, window.complete_count) == (0, 3)
    acknowledge_and_advance(window, 0, 2)
    assert (window.start_offset, window.complete_count, window.record_count) == (6, 0, 4)
    acknowledge_and_advance(window, 6, 9)
    assert (window.start_offset, window.end_offset, window.record_count) == (10, 10, 0)


def test_released_records_are_fetched_first() -> None:
    window = Window(0)
    acquire(window, (0, 9))
    assert window.next_fetch_offset() == 10
    assert window.can_acquire(11)
    assert not window.can_acquire(10)
    acknowledge_and_advance(window, 4, 5, RELEASE)
    assert window.next_fetch_offset() == 4
    assert window.can_acquire(10)


def test_stored_state_is_loaded_with_its_gap() -> None:
    """Records 3 to 5 were acquired but not acknowledged: they are in no batch."""
    stored = (StateBatch(0, 2, 2, 1), StateBatch(6, 9, 2, 1), StateBatch(10, 11, 0, 2))
    window = Window(0, stored)
    assert (window.start_offset, window.end_offset, window.complete_count) == (3, 11, 4)
    assert window.next_fetch_offset() == 3
    assert acquire(window, (0, 5), (6, 11)) == [(3, 5), (10, 11)]
    assert window.active_gap is None
    acknowledge_and_advance(window, 3, 5)
    assert window.start_offset == 10


def test_start_does_not_pass_a_gap() -> None:
    window = Window(0, (StateBatch(5, 9, 2, 1),))
    assert (window.start_offset, window.next_fetch_offset()) == (0, 0)
    assert not window.advance_start()
    assert acquire(window, (0, 2)) == [(0, 2)]
    assert window.next_fetch_offset() == 3
    acknowledge_and_advance(window, 0, 2)
    assert window.start_offset == 3
    assert acquire(window, (3, 20)) == [(3, 4), (10, 20)]


@pytest.mark.parametrize(
    "stored",
    [
        [StateBatch(3, 9, 2, 1)],
        [StateBatch(5, 9, 2, 1), StateBatch(8, 9, 0, 1)],
        [StateBatch(9, 5, 2, 1)],
        [StateBatch(5, 9, 77, 1)],
    ],
)
def test_inconsistent_state_is_refused(stored: list[StateBatch]) -> None:
    with pytest.raises(ValueError, match=r"batch from|DeliveryState"):
        Window(5, stored)


def test_window_advances_when_the_log_deletes_records() -> None:
    window = Window(0)
    window.advance_log_start(3)
    assert (window.start_offset, window.end_offset) == (3, 3)
    acquire(window, (3, 12))
    acknowledge_and_advance(window, 5, 6, RELEASE)
    acknowledge_and_advance(window, 8, 8)
    window.advance_log_start(10)
    assert (window.start_offset, window.end_offset, window.complete_count) == (10, 12, 0)
    assert window.next_fetch_offset() == 13
    window.advance_log_start(4)
    assert window.start_offset == 10
    window.advance_log_start(20)
    assert (window.start_offset, window.end_offset, window.next_fetch_offset()) == (20, 20, 20)


def test_start_never_goes_back_over_deleted_records() -> None:
    """Kafka's does, until the next fetch finds the new start of the log."""
    window = Window(0)
    acquire(window, (0, 2))
    window.advance_log_start(5)
    acknowledgement.release(window, "a", LIMITS, has_dead_letters=no_dead_letters).apply()
    assert window.advance_start()
    assert (window.start_offset, window.end_offset) == (5, 5)
    # The same with a gap.
    window = Window(9, (StateBatch(9, 12, 0, 1), StateBatch(14, 14, 2, 1)))
    window.advance_log_start(14)
    window.advance_start()
    assert window.start_offset >= 14


def test_compacted_records_are_archived() -> None:
    window = Window(0)
    acquire(window, (0, 9))
    acknowledge_and_advance(window, 0, 9, RELEASE)
    assert acquire(window, (6, 9)) == [(6, 9)]
    states = [run.state for batch in window.in_flight.batches for run in batch.runs]
    assert states == [DeliveryState.ARCHIVED, DeliveryState.ACQUIRED]
    assert window.complete_count == 6
    assert window.advance_start()
    assert (window.start_offset, window.complete_count) == (6, 0)


def test_a_gap_in_the_log_moves_the_start_of_an_empty_window() -> None:
    window = Window(0)
    assert acquire(window, (5, 9)) == [(5, 9)]
    assert window.start_offset == 5
