"""Periodic work: each kind at its interval, by the clock of the test."""

from __future__ import annotations

import io
from shutil import rmtree
from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.cluster import Cluster
from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.creation import NewTopic
from kafkalite.ports.executors import InlineExecutor
from kafkalite.ports.files import OsFiles
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.server.logging import Level, Log
from kafkalite.server.maintenance import Maintenance
from kafkalite.storage.batch import BatchProducer, BatchView, build_batch
from kafkalite.storage.data_directory import DataDirectory
from kafkalite.storage.disk_health import DiskProblem
from kafkalite.storage.record_format import NewRecord
from kafkalite.testing.clock import ManualClock
from tests.unit.ports.workers import HeldWorker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kafkalite.partitions.partition import Partition
    from kafkalite.ports.executors import Executor

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class MaintainedCluster:
    """A cluster with maintenance."""

    def __init__(
        self,
        directory: Path,
        executor: Executor | None = None,
        nodes: Mapping[int, Mapping[str, str]] | None = None,
        **config: str,
    ) -> None:
        """`nodes` are the settings of other nodes than node 1."""
        self.path = directory
        self.clock = ManualClock()
        self.log_output = io.StringIO()
        text = {key.replace("_", "."): value for key, value in config.items()}
        broker = BrokerConfig.from_text(text)
        for node_id, own in (nodes or {}).items():
            broker.configure_node(node_id, own)
        self.cluster = Cluster(
            cluster_id="cluster",
            directory=DataDirectory(OsFiles(), str(directory)),
            clock=self.clock,
            entropy=SeededEntropy(),
            config=broker,
            node_ids=[1, *(nodes or {})],
        )
        log = Log(Level.ERROR, "json", self.log_output)
        self.maintenance = Maintenance(
            self.cluster, broker, self.clock, log, executor or InlineExecutor()
        )
        self.maintenance.start()

    def partition(self, name: str, leader: int = 1, **config: str) -> Partition:
        """Create a topic with one partition."""
        configs: dict[str, str | None] = {
            key.replace("_", "."): value for key, value in config.items()
        }
        (made,) = self.cluster.metadata.create_topics(
            [NewTopic(name=name, assignments=((0, (leader,)),), configs=configs)]
        )
        assert made.error is None
        partition = self.cluster.partitions.get(made.topic_id, 0)
        assert partition is not None
        return partition

    def append(
        self, partition: Partition, key: bytes, value: bytes | None, producer_id: int = -1
    ) -> None:
        now_ms = self.clock.now_ms()
        producer = (
            BatchProducer(producer_id, 0, 0) if producer_id >= 0 else BatchProducer(-1, -1, -1)
        )
        batch = build_batch([NewRecord(key, value, now_ms)], producer=producer)
        partition.append_internal(BatchView(batch), now_ms)


@pytest.fixture
def maintained(tmp_path: Path) -> Iterator[MaintainedCluster]:
    maintained = MaintainedCluster(tmp_path, log_retention_check_interval_ms=f"{5 * MINUTE_MS}")
    yield maintained
    maintained.maintenance.stop()
    assert maintained.clock.next_deadline_ms is None
    assert maintained.log_output.getvalue() == ""


def keys_in(partition: Partition) -> list[bytes | None]:
    return [key for batch in partition.log.batches() for key, _ in batch.key_values()]


def test_records_older_than_retention_are_removed_at_the_next_check(
    maintained: MaintainedCluster,
) -> None:
    partition = maintained.partition("old", retention_ms=f"{HOUR_MS}", segment_ms=f"{HOUR_MS}")
    maintained.append(partition, b"first", b"")
    maintained.clock.advance(2 * HOUR_MS - 1)
    maintained.append(partition, b"second", b"")
    maintained.clock.advance(5 * MINUTE_MS)
    assert keys_in(partition) == [b"second"]
    assert partition.log_start_offset == 1


def test_the_retention_of_a_log_is_that_of_the_node_that_leads(tmp_path: Path) -> None:
    own = {
        "log.retention.ms": f"{HOUR_MS}",
        "log.segment.bytes": f"{2**20}",
        "log.roll.ms": f"{HOUR_MS}",
        "log.retention.check.interval.ms": f"{MINUTE_MS}",
    }
    maintained = MaintainedCluster(tmp_path, nodes={2: own})
    partitions = [maintained.partition(f"led-{leader}", leader) for leader in (1, 2)]
    for partition in partitions:
        maintained.append(partition, b"first", b"")
    maintained.clock.advance(2 * HOUR_MS - 1)
    for partition in partitions:
        maintained.append(partition, b"second", b"")
    maintained.clock.advance(MINUTE_MS)
    assert [partition.log_start_offset for partition in partitions] == [0, 1]
    maintained.maintenance.stop()


