"""State of a log's producers: sequences, epochs, transactions."""

from __future__ import annotations

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    ControlKind,
    ControlMarker,
    build_control_batch,
)
from kafkalite.storage.producer_state import CompletedTransaction, ProducerStateTable
from kafkalite.storage.transaction_marker import TransactionMarker
from tests.unit.storage.logs import batch

LAST = 2**31 - 1


class Producers:
    """A producer state table, and the offsets of its batches."""

    def __init__(self) -> None:
        self.table = ProducerStateTable()
        self.end_offset = 0

    def view(
        self, sequence: int, count: int = 1, *, epoch: int = 0, pid: int = 1, txn: bool = False
    ) -> BatchView:
        """Return a batch of `count` records from this sequence number on."""
        return batch(
            *[b"v"] * count,
            producer=BatchProducer(pid, epoch, sequence),
            attributes=TRANSACTIONAL if txn else 0,
        )

    def append_unchecked(self, view: BatchView) -> CompletedTransaction | None:
        """Append a batch without checking it."""
        view.base_offset = self.end_offset
        self.end_offset = view.last_offset + 1
        return self.table.update(view)

    def send(
        self, sequence: int, count: int = 1, *, epoch: int = 0, pid: int = 1, txn: bool = False
    ) -> int | ErrorCode:
        """Send a batch as a client does; return its base offset, or the error."""
        view = self.view(sequence, count, epoch=epoch, pid=pid, txn=txn)
        try:
            repeated = self.table.check(view, is_verified=True)
        except KafkaError as error:
            return error.code
        if repeated is not None:
            return repeated.first_offset
        self.append_unchecked(view)
        return view.base_offset

    def end(
        self, kind: ControlKind, *, pid: int = 1, epoch: int = 0
    ) -> CompletedTransaction | None:
        """Write the marker that ends a producer's transaction."""
        marker = ControlMarker(kind, 3)
        data = build_control_batch(marker, producer_id=pid, producer_epoch=epoch, now_ms=50)
        return self.append_unchecked(BatchView(data))


