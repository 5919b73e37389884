"""A partition: access checks, readable offsets, and notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.partitions.long_poll import LongPoll
from kafkalite.partitions.partition import EpochEnd
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer, BatchView, ControlKind
from kafkalite.storage.log import Log
from kafkalite.storage.transaction_marker import TransactionMarker
from tests.unit.data_plane import batch_of, values_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.metadata.image import PartitionImage
    from kafkalite.partitions.partition import Partition
    from tests.unit.data_plane import DataPlane


@pytest.fixture
def partition(plane: DataPlane) -> Partition:
    plane.create(replicas=(0, 1))
    plane.append(b"a", b"b")
    return plane.partition()


def refusal(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def test_high_watermark_is_the_end_of_the_log(partition: Partition) -> None:
    assert (partition.log_start_offset, partition.high_watermark, partition.end_offset) == (0, 2, 2)
    assert partition.last_stable_offset == 2
    assert partition.size_bytes == partition.log.size_bytes > 0
    assert repr(partition) == "t-0"


def test_read_outside_of_the_log_is_refused(partition: Partition) -> None:
    def read(offset: int, max_bytes: int = 1000, *, at_least_one: bool = True) -> bytes:
        return partition.read(
            offset, max_bytes=max_bytes, limit_offset=2, at_least_one=at_least_one
        )

    assert values_in(read(1)) == [b"a", b"b"]
    assert values_in(read(0, 0)) == [b"a", b"b"]
    assert read(0, 0, at_least_one=False) == b""
    assert read(2) == b""
    for offset in (-1, 3):
        assert refusal(lambda: read(offset)) == ErrorCode.OFFSET_OUT_OF_RANGE  # noqa: B023
        assert (
            refusal(lambda: read(offset, 0, at_least_one=False))  # noqa: B023
            == ErrorCode.OFFSET_OUT_OF_RANGE
        )


def test_epoch_ends_at_the_start_of_the_next(plane: DataPlane, partition: Partition) -> None:
    plane.lead("t", 1, 2)
    assert partition.end_of_epoch(0) == EpochEnd(0, 2)
    assert partition.end_of_epoch(2) == EpochEnd(2, 2)
    assert partition.end_of_epoch(3) == EpochEnd(-1, -1)
    assert partition.divergence(0, 2) is None
    assert partition.divergence(1, 2) == EpochEnd(0, 2)
    assert partition.divergence(0, 3) == EpochEnd(0, 2)
    assert refusal(lambda: partition.divergence(3, 2)) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_change_without_a_new_leader_does_not_end_waits(
    plane: DataPlane, partition: Partition
) -> None:
    ended: list[bool] = []
    poll = LongPoll(missing_bytes=1, on_end=lambda: ended.append(True))
    poll.add(partition, offset=0, readable_bytes=0, max_bytes=1, is_read_committed=False)
    topic = plane.image.topics["t"]
    shrunk = tuple(one._replace(isr=(0,), partition_epoch=1) for one in topic.partitions)
    plane.change(topic._replace(partitions=shrunk))
    assert (partition.isr, ended) == ((0,), [])
    plane.lead("t", 1, 1)
    assert (partition.leader, partition.leader_epoch, ended) == (1, 1, [True])


def test_own_append_wakes_fetches_at_once(plane: DataPlane) -> None:
    plane.create()
    partition = plane.partition()
    ended: list[bool] = []
    poll = LongPoll(missing_bytes=1, on_end=lambda: ended.append(True))
    poll.add(partition, offset=0, readable_bytes=0, max_bytes=100, is_read_committed=False)
    assert partition.append_internal(BatchView(batch_of(b"v")), plane.clock.now_ms()) == 1
    assert ended == [True]


def transactional(producer: BatchProducer, *values: bytes) -> BatchView:
    return BatchView(batch_of(*values, attributes=TRANSACTIONAL, producer=producer))


def commit(producer: BatchProducer, *, coordinator_epoch: int = 0) -> TransactionMarker:
    return TransactionMarker(
        producer.producer_id, producer.producer_epoch, coordinator_epoch, is_commit=True
    )


def test_a_marker_ends_a_transaction(plane: DataPlane, partition: Partition) -> None:
    producer = BatchProducer(1, 0, 0)
    partition.append(transactional(producer, b"t"), plane.clock.now_ms(), is_verified=True)
    assert partition.append_marker(commit(producer), plane.clock.now_ms()) == 4
    assert partition.last_stable_offset == partition.end_offset == 4
    aborting = commit(producer)._replace(is_commit=False)
    partition.append(
        transactional(BatchProducer(1, 0, 1), b"u", b"v"), plane.clock.now_ms(), is_verified=True
    )
    assert partition.append_marker(aborting, plane.clock.now_ms()) == 7
    assert partition.last_stable_offset == 7
    assert [
        (one.producer_id, one.first_offset, one.last_offset)
        for one in partition.log.aborted_transactions(0, 7)
    ] == [(1, 4, 6)]
    kinds = [
        found.kind
        for batch in partition.log.batches()
        if batch.is_control and (found := batch.control_marker()) is not None
    ]
    assert kinds == [ControlKind.COMMIT, ControlKind.ABORT]


def test_marker_is_refused_without_enough_replicas(plane: DataPlane) -> None:
    plane.create(replicas=(0, 1), config={"min.insync.replicas": "2"})
    partition = plane.partition()
    producer = BatchProducer(1, 0, 0)
    partition.append(transactional(producer, b"t"), plane.clock.now_ms(), is_verified=True)
    topic = plane.image.topics["t"]
    plane.change(topic._replace(partitions=(topic.partitions[0]._replace(isr=(0,)),)))
    assert (
        refusal(lambda: partition.append_marker(commit(producer), plane.clock.now_ms()))
        == ErrorCode.NOT_ENOUGH_REPLICAS
    )
    assert (partition.last_stable_offset, partition.end_offset) == (0, 1)


def test_marker_has_append_time_for_log_append_time(plane: DataPlane) -> None:
    plane.create(config={"message.timestamp.type": "LogAppendTime"})
    partition = plane.partition()
    partition.append_marker(commit(BatchProducer(1, 0, 0)), plane.clock.now_ms())
    (batch,) = partition.log.batches()
    assert batch.is_log_append_time
    assert batch.has_valid_crc()
    assert batch.max_timestamp == plane.clock.now_ms()


def test_marker_wakes_fetches_on_announce(plane: DataPlane, partition: Partition) -> None:
    producer = BatchProducer(1, 0, 0)
    partition.append(transactional(producer, b"t"), plane.clock.now_ms(), is_verified=True)
    ended: list[bool] = []
    poll = LongPoll(missing_bytes=1, on_end=lambda: ended.append(True))
    poll.add(partition, offset=0, readable_bytes=0, max_bytes=1000, is_read_committed=True)
    partition.append_marker(commit(producer), plane.clock.now_ms())
    assert ended == []
    plane.table.announce()
    assert ended == [True]


def led(
    plane: DataPlane, leader_epoch: int, truncation: tuple[int, int] = (-1, -1)
) -> PartitionImage:
    """Return the partition's image with another leader epoch and truncation: offset and epoch."""
    (image,) = plane.image.topics["t"].partitions
    offset, epoch = truncation
    return image._replace(
        leader_epoch=leader_epoch, epoch_start_offset=offset, truncation_epoch=epoch
    )


