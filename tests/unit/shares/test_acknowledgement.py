"""Acknowledgement: decided on copies, so that failures have no effect."""

from __future__ import annotations

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares import acknowledgement
from kafkalite.shares.acknowledgement import AcknowledgementBatch, AcknowledgeType, PendingChanges
from kafkalite.shares.acquisition import AcquireRequest, Acquisition, FetchedBatches, ShareLimits
from kafkalite.shares.state import StateBatch
from kafkalite.shares.window import Window
from tests.unit.shares.share_coordinator import no_dead_letters

LIMITS = ShareLimits(max_deliveries=2, max_records_in_flight=2000, lock_duration_ms=1_000)
GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def window_of(size: int = 10, member: str = "a") -> Window:
    """Return a window with one batch that a member has acquired."""
    window = Window(0)
    request = AcquireRequest(member, 500, 500)
    Acquisition(window, FetchedBatches([(0, size - 1)], 0), request, LIMITS, 0).run()
    return window


def ack(
    window: Window, *batches: AcknowledgementBatch, member: str = "a", now_ms: int = 0
) -> PendingChanges:
    return acknowledgement.acknowledge(
        window, member, batches, LIMITS, now_ms, has_dead_letters=no_dead_letters
    )


def stored_states(pending: PendingChanges) -> list[tuple[int, int, int]]:
    return [
        (each.first_offset, each.last_offset, each.delivery_state)
        for each in pending.batches_to_store
    ]


def test_batch_is_acknowledged_as_a_whole() -> None:
    window = window_of()
    pending = ack(window, AcknowledgementBatch(0, 9, [ACCEPT]))
    assert pending.batches_to_store == [StateBatch(0, 9, 2, 1)]
    assert pending.complete_count == 10
    assert window.in_flight.batches[0].only_run.member_id == "a"
    pending.apply()
    assert window.in_flight.batches[0].only_run.is_final


def test_equal_acknowledgements_are_stored_as_one_batch() -> None:
    types = [ACCEPT] * 3 + [RELEASE] * 2 + [GAP, REJECT] + [ACCEPT] * 3
    pending = ack(window_of(), AcknowledgementBatch(0, 9, types))
    assert stored_states(pending) == [(0, 2, 2), (3, 4, 0), (5, 5, 4), (6, 6, 4), (7, 9, 2)]
    assert pending.has_freed_records


@pytest.mark.parametrize(
    ("batches", "member"),
    [
        ([AcknowledgementBatch(0, 9, [ACCEPT])], "b"),
        ([AcknowledgementBatch(2, 3, [ACCEPT])], "b"),
        ([AcknowledgementBatch(0, 3, [ACCEPT]), AcknowledgementBatch(3, 5, [ACCEPT])], "a"),
        ([AcknowledgementBatch(0, 3, [ACCEPT]), AcknowledgementBatch(50, 60, [ACCEPT])], "a"),
    ],
)
def test_acknowledgement_with_foreign_records_is_refused(
    batches: list[AcknowledgementBatch], member: str
) -> None:
    window = window_of()
    before = repr(window.in_flight.batches)
    with pytest.raises(KafkaError):
        ack(window, *batches, member=member)
    assert repr(window.in_flight.batches) == before
    assert window.complete_count == 0


def test_renewal_is_refused_unless_the_group_allows_it() -> None:
    window = window_of()
    ack(window, AcknowledgementBatch(0, 9, [RENEW]), now_ms=500).apply()
    assert acknowledgement.next_deadline_ms(window) == 1_500
    strict = LIMITS._replace(allows_renewal=False)
    with pytest.raises(KafkaError) as refusal:
        acknowledgement.acknowledge(
            window,
            "a",
            [AcknowledgementBatch(0, 9, [RENEW])],
            strict,
            500,
            has_dead_letters=no_dead_letters,
        )
    assert refusal.value.code is ErrorCode.INVALID_RECORD_STATE


