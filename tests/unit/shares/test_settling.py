"""Settling: decided on copies, so that what fails leaves no trace."""

from __future__ import annotations

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares import settling
from kafkalite.shares.acquiring import Acquisition, Fetched, Limits, Wish
from kafkalite.shares.settling import AckBatch, AckType, Settlement
from kafkalite.shares.state import StateBatch
from kafkalite.shares.window import Window

LIMITS = Limits(deliveries=2, records=2000, lock_ms=1_000)
GAP, ACCEPT, RELEASE, REJECT, RENEW = AckType


def window_of(size: int = 10, member: str = "a") -> Window:
    """Return a window of one batch that a member has."""
    window = Window(0)
    wish = Wish(member, 500, 500)
    Acquisition(window, Fetched([(0, size - 1)], 0), wish, LIMITS, 0).run()
    return window


def ack(window: Window, *batches: AckBatch, member: str = "a", now_ms: int = 0) -> Settlement:
    return settling.acknowledge(window, member, batches, LIMITS, now_ms)


def kept(settlement: Settlement) -> list[tuple[int, int, int]]:
    return [(each.first_offset, each.last_offset, each.delivery_state) for each in settlement.kept]


def test_a_batch_is_settled_as_one() -> None:
    window = window_of()
    settlement = ack(window, AckBatch(0, 9, [ACCEPT]))
    assert settlement.kept == [StateBatch(0, 9, 2, 1)]
    assert settlement.complete_count == 10
    assert window.in_flight.batches[0].whole.member_id == "a"
    settlement.apply()
    assert window.in_flight.batches[0].whole.is_final


def test_words_alike_are_kept_together() -> None:
    words = [ACCEPT] * 3 + [RELEASE] * 2 + [GAP, REJECT] + [ACCEPT] * 3
    settlement = ack(window_of(), AckBatch(0, 9, words))
    assert kept(settlement) == [(0, 2, 2), (3, 4, 0), (5, 5, 4), (6, 6, 4), (7, 9, 2)]
    assert settlement.frees


@pytest.mark.parametrize(
    ("batches", "member"),
    [
        ([AckBatch(0, 9, [ACCEPT])], "b"),
        ([AckBatch(2, 3, [ACCEPT])], "b"),
        ([AckBatch(0, 3, [ACCEPT]), AckBatch(3, 5, [ACCEPT])], "a"),
        ([AckBatch(0, 3, [ACCEPT]), AckBatch(50, 60, [ACCEPT])], "a"),
    ],
)
def test_what_is_not_ones_own_is_refused_whole(batches: list[AckBatch], member: str) -> None:
    window = window_of()
    before = repr(window.in_flight.batches)
    with pytest.raises(KafkaError):
        ack(window, *batches, member=member)
    assert repr(window.in_flight.batches) == before
    assert window.complete_count == 0


def test_renewing_needs_the_groups_leave() -> None:
    window = window_of()
    ack(window, AckBatch(0, 9, [RENEW]), now_ms=500).apply()
    assert settling.next_deadline_ms(window) == 1_500
    strict = LIMITS._replace(allows_renewal=False)
    with pytest.raises(KafkaError) as refusal:
        settling.acknowledge(window, "a", [AckBatch(0, 9, [RENEW])], strict, 500)
    assert refusal.value.code is ErrorCode.INVALID_RECORD_STATE


def test_what_lies_before_the_window_is_passed_over() -> None:
    window = window_of()
    window.follow_log_start(5)
    assert ack(window, AckBatch(0, 4, [ACCEPT])).kept == []
    settlement = ack(window, AckBatch(0, 9, [ACCEPT]))
    assert kept(settlement) == [(5, 9, 2)]
    settlement.apply()
    # As in Kafka: the start waits for those before it, until their lock runs out.
    assert not window.settle_start()
    settling.expire(window, LIMITS, 1_000).apply()
    assert window.settle_start()
    assert window.start_offset == 10


def test_a_release_gives_up_what_the_log_has_lost() -> None:
    window = window_of()
    window.follow_log_start(5)
    settlement = settling.release(window, "a", LIMITS)
    assert kept(settlement) == [(0, 4, 4), (5, 9, 0)]
    assert settlement.complete_count == 0
    settlement.apply()
    assert window.next_fetch_offset() == 5
    assert settling.release(window, "b", LIMITS).kept == []


def test_locks_run_out_at_their_time() -> None:
    window = window_of()
    ack(window, AckBatch(0, 4, [RENEW]), now_ms=500).apply()
    assert settling.expire(window, LIMITS, 999).changed == {}
    settlement = settling.expire(window, LIMITS, 1_000)
    assert kept(settlement) == [(5, 9, 0)]
    assert [(run.first, run.last, run.member_id) for run in settlement.expired] == [(5, 9, "a")]
    settlement.apply()
    assert settling.next_deadline_ms(window) == 1_500
    settling.expire(window, LIMITS, 1_500).apply()
    assert settling.next_deadline_ms(window) is None


def test_the_last_delivery_ends_in_giving_up() -> None:
    window = window_of(2)
    ack(window, AckBatch(0, 1, [RELEASE])).apply()
    Acquisition(window, Fetched([(0, 1)], 0), Wish("b", 9, 9), LIMITS, 0).run()
    settlement = settling.expire(window, LIMITS, 1_000)
    assert kept(settlement) == [(0, 1, 4)]
    assert not settlement.frees
    assert [run.delivery_count for run in settlement.given_up] == [2]
    settlement.apply()
    window.settle_start()
    assert (window.start_offset, window.record_count) == (2, 0)


def test_records_between_batches_in_flight_are_nobodys() -> None:
    window = window_of(5)
    Acquisition(window, Fetched([(8, 9)], 5), Wish("a", 9, 9), LIMITS, 0).run()
    with pytest.raises(KafkaError) as refusal:
        ack(window, AckBatch(5, 7, [ACCEPT]))
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    # A batch that reaches over the hole is about the records on both its sides.
    assert kept(ack(window, AckBatch(3, 9, [ACCEPT]))) == [(3, 4, 2), (8, 9, 2)]