def test_truncation_is_pending_while_the_log_has_batches_of_earlier_epochs(
    plane: DataPlane, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.append(b"c")

    def check() -> None:
        assert partition.truncation_offset(led(plane, 1)) is None
        assert partition.truncation_offset(led(plane, 1, (2, 1))) == 2
        assert partition.truncation_offset(led(plane, 7, (2, 1))) == 2
        assert partition.truncation_offset(led(plane, 7, (3, 1))) is None
        assert partition.truncation_offset(led(plane, 7, (9, 1))) is None

    check()

    def refuse(*_: object) -> int:
        raise OSError

    with monkeypatch.context() as patched:
        patched.setattr(Log, "leader_epoch_at", refuse)
        check()
    partition.apply_image(led(plane, 1, (2, 1)))
    plane.append(b"d")
    assert partition.truncation_offset(led(plane, 1, (2, 1))) is None
    assert partition.truncation_offset(led(plane, 2, (2, 1))) is None
    assert partition.truncation_offset(led(plane, 2, (2, 2))) == 2


def test_new_leader_ends_waits_and_limits_the_high_watermark(
    plane: DataPlane, partition: Partition
) -> None:
    plane.append(b"c")
    ended: list[bool] = []
    poll = LongPoll(missing_bytes=1, on_end=lambda: ended.append(True))
    poll.add(partition, offset=3, readable_bytes=0, max_bytes=1, is_read_committed=False)
    topic = plane.image.topics["t"]
    plane.change(topic._replace(partitions=(led(plane, 1, (2, 1)),)))
    assert ended == [True]
    assert (partition.high_watermark, partition.end_offset) == (2, 2)
    assert partition.divergence(0, 3) == EpochEnd(0, 2)
    assert (
        refusal(lambda: partition.read(3, max_bytes=1, limit_offset=9, at_least_one=True))
        == ErrorCode.OFFSET_OUT_OF_RANGE
    )


def change_partition(plane: DataPlane, **fields: object) -> None:
    """Apply a change of the partition's image."""
    topic = plane.image.topics["t"]
    values: dict[str, Any] = fields
    plane.change(topic._replace(partitions=(topic.partitions[0]._replace(**values),)))


def test_an_added_replica_is_empty(plane: DataPlane, partition: Partition) -> None:
    partition.delete_records(1)
    change_partition(plane, replicas=(0, 1, 2), adding=(2,))
    assert [partition.end_offset_of(node_id) for node_id in (0, 1, 2)] == [2, 2, 1]
    assert partition.high_watermark == 2
    view = partition.seen_by(2)
    assert view is not partition
    assert (view.leader, view.high_watermark, view.replicas) == (0, 1, (0, 1, 2))


def test_an_added_replica_that_leads_has_the_whole_log(
    plane: DataPlane, partition: Partition
) -> None:
    change_partition(plane, replicas=(2,), isr=(2,), leader=2, leader_epoch=1)
    assert partition.seen_by(2) is partition
    assert partition.end_offset_of(2) == 2


def test_fewer_replicas_can_be_enough_for_the_high_watermark(plane: DataPlane) -> None:
    plane.create(replicas=(0, 1), config={"min.insync.replicas": "2"})
    partition = plane.partition()
    change_partition(plane, isr=(0,))
    plane.append(b"a")
    assert (partition.high_watermark, partition.has_enough_replicas) == (0, False)
    change_partition(plane, replicas=(0,), isr=(0,), leader_epoch=1)
    assert (partition.high_watermark, partition.has_enough_replicas) == (1, True)
