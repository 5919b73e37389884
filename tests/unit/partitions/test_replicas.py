"""ReplicaView: what a node with a lagging replica or old metadata answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.partitions.long_poll import LongPoll
from kafkalite.partitions.partition import EpochEnd
from kafkalite.partitions.replicas import Leader, ReplicaView, check_access
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer, BatchView
from tests.unit.data_plane import batch_of, values_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.partitions.partition import Partition
    from tests.unit.data_plane import DataPlane


@pytest.fixture
def partition(plane: DataPlane) -> Partition:
    """Return a partition with offsets 0 and 1 in epoch 0, and 2 and 3 in epoch 1."""
    plane.create(replicas=(0, 1, 2))
    plane.append(b"a")
    plane.append(b"b")
    plane.lead("t", 0, 1)
    plane.append(b"c")
    plane.append(b"d")
    return plane.partition()


def view_of(partition: Partition, node: int, *, end: int | None = None) -> ReplicaView:
    view = partition.views[node] = ReplicaView(partition)
    view.replica_end = end
    return view


def refusal(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def read(view: ReplicaView, offset: int) -> list[bytes | None]:
    records = view.read(
        offset, max_bytes=10_000, limit_offset=view.limit_offset(committed=False), at_least_one=True
    )
    return values_in(records)


def test_a_node_without_a_view_sees_the_partition(partition: Partition) -> None:
    view = view_of(partition, 1, end=1)
    assert partition.seen_by(1) is view
    assert partition.seen_by(0) is partition
    assert partition.seen_by(2) is partition


def test_a_replica_that_follows_has_the_whole_log(plane: DataPlane, partition: Partition) -> None:
    view = view_of(partition, 1)
    assert (view.end_offset, view.high_watermark, view.last_stable_offset) == (4, 4, 4)
    plane.append(b"e")
    assert view.end_offset == 5
    assert repr(view) == "t-0 as known up to offset 5"


def test_a_lagging_replica_ends_before_the_log(plane: DataPlane, partition: Partition) -> None:
    view = view_of(partition, 1, end=3)
    plane.append(b"e")
    assert (view.end_offset, view.high_watermark, view.last_stable_offset) == (3, 3, 3)
    assert view.limit_offset(committed=True) == view.limit_offset(committed=False) == 3
    assert read(view, 0) == [b"a", b"b", b"c"]
    assert read(view, 3) == []
    assert refusal(lambda: read(view, 4)) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_replica_ends_with_a_truncated_log(partition: Partition) -> None:
    view = view_of(partition, 1, end=3)
    partition.log.truncate_to(1)
    assert view.end_offset == 1


def test_a_replica_knows_the_high_watermark_up_to_its_end(partition: Partition) -> None:
    lagging, ahead = view_of(partition, 1, end=1), view_of(partition, 2, end=3)
    partition.update_high_watermark()
    assert partition.high_watermark == 1
    assert (lagging.high_watermark, ahead.high_watermark) == (1, 1)


def test_an_open_transaction_limits_committed_readers(
    plane: DataPlane, partition: Partition
) -> None:
    batch = batch_of(b"t", attributes=TRANSACTIONAL, producer=BatchProducer(1, 0, 0))
    partition.append(BatchView(batch), plane.clock.now_ms(), is_verified=True)
    behind, level = view_of(partition, 1, end=3), view_of(partition, 2)
    assert (behind.last_stable_offset, level.last_stable_offset) == (3, 4)


def test_a_node_with_current_metadata_knows_the_leader(partition: Partition) -> None:
    view = view_of(partition, 1, end=3)
    assert (view.leader, view.leader_epoch, view.replicas) == (0, 1, (0, 1, 2))


def test_a_node_with_old_metadata_answers_as_of_then(partition: Partition) -> None:
    view = view_of(partition, 1)
    view.known_leader = Leader(1, 0, (1, 2))
    assert (view.leader, view.leader_epoch, view.replicas) == (1, 0, (1, 2))
    view.check_access(1, 0)
    assert refusal(lambda: view.check_access(1, 1)) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert refusal(lambda: view.check_access(0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert view.latest_offset(4) == (-1, 4, 0)


@pytest.mark.parametrize(
    ("node", "epoch", "leader_only", "expected"),
    [
        (1, -1, True, None),
        (1, 5, True, None),
        (1, 4, True, ErrorCode.FENCED_LEADER_EPOCH),
        (1, 6, True, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (2, -1, False, None),
        (2, -1, True, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, 4, True, ErrorCode.FENCED_LEADER_EPOCH),
        (3, 4, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_access_depends_on_leader_replicas_and_epoch(
    node: int,
    epoch: int,
    leader_only: bool,  # noqa: FBT001 - a column of the table
    expected: ErrorCode | None,
) -> None:
    class Led:
        leader, leader_epoch, replicas = 1, 5, (1, 2)

    if expected is None:
        check_access(Led(), node, epoch, leader_only=leader_only)
    else:
        assert (
            refusal(lambda: check_access(Led(), node, epoch, leader_only=leader_only)) is expected
        )


def test_epochs_end_at_the_end_of_the_replica(partition: Partition) -> None:
    view = view_of(partition, 1, end=3)
    assert view.end_of_epoch(0) == EpochEnd(0, 2)
    assert view.end_of_epoch(1) == EpochEnd(1, 3)
    view.replica_end = 1
    assert view.end_of_epoch(0) == EpochEnd(0, 1)


def test_a_node_with_old_metadata_does_not_know_later_epochs(partition: Partition) -> None:
    view = view_of(partition, 1, end=2)
    view.known_leader = Leader(1, 0, (0, 1, 2))
    assert view.end_of_epoch(0) == EpochEnd(0, 2)
    assert view.end_of_epoch(1) == EpochEnd(-1, -1)


def test_a_log_diverges_from_the_replica_at_the_end_of_an_epoch(partition: Partition) -> None:
    view = view_of(partition, 1, end=3)
    assert view.divergence(0, 2) is None
    assert view.divergence(0, 3) == EpochEnd(0, 2)
    assert view.divergence(1, 3) is None
    assert view.divergence(1, 4) == EpochEnd(1, 3)


def test_offsets_by_time_are_below_the_limit_of_the_replica(partition: Partition) -> None:
    view = view_of(partition, 1, end=1)
    limit = view.limit_offset(committed=False)
    assert view.earliest_offset().offset == view.log_start_offset == 0
    assert view.offset_for_timestamp(0, limit).offset == 0
    assert view.offset_of_max_timestamp(limit).offset in (-1, 0)
    assert view.index == partition.index
    assert view.log is partition.log


def test_readable_bytes_and_aborted_transactions_are_those_of_the_log(
    partition: Partition,
) -> None:
    view = view_of(partition, 1, end=2)
    assert view.readable_bytes(0, 2) == len(
        view.read(0, max_bytes=10_000, limit_offset=2, at_least_one=True)
    )
    assert view.aborted_in_read(0, 100) == []
    assert not view.is_before_active_segment(0)


def test_a_fetch_waits_at_the_partition_of_the_view(plane: DataPlane, partition: Partition) -> None:
    view = view_of(partition, 1)
    ended: list[bool] = []
    poll = LongPoll(missing_bytes=1, on_end=lambda: ended.append(True))
    poll.add(view, offset=4, readable_bytes=0, max_bytes=1_000, is_read_committed=False)
    poll.start(plane.clock, plane.clock.now_ms() + 1_000)
    plane.append(b"e")
    assert ended == [True]


def test_a_former_leader_accepts_no_records(partition: Partition) -> None:
    view = view_of(partition, 0)
    view.known_leader = Leader(0, 0, (0, 1, 2))
    assert not view.accepts_records
    assert refusal(lambda: view.delete_records(1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_last_leader_appends_in_its_epoch(plane: DataPlane, partition: Partition) -> None:
    """The partition has no leader, and its node does not know that."""
    view = view_of(partition, 0)
    view.known_leader = Leader(0, 1, (0, 1, 2))
    view.led_isr = (0,)
    partition.leader, partition.leader_epoch, partition.isr = -1, 2, ()
    assert view.accepts_records
    assert view.has_enough_replicas
    assert view.append(BatchView(batch_of(b"e")), plane.clock.now_ms()).base_offset == 4
    partition.update_high_watermark()
    assert view.high_watermark == 5
    assert partition.log.leader_epoch_at(4) == 1
    assert view.delete_records(2) == view.low_watermark({}) == 2
