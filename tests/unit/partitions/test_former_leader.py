"""FormerLeader: what a leader does that does not know of its successor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.partitions.former_leader import FormerLeader
from kafkalite.partitions.partition import TO_HIGH_WATERMARK, AppendResult, EpochEnd
from kafkalite.partitions.replicas import Leader, ReplicaView
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import BatchProducer, BatchView
from tests.unit.data_plane import batch_of, values_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.partitions.partition import Partition
    from tests.unit.data_plane import DataPlane


@pytest.fixture
def partition(plane: DataPlane) -> Partition:
    """Return a partition with two records, of which a replica in sync has the first."""
    plane.create(replicas=(0, 1, 2))
    plane.append(b"a")
    partition = plane.partition()
    partition.views[1] = ReplicaView(partition, 1)
    partition.update_high_watermark()
    plane.append(b"b")
    return partition


@pytest.fixture
def former(plane: DataPlane, partition: Partition) -> FormerLeader:
    """Return the view of node 0; node 1 leads now, and has appended a record."""
    former = FormerLeader(partition, {})
    former.known_leader = Leader(0, 0, (0, 1, 2))
    partition.views[0] = former
    del partition.views[1]
    plane.lead("t", 1, 1)
    partition.log.truncate_to(1)
    plane.append(b"c")
    return former


def refusal(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def read(former: FormerLeader, offset: int) -> list[bytes | None]:
    records = former.read(
        offset,
        max_bytes=10_000,
        limit_offset=former.limit_offset(committed=False),
        at_least_one=True,
    )
    return values_in(records)


def test_it_ends_where_its_log_ended(former: FormerLeader, partition: Partition) -> None:
    assert (former.leader, former.leader_epoch) == (0, 0)
    assert (former.end_offset, former.high_watermark, former.last_stable_offset) == (2, 1, 1)
    assert partition.end_offset_of(0) == 2
    assert read(former, 0) == [b"a"]
    assert read(former, 2) == []
    assert refusal(lambda: read(former, 3)) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_it_appends_records_that_no_client_reads(
    plane: DataPlane, former: FormerLeader, partition: Partition
) -> None:
    before = partition.end_offset
    batch = BatchView(batch_of(b"x", b"y"))
    assert former.accepts_records
    assert former.append(batch, plane.clock.now_ms()) == AppendResult(2, -1, 4)
    assert (former.end_offset, former.high_watermark) == (4, 1)
    assert former.lost_offsets == range(2, 4)
    assert read(former, 0) == [b"a"]
    assert partition.end_offset == before


def test_it_checks_the_sequences_of_producers_on_its_own(
    plane: DataPlane, partition: Partition
) -> None:
    def batch(sequence: int) -> BatchView:
        return BatchView(batch_of(b"x", producer=BatchProducer(7, 0, sequence)))

    now_ms = plane.clock.now_ms()
    partition.append(batch(0), now_ms)
    former = partition.views[0] = FormerLeader(partition, {})
    former.known_leader = Leader(0, 0, (0, 1, 2))
    plane.lead("t", 1, 1)
    assert former.append(batch(0), now_ms).base_offset == 2
    assert former.append(batch(1), now_ms).base_offset == 3
    assert former.append(batch(1), now_ms).base_offset == 3
    assert (
        refusal(lambda: former.append(batch(3), now_ms)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    entry = partition.log.producers.get(7)
    assert entry is not None
    assert entry.last_sequence == 0


def test_its_epoch_ends_at_its_end(former: FormerLeader) -> None:
    assert former.end_of_epoch(0) == EpochEnd(0, 2)
    assert former.end_of_epoch(1) == EpochEnd(-1, -1)
    assert former.divergence(0, 2) is None
    assert former.divergence(0, 3) == EpochEnd(0, 2)
    assert refusal(lambda: former.divergence(1, 0)) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_it_deletes_records_of_its_own_replica(former: FormerLeader, partition: Partition) -> None:
    assert refusal(lambda: former.delete_records(2)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert former.delete_records(TO_HIGH_WATERMARK) == 1
    assert (former.log_start_offset, former.earliest_offset().offset) == (1, 1)
    assert former.low_watermark({}) == 0
    assert refusal(lambda: read(former, 0)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.log_start_offset == 0


def test_it_accepts_no_records_once_it_knows_its_successor(
    plane: DataPlane, former: FormerLeader
) -> None:
    former.append(BatchView(batch_of(b"x")), plane.clock.now_ms())
    former.known_leader = None
    assert not former.accepts_records
    view = former.as_follower()
    assert (former.end_offset, view.end_offset) == (3, 2)
    assert (view.leader, view.accepts_records) == (1, False)


def test_it_counts_the_replicas_that_were_in_sync(plane: DataPlane, partition: Partition) -> None:
    former = FormerLeader(partition, {})
    plane.lead("t", 1, 1)
    partition.isr = ()
    assert former.has_enough_replicas
    assert not partition.has_enough_replicas
