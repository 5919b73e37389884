"""Gathering: decisions that came together go to the log together.

What is gathered is decided and not yet appended, let alone replayed. Whoever gathers settles before
anybody is answered, and before anything else is asked of the machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.coordinator.contract import CoordinatorRecord


class Appender(Protocol):
    """One shard: what takes records, all or none of them."""

    def append(self, records: Sequence[CoordinatorRecord[object, object]]) -> None:
        """Append and replay records as one batch; KafkaError when the log refuses them."""


class Gathering:
    """The records that the shards of one coordinator have gathered."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: dict[Appender, list[CoordinatorRecord[object, object]]] = {}

    def add(self, shard: Appender, records: Sequence[CoordinatorRecord[object, object]]) -> None:
        """Keep records of a shard until `settle`."""
        pending = self._pending.get(shard)
        if pending is None:
            pending = self._pending[shard] = []
        pending += records

    def settle(self) -> None:
        """Append what was gathered, one batch for each shard.

        KafkaError when a log refuses; what comes after it is forgotten, as its answers must be.
        """
        if self._pending:
            pending, self._pending = self._pending, {}
            for shard, records in pending.items():
                shard.append(records)