def test_a_node_can_have_no_compaction(tmp_path: Path) -> None:
    own = {"log.cleaner.enable": "false"}
    maintained = MaintainedCluster(tmp_path, nodes={2: own})
    partitions = [
        maintained.partition(f"led-{leader}", leader, cleanup_policy="compact", segment_ms="1000")
        for leader in (1, 2)
    ]
    for partition in partitions:
        for _ in range(2):
            maintained.append(partition, b"key", b"value")
    maintained.clock.advance(1001)
    for partition in partitions:
        maintained.append(partition, b"active", b"segment")
    maintained.clock.advance(MINUTE_MS)
    assert [len(keys_in(partition)) for partition in partitions] == [2, 3]
    maintained.maintenance.stop()


def test_compaction_retains_the_last_value_of_each_key(maintained: MaintainedCluster) -> None:
    partition = maintained.partition(
        "compacted", cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.1"
    )
    for number in range(200):
        maintained.append(partition, b"%d" % (number % 3), b"%d" % number)
        maintained.clock.advance(10)
    maintained.clock.advance(1000)
    maintained.append(partition, b"active", b"segment")
    maintained.clock.advance(MINUTE_MS)
    assert keys_in(partition) == [b"2", b"0", b"1", b"active"]
    assert partition.end_offset == 201


def test_a_failed_compaction_does_not_delay_other_logs(tmp_path: Path) -> None:
    maintained = MaintainedCluster(tmp_path)
    bad, good = (
        maintained.partition(name, cleanup_policy="compact", segment_ms="1000")
        for name in ("bad", "good")
    )
    maintained.append(good, b"other", b"")
    for partition in (bad, good):
        for _ in range(2):
            maintained.append(partition, b"key", b"value")
    maintained.clock.advance(1001)
    for partition in (bad, good):
        maintained.append(partition, b"active", b"segment")
    # A directory at this path prevents the cleaned segment from being written.
    (tmp_path / "bad-0" / f"{0:020d}.log.cleaned").mkdir()
    maintained.clock.advance(MINUTE_MS)
    assert keys_in(good) == [b"other", b"key", b"active"]
    assert len(keys_in(bad)) == 3
    (failure,) = maintained.cluster.partitions.disk_health.failures
    assert (failure.path, failure.reason) == (str(tmp_path / "bad-0"), "Is a directory")
    (tmp_path / "bad-0" / f"{0:020d}.log.cleaned").rmdir()
    maintained.clock.advance(MINUTE_MS)
    assert len(keys_in(bad)) == 2
    assert not maintained.cluster.partitions.disk_health.failures
    assert maintained.log_output.getvalue() == ""


def test_compaction_can_be_disabled(tmp_path: Path) -> None:
    maintained = MaintainedCluster(tmp_path, log_cleaner_enable="false")
    partition = maintained.partition(
        "compacted", cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.1"
    )
    for number in range(20):
        maintained.append(partition, b"key", b"%d" % number)
        maintained.clock.advance(500)
    maintained.clock.advance(MINUTE_MS)
    assert len(keys_in(partition)) == 20


def test_internal_topics_are_not_compacted_if_history_is_retained(tmp_path: Path) -> None:
    maintained = MaintainedCluster(tmp_path)
    maintained.maintenance.keeps_history = True
    config = {"cleanup_policy": "compact", "segment_ms": "1000"}
    other, internal = (
        maintained.partition(name, 1, **config) for name in ("other", "__consumer_offsets")
    )
    for number in range(3):
        for partition in (other, internal):
            maintained.append(partition, b"key", b"%d" % number)
        maintained.clock.advance(1001)
    maintained.clock.advance(MINUTE_MS)
    assert [len(keys_in(each)) for each in (other, internal)] == [2, 3]


