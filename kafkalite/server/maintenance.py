"""Periodic work of a broker: checkpoints, flushes, retention, compaction.

Each kind of work has Kafka's own interval. A round proceeds in small steps between requests, and
its syncs run in a thread. Compaction processes one log at a time, the dirtiest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.image import INTERNAL_TOPICS, NO_LEADER
from kafkalite.ports.background import BackgroundTask
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.rounds import Rounds
from kafkalite.storage.disk_health import FileUse
from kafkalite.storage.flushing import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.partitions.partition import Partition
    from kafkalite.ports.background import Steps
    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.ports.executors import Executor
    from kafkalite.server.logging import Log
    from kafkalite.storage.compaction import CompactionPlan
    from kafkalite.storage.data_directory import TopicPartition
    from kafkalite.storage.log import Log as PartitionLog

_COMPACTION = "compaction"
_EXPIRATION = "expiration of producers"
_FLUSH = "flush"
_RETENTION = "retention"

_DISK_CHECK_INTERVAL_MS = 5_000
"""The interval of disk checks: the maximum time until appends to a deleted file are detected."""

_ROLL_FLUSH_INTERVAL_MS = 1000
"""The interval at which rolled segments are flushed, in logs with compaction."""

_DELETION_INTERVAL_MS = 1000
"""The interval at which the files of deleted topics are removed."""

_MIN_PAUSE_MS = 10
"""The shortest time between two rounds of one kind: requests must be served in between."""


class PeriodicWork(NamedTuple):
    """One kind of work."""

    interval: str | int
    """The setting that has the interval in ms, or the interval in ms."""
    steps: Callable[[], Steps]
    """Begins a round."""


class Maintenance:
    """Periodic work on the logs of one cluster."""

    def __init__(
        self, cluster: Cluster, config: BrokerConfig, clock: Clock, log: Log, executor: Executor
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._log = log
        self._executor = executor
        self.keeps_history = False
        """Whether internal topics are not compacted."""
        self._timers: dict[str, Timer] = {}
        self._tasks: dict[str, BackgroundTask] = {}
        self._unflushed_since_ms: dict[Partition, int] = {}
        """The time since which each log may have unflushed records."""
        self._failed_compactions: set[Partition] = set()
        """Partitions whose last compaction failed; all other partitions are compacted first."""
        self._rounds: dict[str, Rounds] = {}
        self._checked_end_offsets: dict[TopicPartition, int] = {}
        """The end offset of each log when its files were last checked."""
        self._work_by_name = {
            "checkpoint": PeriodicWork(
                "log.flush.offset.checkpoint.interval.ms", cluster.partitions.checkpoint_steps
            ),
            _FLUSH: PeriodicWork("log.flush.scheduler.interval.ms", self._flush),
            "flush of rolled segments": PeriodicWork(
                _ROLL_FLUSH_INTERVAL_MS, self._flush_rolled_logs
            ),
            _RETENTION: PeriodicWork("log.retention.check.interval.ms", self._enforce_retention),
            _COMPACTION: PeriodicWork("log.cleaner.backoff.ms", self._compact),
            _EXPIRATION: PeriodicWork(
                "producer.id.expiration.check.interval.ms", self._expire_producers
            ),
            "removal of deleted logs": PeriodicWork(
                _DELETION_INTERVAL_MS, cluster.partitions.remove_deleted
            ),
            "disk check": PeriodicWork(_DISK_CHECK_INTERVAL_MS, self._check_disk),
        }

    def start(self) -> None:
        """Begin; the first round of each kind starts after its interval."""
        for name, work in self._work_by_name.items():
            self._rounds[name] = Rounds(work.interval, self._config)
            self._schedule_next(name, self._clock.now_ms())

    def stop(self) -> None:
        """Cancel all work."""
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks.values():
            task.cancel()
        self._timers.clear()
        self._tasks.clear()

    def _schedule_next(self, name: str, started_ms: int) -> None:
        """Schedule the next round, one interval after the start of the last one at `started_ms`."""
        due_ms = self._rounds[name].next_ms(started_ms, self._cluster.nodes)
        if due_ms is not None:
            next_ms = max(due_ms, self._clock.now_ms() + _MIN_PAUSE_MS)
            deadline_ms = self._clock.periodic_deadline_ms(next_ms)
            self._timers[name] = self._clock.call_at(deadline_ms, lambda: self._run(name))

    def _run(self, name: str) -> None:
        """Begin a round; its end schedules the next one."""
        started_ms = self._clock.now_ms()

        def on_end(error: Exception | None) -> None:
            if isinstance(error, OSError):
                # It was reported to DiskHealth where it was raised.
                self._log.debug(f"{name} failed", reason=str(error))
            elif error is not None:
                self._log.error(f"{name} failed", exception=error)
            # After an error, too: the next round may succeed.
            self._schedule_next(name, started_ms)

        steps = self._work_by_name[name].steps()
        task = BackgroundTask(steps, clock=self._clock, executor=self._executor, on_end=on_end)
        self._tasks[name] = task
        task.run()

    def _check_disk(self) -> Steps:
        """Check that the files of growing logs exist, and whether disk problems have ended."""
        checked, self._checked_end_offsets = self._checked_end_offsets, {}
        for name, log in self._cluster.partitions.logs().items():
            if log.has_disk_failure or checked.get(name) != log.end_offset:
                log.check_in_place()
            self._checked_end_offsets[name] = log.end_offset
            yield None
        self._cluster.partitions.disk_health.retry_all()

    def _partitions(self, name: str) -> Iterator[Partition]:
        """Yield the partitions of the current round of one kind of work."""
        includes = self._rounds[name].includes
        # Iterate over copies, because topics are created and deleted between two steps.
        for topic in tuple(self._cluster.partitions.topics()):
            yield from filter(includes, tuple(topic.partitions))

    def _config_of(self, partition: Partition) -> BrokerConfig:
        """Return the settings of the node that leads a partition."""
        leader = partition.leader
        return self._config if leader == NO_LEADER else self._config.of_node(leader)

    def _flush(self) -> Steps:
        """Flush the logs whose oldest unflushed records are older than flush.ms."""
        now_ms = self._clock.now_ms()
        includes = self._rounds[_FLUSH].includes
        unflushed_since_ms = {
            partition: since_ms
            for partition, since_ms in self._unflushed_since_ms.items()
            if not includes(partition)
        }
        for partition in self._partitions(_FLUSH):
            log = partition.log
            since_ms = self._unflushed_since_ms.get(partition, now_ms)
            if log.recovery_point >= log.end_offset:
                since_ms = now_ms
            elif now_ms - since_ms >= log.config.flush_ms:
                try:
                    yield from flush_steps(log)
                except OSError as error:
                    # The log has reported it; continue with the other logs.
                    self._log.debug("flush failed", partition=str(partition), reason=str(error))
                since_ms = now_ms
            unflushed_since_ms[partition] = since_ms
            yield None
        self._unflushed_since_ms = unflushed_since_ms

    def _flush_rolled_logs(self) -> Steps:
        """Flush the logs that rolled a segment."""
        for log in self._cluster.partitions.take_logs_to_flush():
            try:
                yield from flush_steps(log)
            except OSError as error:
                # The log has reported it; continue with the other logs.
                self._log.debug("flush failed", directory=log.directory, reason=str(error))

    def _enforce_retention(self) -> Steps:
        """Remove segments that exceed retention.ms or retention.bytes."""
        from kafkalite.storage.retention import enforce_retention  # noqa: PLC0415 - as below

        now_ms = self._clock.now_ms()
        for partition in self._partitions(_RETENTION):
            try:
                removed = enforce_retention(
                    partition.log, now_ms=now_ms, high_watermark=partition.high_watermark
                )
            except OSError as error:
                # The log has reported it; continue with the other logs.
                self._log.debug("retention failed", partition=str(partition), reason=str(error))
                continue
            if removed:
                self._log.debug("retention", partition=str(partition), segments=removed)
            yield None

    def _expire_producers(self) -> Steps:
        """Remove idempotent producers that were idle for producer.id.expiration.ms."""
        for partition in self._partitions(_EXPIRATION):
            expiration_ms = self._config_of(partition).int("producer.id.expiration.ms")
            partition.log.producers.expire(self._clock.now_ms(), expiration_ms)
            yield None

    def _compact(self) -> Steps:
        """Compact the logs that are due, the dirtiest first, while that makes progress."""
        from kafkalite.storage.compaction import plan_log_compaction  # noqa: PLC0415 - rarely used

        makes_progress = True
        while makes_progress:
            due: list[tuple[Partition, CompactionPlan]] = []
            for partition in self._partitions(_COMPACTION):
                if self.keeps_history and partition.topic_name in INTERNAL_TOPICS:
                    continue
                if not self._config_of(partition).bool("log.cleaner.enable"):
                    continue
                plan = plan_log_compaction(
                    partition.log,
                    last_stable_offset=partition.last_stable_offset,
                    now_ms=self._clock.now_ms(),
                )
                if plan is not None and plan.is_due:
                    due.append((partition, plan))
                yield None
            if not due:
                return
            self._failed_compactions.intersection_update([partition for partition, _ in due])
            partition, plan = max(due, key=self._compaction_priority)
            yield from self._compact_one(partition, plan)
            # As in Kafka, continue while a log is due, unless compaction made no progress.
            makes_progress = partition.log.first_dirty_offset > plan.first_dirty_offset

    def _compaction_priority(self, due: tuple[Partition, CompactionPlan]) -> tuple[bool, float]:
        partition, plan = due
        return partition not in self._failed_compactions, plan.dirty_ratio

    def _compact_one(self, partition: Partition, plan: CompactionPlan) -> Steps:
        from kafkalite.storage.log_cleaner import clean  # noqa: PLC0415 - rarely used

        self._log.debug("compaction", partition=str(partition), dirty_ratio=plan.dirty_ratio)
        try:
            yield from clean(partition.log, plan, now_ms=self._clock.now_ms())
        except Exception as error:  # noqa: BLE001 - the next round may succeed
            if isinstance(error, OSError):
                partition.log.health.report_failure(
                    partition.log.directory, error, FileUse.CLEANING
                )
            else:
                self._log.error("compaction failed", exception=error, partition=str(partition))
            self._failed_compactions.add(partition)
        else:
            self._failed_compactions.discard(partition)
            partition.log.health.report_success(partition.log.directory, FileUse.CLEANING)


def flush_steps(log: PartitionLog) -> Steps:
    """Flush a log, with the sync as a job for a thread; raises OSError if the disk fails."""
    try:
        flush = log.begin_flush()
    except OSError as failure:
        log.health.report_failure(log.directory, failure, FileUse.WRITING, retry=log.begin_flush)
        raise
    if flush is None:
        return
    try:
        yield lambda: sync(log.files, flush)
    except OSError as failure:
        log.end_flush(flush, failure)
        raise
    log.end_flush(flush, None)
