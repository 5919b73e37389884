"""What a broker does by itself from time to time: checkpoints, flushes, retention, compaction.

Each kind of work has Kafka's own interval. Compaction goes on in small steps with requests served
in between, one log at a time, the dirtiest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.storage.compaction import compaction_of
from kafkalite.storage.retention import enforce_retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.partitions.partition import Partition
    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.server.cluster import Cluster
    from kafkalite.server.logging import Log
    from kafkalite.storage.compaction import CompactionPlan

_NEVER_MS = 10**12
"""An interval of thirty years or more is Kafka's way to say never."""

_LEAST_MS = 10
"""Several settings may be 0; this keeps work that is always due from being all that is done."""


class Maintenance:
    """Periodic work on the logs of one cluster."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock, log: Log) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._log = log
        self._timers: dict[str, Timer] = {}
        self._flushed_ms: dict[Partition, int] = {}
        self._not_compacted: set[Partition] = set()
        """Those whose last compaction failed; the others come before them."""
        self._work: dict[str, tuple[str, Callable[[], None]]] = {
            "checkpoint": (
                "log.flush.offset.checkpoint.interval.ms",
                cluster.partitions.checkpoint,
            ),
            "flush": ("log.flush.scheduler.interval.ms", self._flush),
            "retention": ("log.retention.check.interval.ms", self._enforce_retention),
            "compaction": ("log.cleaner.backoff.ms", self._compact),
            "producers": ("producer.id.expiration.check.interval.ms", self._forget_producers),
        }

    def start(self) -> None:
        """Begin; the first round of each kind comes after its interval."""
        for name in self._work:
            self._set_next(name)

    def stop(self) -> None:
        """Do nothing more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _set_next(self, name: str) -> None:
        key, work = self._work[name]
        interval_ms = self._config.int(key)
        if interval_ms < _NEVER_MS:
            next_ms = self._clock.tick_ms(self._clock.now_ms() + max(_LEAST_MS, interval_ms))
            self._timers[name] = self._clock.call_at(next_ms, lambda: self._run(name, work))

    def _run(self, name: str, work: Callable[[], None]) -> None:
        self._set_next(name)
        try:
            work()
        except Exception as fault:  # noqa: BLE001 - the next round may succeed
            self._log.error(f"{name} failed", exception=fault)

    def _partitions(self) -> Iterator[Partition]:
        for topic in self._cluster.partitions.topics():
            yield from topic.partitions

    def _flush(self) -> None:
        """Write to disk what flush.ms says has waited long enough."""
        now_ms = self._clock.now_ms()
        flushed_ms = {}
        for partition in self._partitions():
            log = partition.log
            since_ms = self._flushed_ms.get(partition, now_ms)
            if log.recovery_point >= log.end_offset:
                since_ms = now_ms
            elif now_ms - since_ms >= log.config.flush_ms:
                log.flush()
                since_ms = now_ms
            flushed_ms[partition] = since_ms
        self._flushed_ms = flushed_ms

    def _enforce_retention(self) -> None:
        """Remove segments that retention.ms or retention.bytes lets go."""
        now_ms = self._clock.now_ms()
        for partition in self._partitions():
            removed = enforce_retention(
                partition.log, now_ms=now_ms, high_watermark=partition.high_watermark
            )
            if removed:
                self._log.debug("retention", partition=str(partition), segments=removed)

    def _forget_producers(self) -> None:
        """Forget idempotent producers that have been silent for producer.id.expiration.ms."""
        expiration_ms = self._config.int("producer.id.expiration.ms")
        for partition in self._partitions():
            partition.log.producers.expire(self._clock.now_ms(), expiration_ms)

    def _compact(self) -> None:
        """Begin to compact the dirtiest log that is due."""
        if not self._config.bool("log.cleaner.enable"):
            return
        now_ms = self._clock.now_ms()
        due: list[tuple[float, Partition, CompactionPlan]] = []
        for partition in self._partitions():
            plan = compaction_of(
                partition.log, last_stable_offset=partition.last_stable_offset, now_ms=now_ms
            )
            if plan is not None and plan.is_due:
                due.append((plan.dirty_ratio, partition, plan))
        if due:
            from kafkalite.storage.cleaning import clean  # noqa: PLC0415 - most never compact

            self._not_compacted.intersection_update([partition for _, partition, _ in due])
            _, partition, plan = max(
                due, key=lambda each: (each[1] not in self._not_compacted, each[0])
            )
            self._log.debug("compaction", partition=str(partition), dirty_ratio=plan.dirty_ratio)
            # The next round waits for the end of this one.
            self._timers["compaction"].cancel()
            self._go_on(partition, plan, clean(partition.log, plan, now_ms=now_ms))

    def _go_on(self, partition: Partition, plan: CompactionPlan, cleaning: Iterator[None]) -> None:
        """Take one step of a compaction, or look for the next log when it has ended."""
        try:
            next(cleaning)
        except StopIteration:
            self._set_next("compaction")
            self._not_compacted.discard(partition)
            # Kafka's cleaner rests only when nothing is due; nor does it try again in vain.
            if partition.log.first_dirty_offset > plan.first_dirty_offset:
                self._compact()
        except Exception as fault:  # noqa: BLE001 - the next round may succeed
            self._log.error("compaction failed", exception=fault, partition=str(partition))
            self._not_compacted.add(partition)
            self._set_next("compaction")
        else:
            self._timers["compaction"] = self._clock.call_at(
                self._clock.now_ms(), lambda: self._go_on(partition, plan, cleaning)
            )
