"""What a broker does by itself from time to time: checkpoints, retention, compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.server.cluster import Cluster
    from kafkalite.server.logging import Log


class Maintenance:
    """Periodic work on the logs of one cluster, each kind at Kafka's own interval."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock, log: Log) -> None:
        self._cluster = cluster
        self._clock = clock
        self._log = log
        self._timers: dict[str, Timer] = {}
        self._work: tuple[tuple[str, int, Callable[[], None]], ...] = (
            (
                "checkpoint",
                config.int("log.flush.offset.checkpoint.interval.ms"),
                self._cluster.checkpoint,
            ),
        )

    def start(self) -> None:
        """Begin; the first round of each kind comes after its interval."""
        for name, interval_ms, work in self._work:
            self._set(name, interval_ms, work)

    def stop(self) -> None:
        """Do nothing more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _set(self, name: str, interval_ms: int, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except Exception as fault:  # noqa: BLE001 - the next round may succeed
                self._log.error(f"{name} failed", exception=fault)
            self._set(name, interval_ms, work)

        self._timers[name] = self._clock.call_at(self._clock.now_ms() + interval_ms, run)