def test_inactive_producers_are_removed(maintained: MaintainedCluster) -> None:
    partition = maintained.partition("t")
    maintained.append(partition, b"k", b"v", producer_id=7)
    assert partition.log.producers.get(7) is not None
    maintained.clock.advance(DAY_MS + 10 * MINUTE_MS)
    assert partition.log.producers.get(7) is None


def test_flush_ms_is_applied_when_the_scheduler_runs(tmp_path: Path) -> None:
    maintained = MaintainedCluster(tmp_path, log_flush_scheduler_interval_ms="100")
    often = maintained.partition("often", flush_ms="1000")
    never = maintained.partition("never", flush_ms=f"{DAY_MS}")
    for partition in (often, never):
        maintained.append(partition, b"k", b"v")
    maintained.clock.advance(2000)
    assert often.log.recovery_point == 1
    assert never.log.recovery_point == 0


def test_work_that_is_always_due_leaves_time_for_clients(tmp_path: Path) -> None:
    maintained = MaintainedCluster(
        tmp_path, log_cleaner_backoff_ms="0", log_flush_scheduler_interval_ms="0"
    )
    for _ in range(3):
        deadline_ms = maintained.clock.next_deadline_ms
        assert deadline_ms is not None
        assert deadline_ms - maintained.clock.now_ms() == 10
        maintained.clock.advance(10)


def test_checkpoints_are_written(maintained: MaintainedCluster) -> None:
    partition = maintained.partition("t")
    maintained.append(partition, b"k", b"v")
    partition.log.flush()
    maintained.clock.advance(MINUTE_MS)
    assert "t 0 1" in (maintained.path / "recovery-point-offset-checkpoint").read_text()


def test_a_failed_round_is_reported_and_retried(tmp_path: Path) -> None:
    maintained = MaintainedCluster(tmp_path)
    (tmp_path / "recovery-point-offset-checkpoint").mkdir()
    partition = maintained.partition("t")
    maintained.append(partition, b"k", b"v")
    partition.log.flush()
    maintained.clock.advance(MINUTE_MS)
    (failure,) = maintained.cluster.partitions.disk_health.failures
    assert failure.path == str(tmp_path / "recovery-point-offset-checkpoint")
    (tmp_path / "recovery-point-offset-checkpoint").rmdir()
    maintained.clock.advance(MINUTE_MS)
    assert not maintained.cluster.partitions.disk_health.failures
    assert "t 0 1" in (tmp_path / "recovery-point-offset-checkpoint").read_text()


def test_a_log_with_a_deleted_directory_accepts_no_records(maintained: MaintainedCluster) -> None:
    gone, other = maintained.partition("gone"), maintained.partition("other")
    for partition in (gone, other):
        maintained.append(partition, b"k", b"v")
    maintained.clock.advance(5_000)
    rmtree(maintained.path / "gone-0")
    maintained.append(gone, b"k", b"not noticed yet")
    maintained.clock.advance(5_000)
    (failure,) = maintained.cluster.partitions.disk_health.failures
    assert failure.problem is DiskProblem.MISSING
    assert failure.path == str(maintained.path / "gone-0")
    with pytest.raises(OSError, match="deleted or moved away"):
        maintained.append(gone, b"k", b"refused")
    maintained.append(other, b"k", b"v")
    maintained.cluster.metadata.delete_topics([gone.topic_id])
    assert not maintained.cluster.partitions.disk_health.failures


def test_a_log_continues_when_its_directory_is_back(maintained: MaintainedCluster) -> None:
    partition = maintained.partition("moved")
    maintained.append(partition, b"k", b"first")
    (maintained.path / "moved-0").rename(maintained.path / "elsewhere")
    maintained.append(partition, b"k", b"not noticed yet")
    maintained.clock.advance(5_000)
    with pytest.raises(OSError, match="deleted or moved away"):
        maintained.append(partition, b"k", b"refused")
    (maintained.path / "elsewhere").rename(maintained.path / "moved-0")
    maintained.clock.advance(5_000)
    assert not maintained.cluster.partitions.disk_health.failures
    maintained.append(partition, b"k", b"last")
    assert [value for batch in partition.log.batches() for _, value in batch.key_values()] == [
        b"first",
        b"not noticed yet",
        b"last",
    ]


