"""PeriodicElections: elections of preferred and of unclean leaders, as the controller makes them.

Kafka's controller has a periodic task for each. Here a timer runs only while a partition needs an
election. It is due when Kafka's task would be: a multiple of the period after the start.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafkalite.metadata.image import NO_LEADER
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.metadata.controller import MetadataController
    from kafkalite.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
    from kafkalite.ports.clock import Clock, Timer

MAX_ELECTIONS = 1_000
"""Maximum number of elections per decision; the next decision follows after CONTINUE_DELAY_MS."""
CONTINUE_DELAY_MS = 10


class _Task(NamedTuple):
    interval: str
    """The setting of the controller with the interval."""
    factor: int
    """Converts the interval to milliseconds."""
    switch: str | None
    """The setting of the controller that enables the elections; None if they always take place."""
    needs_election: Callable[[PartitionImage], bool]
    elect: Callable[[int], bool]


def _has_no_leader(partition: PartitionImage) -> bool:
    return partition.leader == NO_LEADER


def _has_another_leader(partition: PartitionImage) -> bool:
    return partition.leader != partition.replicas[0]


class PeriodicElections:
    """The periodic elections of one cluster."""

    __slots__ = ("_clock", "_config", "_metadata", "_start_ms", "_tasks", "_timers")

    def __init__(self, clock: Clock, config: BrokerConfig, metadata: MetadataController) -> None:
        self._clock = clock
        self._config = config
        self._metadata = metadata
        self._start_ms = clock.now_ms()
        self._tasks = [
            _Task(
                "unclean.leader.election.interval.ms",
                1,
                None,
                _has_no_leader,
                metadata.elect_unclean_leaders,
            ),
            _Task(
                "leader.imbalance.check.interval.seconds",
                1000,
                "auto.leader.rebalance.enable",
                _has_another_leader,
                metadata.elect_preferred_leaders,
            ),
        ]
        self._timers: dict[_Task, Timer] = {}

    def start(self) -> None:
        """Begin with the partitions that need an election now."""
        self._schedule(self._metadata.image.topics.values())

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Set the timers if changed partitions need an election."""
        del image
        self._schedule((*delta.created, *delta.changed))

    def close(self) -> None:
        """Stop the timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _schedule(self, topics: Iterable[TopicImage]) -> None:
        for task in self._tasks:
            if (
                task not in self._timers
                and self._is_enabled(task)
                and any(
                    task.needs_election(partition)
                    for topic in topics
                    for partition in topic.partitions
                )
            ):
                now_ms = self._clock.now_ms()
                period_ms = self._controller_config().int(task.interval) * task.factor
                periods = (now_ms - self._start_ms) // period_ms + 1
                self._call_at(task, self._start_ms + periods * period_ms)

    def _is_enabled(self, task: _Task) -> bool:
        return task.switch is None or self._controller_config().bool(task.switch)

    def _controller_config(self) -> BrokerConfig:
        return self._config.of_controller(self._metadata.image.active_brokers)

    def _call_at(self, task: _Task, deadline_ms: int) -> None:
        self._timers[task] = self._clock.call_at(
            self._clock.periodic_deadline_ms(deadline_ms), partial(self._elect, task)
        )

    def _elect(self, task: _Task) -> None:
        try:
            # Another node may act as controller now.
            may_be_more = self._is_enabled(task) and task.elect(MAX_ELECTIONS)
        except KafkaError:
            # The disk has failed, which is reported elsewhere. The next round tries again.
            may_be_more = False
        del self._timers[task]
        if may_be_more:
            self._call_at(task, self._clock.now_ms() + CONTINUE_DELAY_MS)
        else:
            self._schedule(self._metadata.image.topics.values())
