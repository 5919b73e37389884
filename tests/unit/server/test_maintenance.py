"""Periodic work: each kind at its interval, by the clock of the test."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.creation import NewTopic
from kafkalite.ports.files import OsFiles
from kafkalite.server.cluster import Cluster
from kafkalite.server.logging import Level, Log
from kafkalite.server.maintenance import Maintenance
from kafkalite.storage.batch import BatchView, Producer, build_batch
from kafkalite.storage.directory import DataDirectory
from kafkalite.storage.records import NewRecord
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.partitions.partition import Partition

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class Kept:
    """A cluster whose logs are looked after."""

    def __init__(self, directory: Path, **config: str) -> None:
        self.path = directory
        self.clock = ManualClock()
        self.words = io.StringIO()
        text = {key.replace("_", "."): value for key, value in config.items()}
        broker = BrokerConfig.from_text(text)
        self.cluster = Cluster(
            directory=DataDirectory(OsFiles(), str(directory)),
            clock=self.clock,
            entropy=SeededEntropy(),
            config=broker,
            node_ids=[1],
        )
        log = Log(Level.ERROR, "json", self.words)
        self.maintenance = Maintenance(self.cluster, broker, self.clock, log)
        self.maintenance.start()

    def partition(self, name: str, **config: str) -> Partition:
        """Make a topic of one partition."""
        configs: dict[str, str | None] = {
            key.replace("_", "."): value for key, value in config.items()
        }
        (made,) = self.cluster.metadata.create_topics(
            [NewTopic(name=name, partitions=1, replication_factor=1, configs=configs)]
        )
        assert made.error is None
        partition = self.cluster.partitions.get(made.topic_id, 0)
        assert partition is not None
        return partition

    def append(
        self, partition: Partition, key: bytes, value: bytes | None, producer_id: int = -1
    ) -> None:
        now_ms = self.clock.now_ms()
        producer = Producer(producer_id, 0, 0) if producer_id >= 0 else Producer(-1, -1, -1)
        batch = build_batch([NewRecord(key, value, now_ms)], producer=producer)
        partition.append_own(BatchView(batch), now_ms)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path, log_retention_check_interval_ms=f"{5 * MINUTE_MS}")
    yield kept
    kept.maintenance.stop()
    assert kept.clock.next_deadline_ms is None
    assert kept.words.getvalue() == ""


def keys_in(partition: Partition) -> list[bytes | None]:
    return [key for batch in partition.log.batches() for key, _ in batch.key_values()]


def test_records_older_than_retention_are_removed_at_the_next_check(kept: Kept) -> None:
    partition = kept.partition("old", retention_ms=f"{HOUR_MS}", segment_ms=f"{HOUR_MS}")
    kept.append(partition, b"first", b"")
    kept.clock.advance(2 * HOUR_MS - 1)
    kept.append(partition, b"second", b"")
    kept.clock.advance(5 * MINUTE_MS)
    assert keys_in(partition) == [b"second"]
    assert partition.log_start_offset == 1


def test_compaction_keeps_the_last_value_of_each_key(kept: Kept) -> None:
    partition = kept.partition(
        "compacted", cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.1"
    )
    for number in range(200):
        kept.append(partition, b"%d" % (number % 3), b"%d" % number)
        kept.clock.advance(10)
    kept.clock.advance(1000)
    kept.append(partition, b"active", b"segment")
    kept.clock.advance(MINUTE_MS)
    assert keys_in(partition) == [b"2", b"0", b"1", b"active"]
    assert partition.end_offset == 201


def test_a_log_that_cannot_be_compacted_leaves_time_for_the_others(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    bad, good = (
        kept.partition(name, cleanup_policy="compact", segment_ms="1000")
        for name in ("bad", "good")
    )
    kept.append(good, b"other", b"")
    for partition in (bad, good):
        for _ in range(2):
            kept.append(partition, b"key", b"value")
    kept.clock.advance(1001)
    for partition in (bad, good):
        kept.append(partition, b"active", b"segment")
    # A name that is taken: the file of the cleaned segment cannot be written.
    (tmp_path / "bad-0" / f"{0:020d}.log.cleaned").mkdir()
    kept.clock.advance(MINUTE_MS)
    assert keys_in(good) == [b"other", b"key", b"active"]
    assert len(keys_in(bad)) == 3
    assert "compaction failed" in kept.words.getvalue()
    (tmp_path / "bad-0" / f"{0:020d}.log.cleaned").rmdir()
    kept.clock.advance(MINUTE_MS)
    assert keys_in(bad) == [b"key", b"active"]


def test_compaction_can_be_switched_off(tmp_path: Path) -> None:
    kept = Kept(tmp_path, log_cleaner_enable="false")
    partition = kept.partition(
        "compacted", cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.1"
    )
    for number in range(20):
        kept.append(partition, b"key", b"%d" % number)
        kept.clock.advance(500)
    kept.clock.advance(MINUTE_MS)
    assert len(keys_in(partition)) == 20


def test_silent_producers_are_forgotten(kept: Kept) -> None:
    partition = kept.partition("t")
    kept.append(partition, b"k", b"v", producer_id=7)
    assert partition.log.producers.get(7) is not None
    kept.clock.advance(DAY_MS + 10 * MINUTE_MS)
    assert partition.log.producers.get(7) is None


def test_flush_ms_counts_when_the_scheduler_runs(tmp_path: Path) -> None:
    kept = Kept(tmp_path, log_flush_scheduler_interval_ms="100")
    often = kept.partition("often", flush_ms="1000")
    never = kept.partition("never", flush_ms=f"{DAY_MS}")
    for partition in (often, never):
        kept.append(partition, b"k", b"v")
    kept.clock.advance(2000)
    assert often.log.recovery_point == 1
    assert never.log.recovery_point == 0


def test_work_that_is_always_due_leaves_time_for_clients(tmp_path: Path) -> None:
    kept = Kept(tmp_path, log_cleaner_backoff_ms="0", log_flush_scheduler_interval_ms="0")
    for _ in range(3):
        deadline_ms = kept.clock.next_deadline_ms
        assert deadline_ms is not None
        assert deadline_ms - kept.clock.now_ms() == 10
        kept.clock.advance(10)


def test_checkpoints_are_written(kept: Kept) -> None:
    partition = kept.partition("t")
    kept.append(partition, b"k", b"v")
    partition.log.flush()
    kept.clock.advance(MINUTE_MS)
    assert "t 0 1" in (kept.path / "recovery-point-offset-checkpoint").read_text()


def test_what_fails_is_reported_and_tried_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    (tmp_path / "recovery-point-offset-checkpoint").mkdir()
    partition = kept.partition("t")
    kept.append(partition, b"k", b"v")
    partition.log.flush()
    kept.clock.advance(MINUTE_MS)
    assert "checkpoint failed" in kept.words.getvalue()
    (tmp_path / "recovery-point-offset-checkpoint").rmdir()
    kept.clock.advance(MINUTE_MS)
    assert "t 0 1" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
