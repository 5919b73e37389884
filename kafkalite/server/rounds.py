"""Rounds: when the periodic work of nodes with their own intervals is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.metadata.image import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.partitions.partition import Partition

_NEVER_MS: Final = 10**12
"""In Kafka's settings, an interval of about thirty years or more means never."""
_MIN_INTERVAL_MS: Final = 10
"""The shortest interval: several settings may be 0, and requests must be served in between."""


class Rounds:
    """The rounds of one kind of work on partitions.

    A round does the work of all nodes, or of those whose own interval has passed. The partitions of
    a node are those that it leads.
    """

    __slots__ = ("_config", "_due_ms", "_interval", "_nodes")

    def __init__(self, interval: str | int, config: BrokerConfig) -> None:
        """`interval` is the setting that has the interval in ms, or the interval in ms."""
        self._interval = interval
        self._config = config
        self._due_ms: dict[int, int] = {}
        """Node → when its next round is due, if a node has an interval of its own."""
        self._nodes: frozenset[int] | None = None
        """The nodes of the current round; None for all."""

    def next_ms(self, started_ms: int, node_ids: Iterable[int]) -> int | None:
        """Return when the round after the one at `started_ms` is due; None for never."""
        self._nodes = None
        interval = self._interval
        if isinstance(interval, int):
            return started_ms + max(_MIN_INTERVAL_MS, interval)
        if not self._config.has_own_value(interval):
            self._due_ms.clear()
            return _due_ms(started_ms, self._config.int(interval))
        due_ms = {}
        for node_id in node_ids:
            known_ms = self._due_ms.get(node_id)
            if known_ms is None or known_ms <= started_ms:
                known_ms = _due_ms(started_ms, self._config.node_int(node_id, interval))
            if known_ms is not None:
                due_ms[node_id] = known_ms
        self._due_ms = due_ms
        next_ms = min(due_ms.values(), default=None)
        self._nodes = frozenset(node_id for node_id, each in due_ms.items() if each == next_ms)
        return next_ms

    def includes(self, partition: Partition) -> bool:
        """Return whether the current round does the work on a partition.

        If the partition has no leader, the work is that of its first replica's node.
        """
        if self._nodes is None:
            return True
        leader = partition.leader
        return (partition.replicas[0] if leader == NO_LEADER else leader) in self._nodes


def _due_ms(started_ms: int, interval_ms: int) -> int | None:
    return None if interval_ms >= _NEVER_MS else started_ms + max(_MIN_INTERVAL_MS, interval_ms)
