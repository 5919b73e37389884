"""ReplicationWait: acknowledgement by the in-sync replicas, and the errors that end the wait."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from kafkalite.partitions.replicas import ReplicaView
from kafkalite.partitions.replication_wait import (
    AppendedBatch,
    DeletedRecords,
    ReplicationWait,
)
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkalite.partitions.partition import Partition
    from tests.unit.data_plane import DataPlane

TIMEOUT_MS = 1_000


class Wait:
    """A wait for the last batch of some partitions of topic `t`."""

    def __init__(self, plane: DataPlane, *indexes: int, timeout_ms: int = TIMEOUT_MS) -> None:
        self.errors: dict[int, ErrorCode] = {}
        self.ends = 0
        batches = [
            AppendedBatch(
                partition := plane.partition(index=index),
                partition.leader,
                partition.end_offset,
                partition.leader_epoch,
                partial(self.errors.__setitem__, index),
            )
            for index in indexes or (0,)
        ]
        self.wait = ReplicationWait(plane.table, batches, self._end)
        self.wait.start(plane.clock, plane.clock.now_ms() + timeout_ms)

    def _end(self) -> None:
        self.ends += 1


@pytest.fixture
def lagging(plane: DataPlane) -> DataPlane:
    """Return two partitions with one record each; node 1 lags in both and is in sync."""
    plane.create(partitions=2, replicas=(0, 1, 2))
    for index in (0, 1):
        partition = plane.partition(index=index)
        view = partition.views[1] = ReplicaView(partition)
        view.replica_end = 0
        partition.update_high_watermark()
        plane.append(b"a", index=index)
    return plane


def catch_up(plane: DataPlane, index: int = 0, *, end: int | None = None) -> None:
    partition = plane.partition(index=index)
    partition.views[1].replica_end = end
    partition.update_high_watermark()


def test_replicated_batches_do_not_wait(lagging: DataPlane) -> None:
    catch_up(lagging)
    wait = Wait(lagging)
    assert (wait.ends, wait.errors) == (1, {})


def test_the_wait_ends_when_all_batches_are_replicated(lagging: DataPlane) -> None:
    wait = Wait(lagging, 0, 1)
    catch_up(lagging, 1)
    assert wait.ends == 0
    catch_up(lagging, 0)
    assert (wait.ends, wait.errors) == (1, {})
    lagging.clock.advance(TIMEOUT_MS)
    lagging.table.end_waits()
    assert wait.ends == 1


def test_a_change_of_one_partition_leads_to_no_check_of_the_others(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 20
    plane.create(partitions=count, replicas=(0, 1, 2))
    for index in range(count):
        partition = plane.partition(index=index)
        partition.views[1] = ReplicaView(partition, 0)
        partition.update_high_watermark()
        plane.append(b"a", index=index)
    checked: list[int] = []
    get = plane.table.get

    def counting_get(topic_id: bytes, index: int) -> Partition | None:
        checked.append(index)
        return get(topic_id, index)

    monkeypatch.setattr(plane.table, "get", counting_get)
    wait = Wait(plane, *range(count))
    checked.clear()
    for index in range(count):
        assert wait.ends == 0
        catch_up(plane, index)
    assert (wait.ends, wait.errors) == (1, {})
    assert checked == list(range(count))


def test_a_replica_that_does_not_reach_the_batch_does_not_end_the_wait(lagging: DataPlane) -> None:
    lagging.append(b"b")
    wait = Wait(lagging)
    catch_up(lagging, end=1)
    assert lagging.partition().high_watermark == 1
    assert wait.ends == 0
    catch_up(lagging, end=2)
    assert (wait.ends, wait.errors) == (1, {})


def test_appended_records_do_not_end_the_wait(lagging: DataPlane) -> None:
    wait = Wait(lagging)
    lagging.append(b"b")
    (watcher,) = lagging.partition()._watchers
    watcher.on_append(10)
    assert wait.ends == 0


def test_only_unreplicated_batches_time_out(lagging: DataPlane) -> None:
    wait = Wait(lagging, 0, 1)
    catch_up(lagging, 1)
    lagging.clock.advance(TIMEOUT_MS - 1)
    assert wait.ends == 0
    lagging.clock.advance(1)
    assert wait.ends == 1
    assert wait.errors == {0: ErrorCode.REQUEST_TIMED_OUT}
    catch_up(lagging)
    assert wait.ends == 1


def test_a_new_epoch_ends_the_wait_even_with_the_same_leader(lagging: DataPlane) -> None:
    for leader, epoch in ((0, 1), (2, 2)):
        wait = Wait(lagging)
        lagging.lead("t", leader, epoch)
        assert (wait.ends, wait.errors) == (1, {0: ErrorCode.NOT_LEADER_OR_FOLLOWER})


def test_a_deleted_topic_ends_the_wait(lagging: DataPlane) -> None:
    wait = Wait(lagging)
    lagging.delete("t")
    assert (wait.ends, wait.errors) == (1, {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


def shrink_isr(plane: DataPlane, *isr: int) -> None:
    topic = plane.image.topics["t"]
    plane.change(
        topic._replace(partitions=tuple(each._replace(isr=isr) for each in topic.partitions))
    )


def test_a_replica_that_leaves_the_isr_is_not_waited_for(lagging: DataPlane) -> None:
    wait = Wait(lagging)
    shrink_isr(lagging, 0, 2)
    assert (wait.ends, wait.errors) == (1, {})


def test_a_batch_above_the_high_watermark_waits_while_the_isr_is_too_small(
    lagging: DataPlane,
) -> None:
    lagging.configure("t", {"min.insync.replicas": "3"})
    wait = Wait(lagging)
    shrink_isr(lagging, 0, 2)
    assert lagging.partition().high_watermark == 0
    assert wait.ends == 0
    lagging.clock.advance(TIMEOUT_MS)
    assert wait.errors == {0: ErrorCode.REQUEST_TIMED_OUT}


def test_an_isr_that_is_too_small_after_replication_is_reported(lagging: DataPlane) -> None:
    catch_up(lagging)
    lagging.configure("t", {"min.insync.replicas": "2"})
    shrink_isr(lagging, 0)
    wait = Wait(lagging)
    assert (wait.ends, wait.errors) == (1, {0: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


def test_an_abandoned_wait_has_no_end(lagging: DataPlane) -> None:
    wait = Wait(lagging, 0, 1)
    wait.wait.abandon()
    catch_up(lagging)
    lagging.clock.advance(TIMEOUT_MS)
    assert (wait.ends, wait.errors) == (0, {})


def test_the_wait_ends_when_the_broker_stops(lagging: DataPlane) -> None:
    wait = Wait(lagging, 0, 1)
    lagging.table.end_waits()
    assert wait.ends == 1
    assert set(wait.errors.values()) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


class Deletion:
    """A wait for the deletion of the first record of topic `t`."""

    def __init__(self, plane: DataPlane) -> None:
        self.results: list[tuple[ErrorCode, int | None]] = []
        self.ends = 0
        self.low_watermark = 0
        partition = plane.partition()
        deleted = DeletedRecords(
            partition,
            partition.leader,
            1,
            partition.leader_epoch,
            lambda: self.low_watermark,
            lambda code, low_watermark: self.results.append((code, low_watermark)),
        )
        self.wait = ReplicationWait(plane.table, [deleted], self._end)
        self.wait.start(plane.clock, plane.clock.now_ms() + TIMEOUT_MS)

    def _end(self) -> None:
        self.ends += 1


def test_a_deletion_ends_when_all_replicas_have_followed(lagging: DataPlane) -> None:
    deletion = Deletion(lagging)
    lagging.partition().notify_change()
    assert (deletion.ends, deletion.results) == (0, [])
    deletion.low_watermark = 2
    lagging.partition().notify_change()
    assert (deletion.ends, deletion.results) == (1, [(ErrorCode.NONE, 2)])


def test_a_deletion_ends_with_an_error(lagging: DataPlane) -> None:
    late = Deletion(lagging)
    lagging.clock.advance(TIMEOUT_MS)
    assert (late.ends, late.results) == (1, [(ErrorCode.REQUEST_TIMED_OUT, None)])
    stopped = Deletion(lagging)
    lagging.table.end_waits()
    assert (stopped.ends, stopped.results) == (1, [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)])