def test_records_before_the_window_are_skipped() -> None:
    window = window_of()
    window.advance_log_start(5)
    assert ack(window, AcknowledgementBatch(0, 4, [ACCEPT])).batches_to_store == []
    pending = ack(window, AcknowledgementBatch(0, 9, [ACCEPT]))
    assert stored_states(pending) == [(5, 9, 2)]
    pending.apply()
    # As in Kafka: the start does not pass earlier records until their lock expires.
    assert not window.advance_start()
    acknowledgement.expire(window, LIMITS, 1_000, has_dead_letters=no_dead_letters).apply()
    assert window.advance_start()
    assert window.start_offset == 10


def test_release_archives_records_that_the_log_deleted() -> None:
    window = window_of()
    window.advance_log_start(5)
    pending = acknowledgement.release(window, "a", LIMITS, has_dead_letters=no_dead_letters)
    assert stored_states(pending) == [(0, 4, 4), (5, 9, 0)]
    assert pending.complete_count == 0
    pending.apply()
    assert window.next_fetch_offset() == 5
    assert (
        acknowledgement.release(
            window, "b", LIMITS, has_dead_letters=no_dead_letters
        ).batches_to_store
        == []
    )


def test_locks_expire_at_their_deadline() -> None:
    window = window_of()
    ack(window, AcknowledgementBatch(0, 4, [RENEW]), now_ms=500).apply()
    assert (
        acknowledgement.expire(window, LIMITS, 999, has_dead_letters=no_dead_letters).copies == {}
    )
    pending = acknowledgement.expire(window, LIMITS, 1_000, has_dead_letters=no_dead_letters)
    assert stored_states(pending) == [(5, 9, 0)]
    assert [(run.first, run.last, run.member_id) for run in pending.expired] == [(5, 9, "a")]
    pending.apply()
    assert acknowledgement.next_deadline_ms(window) == 1_500
    acknowledgement.expire(window, LIMITS, 1_500, has_dead_letters=no_dead_letters).apply()
    assert acknowledgement.next_deadline_ms(window) is None


def test_records_are_archived_after_the_last_delivery() -> None:
    window = window_of(2)
    ack(window, AcknowledgementBatch(0, 1, [RELEASE])).apply()
    Acquisition(window, FetchedBatches([(0, 1)], 0), AcquireRequest("b", 9, 9), LIMITS, 0).run()
    pending = acknowledgement.expire(window, LIMITS, 1_000, has_dead_letters=no_dead_letters)
    assert stored_states(pending) == [(0, 1, 4)]
    assert not pending.has_freed_records
    assert [run.delivery_count for run in pending.archived] == [2]
    pending.apply()
    window.advance_start()
    assert (window.start_offset, window.record_count) == (2, 0)


def test_gaps_between_batches_in_flight_are_skipped() -> None:
    window = window_of(5)
    Acquisition(window, FetchedBatches([(8, 9)], 5), AcquireRequest("a", 9, 9), LIMITS, 0).run()
    with pytest.raises(KafkaError) as refusal:
        ack(window, AcknowledgementBatch(5, 7, [ACCEPT]))
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    # A batch that covers the gap applies to the records on both sides.
    assert stored_states(ack(window, AcknowledgementBatch(3, 9, [ACCEPT]))) == [
        (3, 4, 2),
        (8, 9, 2),
    ]


def test_the_dead_letter_topic_is_looked_up_once_and_only_for_archived_records() -> None:
    calls: list[None] = []

    def has_topic() -> bool:
        calls.append(None)
        return True

    def decide(*types: int) -> PendingChanges:
        batch = AcknowledgementBatch(0, 9, types)
        return acknowledgement.acknowledge(
            window_of(), "a", [batch], LIMITS, 0, has_dead_letters=has_topic
        )

    decide(ACCEPT)
    decide(RELEASE)
    decide(RENEW)
    assert calls == []
    pending = decide(*[REJECT, ACCEPT] * 5)
    assert [run.first for run, _ in pending.dead_letters] == [0, 2, 4, 6, 8]
    assert len(calls) == 1