def test_a_failed_retention_does_not_delay_other_logs(maintained: MaintainedCluster) -> None:
    bad, good = (
        maintained.partition(name, retention_ms="1000", segment_ms="1000") for name in "ab"
    )
    for partition in (bad, good):
        maintained.append(partition, b"k", b"old")
    maintained.clock.advance(2_000)
    for partition in (bad, good):
        maintained.append(partition, b"k", b"new")
    first = maintained.path / "a-0" / f"{0:020d}.txnindex"
    first.mkdir()
    maintained.clock.advance(5 * MINUTE_MS)
    assert good.log_start_offset > 0
    (failure,) = maintained.cluster.partitions.disk_health.failures
    assert failure.path == str(maintained.path / "a-0")
    first.rmdir()
    maintained.clock.advance(5 * MINUTE_MS)
    assert bad.log_start_offset > 0
    assert not maintained.cluster.partitions.disk_health.failures


def test_syncs_run_outside_the_loop(tmp_path: Path) -> None:
    executor = HeldWorker()
    maintained = MaintainedCluster(tmp_path, executor, log_flush_scheduler_interval_ms="1000")
    first, second = (maintained.partition(name, flush_ms="500") for name in ("first", "second"))
    for partition in (first, second):
        maintained.append(partition, b"key", b"value")
    maintained.clock.advance(1000)
    maintained.clock.advance(1000)
    assert [partition.log.recovery_point for partition in (first, second)] == [0, 0]
    maintained.append(first, b"key", b"not flushed yet")
    executor.run()
    assert [partition.log.recovery_point for partition in (first, second)] == [1, 0]
    executor.run()
    assert [partition.log.recovery_point for partition in (first, second)] == [1, 1]
    assert executor.jobs == []
    maintained.maintenance.stop()


def test_a_failed_flush_does_not_delay_other_logs(tmp_path: Path) -> None:
    maintained = MaintainedCluster(tmp_path, log_flush_scheduler_interval_ms="1000")
    bad, good = (maintained.partition(name, flush_ms="500") for name in ("bad", "good"))
    for partition in (bad, good):
        maintained.append(partition, b"key", b"value")
    (tmp_path / "bad-0" / f"{0:020d}.log").unlink()
    (tmp_path / "bad-0" / f"{0:020d}.log").mkdir()
    (tmp_path / "bad-0" / f"{0:020d}.index").mkdir()
    maintained.clock.advance(2000)
    assert [partition.log.recovery_point for partition in (bad, good)] == [0, 1]
    (failure,) = maintained.cluster.partitions.disk_health.failures
    assert failure.path == str(tmp_path / "bad-0")
    maintained.maintenance.stop()


def test_a_stop_cancels_running_rounds(tmp_path: Path) -> None:
    executor = HeldWorker()
    maintained = MaintainedCluster(tmp_path, executor, log_flush_scheduler_interval_ms="1000")
    partition = maintained.partition("t", flush_ms="500")
    maintained.append(partition, b"key", b"value")
    maintained.clock.advance(2000)
    maintained.maintenance.stop()
    executor.run()
    assert partition.log.recovery_point == 0
    assert maintained.clock.next_deadline_ms is None


def test_files_of_deleted_topics_are_removed_outside_the_loop(tmp_path: Path) -> None:
    executor = HeldWorker()
    maintained = MaintainedCluster(tmp_path, executor)
    partition = maintained.partition("t")
    maintained.append(partition, b"key", b"value")
    maintained.cluster.metadata.delete_topics([partition.topic_id])
    maintained.clock.advance(1000)
    (left,) = tmp_path.glob("t-*")
    assert left.name.endswith("-delete")
    executor.run()
    assert not list(tmp_path.glob("t-*"))
    maintained.maintenance.stop()


def test_rolled_segments_of_compacted_logs_are_flushed_outside_the_loop(
    tmp_path: Path,
) -> None:
    executor = HeldWorker()
    maintained = MaintainedCluster(tmp_path, executor)
    partition = maintained.partition("t", cleanup_policy="compact", segment_ms="100")
    maintained.append(partition, b"key", b"value")
    maintained.clock.advance(200)
    maintained.append(partition, b"key", b"value")
    assert len(partition.log.segments) == 2
    mark = tmp_path / "t-0" / f"{1:020d}.unflushed"
    assert mark.exists()
    maintained.clock.advance(1000)
    assert partition.log.recovery_point == 0
    executor.run()
    assert partition.log.recovery_point == 2
    assert not mark.exists()
    maintained.maintenance.stop()