def test_last_five_batches_are_recognised_as_duplicates() -> None:
    producers = Producers()
    for number in range(6):
        producers.send(2 * number, 2)
    assert producers.send(0, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for number in range(1, 6):
        assert producers.send(2 * number, 2) == 2 * number
    assert producers.end_offset == 12


@pytest.mark.parametrize(("sequence", "count"), [(2, 1), (2, 3), (3, 1), (1, 2), (3, 2)])
def test_a_partial_overlap_is_out_of_order(sequence: int, count: int) -> None:
    producers = Producers()
    producers.send(0, 2)
    producers.send(2, 2)
    assert producers.send(sequence, count) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("epoch", [-2, -(2**15)])
def test_an_unknown_producer_has_no_epoch_below_none(epoch: int) -> None:
    producers = Producers()
    assert producers.send(0, epoch=epoch) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.send(0, epoch=-1) == 0


def test_sequences_wrap_around() -> None:
    producers = Producers()
    assert producers.send(LAST - 1) == 0
    assert producers.send(LAST, 3) == 1
    assert producers.send(LAST, 3) == 1
    assert producers.send(0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.send(2) == 4
    fresh = Producers()
    fresh.send(LAST)
    assert fresh.send(1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert fresh.send(0) == 1


def test_a_new_epoch_starts_at_zero_and_the_old_one_is_fenced() -> None:
    producers = Producers()
    producers.send(0)
    assert producers.send(1, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.send(0, epoch=1) == 1
    assert producers.send(0, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.send(1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.send(0, epoch=1) == 1


def test_producers_are_independent() -> None:
    producers = Producers()
    assert producers.send(0, pid=1) == 0
    assert producers.send(0, pid=2) == 1
    assert producers.send(1, pid=1) == 2
    assert [entry.producer_id for entry in producers.table.entries] == [1, 2]


def test_batches_without_a_producer_are_not_recorded() -> None:
    producers = Producers()
    producers.append_unchecked(batch(b"v"))
    assert len(producers.table) == 0


def test_plain_batch_during_a_transaction_is_refused() -> None:
    producers = Producers()
    producers.send(0, txn=True)
    assert producers.send(1) is ErrorCode.INVALID_TXN_STATE
    producers.end(ControlKind.COMMIT)
    assert producers.send(1) == 2


def test_open_transaction_limits_the_last_stable_offset() -> None:
    producers = Producers()
    producers.send(0)
    assert producers.table.first_unstable_offset is None
    producers.send(0, pid=2, txn=True)
    producers.send(0, pid=3, txn=True)
    producers.send(1, pid=2, txn=True)
    assert producers.table.first_unstable_offset == 1
    assert producers.end(ControlKind.COMMIT, pid=2) == CompletedTransaction(
        2, 1, 4, is_aborted=False, last_stable_offset=2
    )
    assert producers.table.first_unstable_offset == 2
    assert producers.end(ControlKind.ABORT, pid=3) == CompletedTransaction(
        3, 2, 5, is_aborted=True, last_stable_offset=6
    )
    assert producers.table.first_unstable_offset is None


def test_marker_without_a_transaction_has_no_effect() -> None:
    producers = Producers()
    assert producers.end(ControlKind.ABORT) is None
    entry = producers.table.get(1)
    assert entry is not None
    assert (entry.producer_epoch, entry.coordinator_epoch) == (0, 3)
    assert producers.send(0) == 1


def test_marker_with_a_newer_epoch_restarts_the_sequences() -> None:
    producers = Producers()
    producers.send(0, txn=True)
    producers.end(ControlKind.ABORT, epoch=1)
    assert producers.send(1, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.send(0, epoch=1) == 2
    assert producers.send(1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_unverified_transactional_batch_is_refused() -> None:
    producers = Producers()
    first = producers.view(0, txn=True)
    assert producers.table.start_verification(first, adds_partitions=False, now_ms=0)
    with pytest.raises(KafkaError) as caught:
        producers.table.check(first)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE
    producers.send(0, txn=True)
    second = producers.view(1, txn=True)
    assert not producers.table.start_verification(second, adds_partitions=False, now_ms=0)
    assert producers.table.check(second) is None
    of_next_epoch = producers.view(0, epoch=1, txn=True)
    assert producers.table.start_verification(of_next_epoch, adds_partitions=False, now_ms=0)
    producers.end(ControlKind.COMMIT)
    assert producers.table.start_verification(second, adds_partitions=False, now_ms=0)


def test_stale_epoch_is_refused_before_verification() -> None:
    producers = Producers()
    producers.send(0, epoch=5, txn=True)
    zombie = producers.view(0, epoch=4, txn=True)
    with pytest.raises(KafkaError) as caught:
        producers.table.start_verification(zombie, adds_partitions=False, now_ms=0)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError) as caught:
        producers.table.check(zombie)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_duplicate_is_recognised_without_verification() -> None:
    producers = Producers()
    producers.send(0, 3, txn=True)
    producers.end(ControlKind.COMMIT)
    repeated = producers.table.check(producers.view(0, 3, txn=True))
    assert repeated is not None
    assert repeated.first_offset == 0


def test_later_batch_cannot_begin_the_transaction() -> None:
    producers = Producers()
    producers.table.start_verification(producers.view(3, txn=True), adds_partitions=False, now_ms=0)
    assert producers.send(5, txn=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.send(3, txn=True) == 0
    assert producers.send(4, txn=True) == 1


def test_a_transaction_is_open_in_the_epoch_that_began_it() -> None:
    producers = Producers()
    in_transaction = producers.table.is_in_transaction
    assert not in_transaction(BatchProducer(1, 3))
    producers.send(0, epoch=3, txn=True)
    assert in_transaction(BatchProducer(1, 3))
    assert not in_transaction(BatchProducer(1, 4))
    assert not in_transaction(BatchProducer(2, 3))
    with pytest.raises(KafkaError) as caught:
        in_transaction(BatchProducer(1, 2))
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    producers.end(ControlKind.COMMIT, epoch=3)
    assert not in_transaction(BatchProducer(1, 3))


def marker(
    *, epoch: int = 0, coordinator_epoch: int = 3, version: int = 0, pid: int = 1
) -> TransactionMarker:
    return TransactionMarker(pid, epoch, coordinator_epoch, True, version)


def refusal(producers: Producers, one: TransactionMarker) -> ErrorCode | None:
    try:
        producers.table.check_marker(one)
    except KafkaError as error:
        return error.code
    return None


@pytest.mark.parametrize(
    ("version", "epoch", "expected"),
    [
        (0, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (0, 5, None),
        (0, 6, None),
        (1, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 5, None),
        (2, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 6, None),
    ],
)
def test_a_marker_of_an_open_transaction_has_its_epoch_or_the_next(
    version: int, epoch: int, expected: ErrorCode | None
) -> None:
    producers = Producers()
    producers.send(0, epoch=5, txn=True)
    assert refusal(producers, marker(epoch=epoch, version=version)) is expected


@pytest.mark.parametrize("version", [0, 1, 2])
def test_repeated_marker_is_accepted_without_an_open_transaction(version: int) -> None:
    producers = Producers()
    producers.send(0, epoch=5, txn=True)
    producers.end(ControlKind.COMMIT, epoch=6)
    assert refusal(producers, marker(epoch=6, version=version)) is None
    assert refusal(producers, marker(epoch=5, version=version)) is ErrorCode.INVALID_PRODUCER_EPOCH
    producers.send(0, epoch=6, txn=True)
    expected = {2: ErrorCode.INVALID_PRODUCER_EPOCH}.get(version)
    assert refusal(producers, marker(epoch=6, version=version)) is expected


def test_a_transaction_of_the_largest_epoch_can_be_ended() -> None:
    producers = Producers()
    producers.send(0, epoch=32_767, txn=True)
    assert refusal(producers, marker(epoch=32_767, version=2)) is None


def test_a_marker_of_a_coordinator_that_was_replaced_is_fenced() -> None:
    producers = Producers()
    assert refusal(producers, marker(coordinator_epoch=0)) is None
    producers.end(ControlKind.COMMIT)
    assert refusal(producers, marker(coordinator_epoch=3)) is None
    fenced = refusal(producers, marker(coordinator_epoch=2))
    assert fenced is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    both = refusal(producers, marker(epoch=-1, coordinator_epoch=2))
    assert both is ErrorCode.INVALID_PRODUCER_EPOCH


def test_idle_producers_expire_unless_a_transaction_is_open() -> None:
    producers = Producers()
    producers.send(5, pid=1)
    producers.send(0, pid=2, txn=True)
    producers.table.expire(1999, 1000)
    assert len(producers.table) == 2
    producers.table.expire(2000, 1000)
    assert [entry.producer_id for entry in producers.table.entries] == [2]
    assert producers.send(9, pid=1) == 2


def test_a_copy_changes_on_its_own() -> None:
    producers = Producers()
    producers.send(0, txn=True)
    copy = producers.table.copy()
    assert copy.first_unstable_offset == 0
    producers.end(ControlKind.COMMIT)
    producers.send(1)
    copied, changed = copy.get(1), producers.table.get(1)
    assert copied is not None
    assert changed is not None
    assert (copied.last_sequence, changed.last_sequence) == (0, 1)
    assert (copy.first_unstable_offset, producers.table.first_unstable_offset) == (0, None)
