"""Places: what leads where at a target of several nodes; asked once, and again when it moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.replay.subjects import Led, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.replay.target import Target

MOST_KNOWN = 1_000_000


class Places:
    """Which node of the target answers for what."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[Subject, int] = {}
        self.epochs: dict[Subject, int] = {}
        """How often the leaders of partitions were elected, when that was asked last."""

    async def of(self, subjects: Iterable[Subject]) -> dict[Subject, int]:
        """Return the nodes of those subjects that have one."""
        unknown = [each for each in dict.fromkeys(subjects) if each not in self._known]
        if unknown:
            if len(self._known) > MOST_KNOWN:
                self._known.clear()
                self.epochs.clear()
            await self._ask(unknown)
        return self._known

    async def _ask(self, unknown: Iterable[Subject]) -> None:
        topics = [each.name for each in unknown if each.led is Led.PARTITION]
        if topics:
            leaders = await self._target.leaders(list(dict.fromkeys(topics)))
            for (topic, partition), leader in leaders.items():
                subject = Subject(Led.PARTITION, topic, partition)
                self.epochs[subject] = leader.epoch
                if leader.node_id in self._target.nodes:
                    self._known[subject] = leader.node_id
        for each in unknown:
            if each.led is not Led.PARTITION:
                node = await self._target.coordinator(str(each.name), each.led.value)
                if node is not None:
                    self._known[each] = node

    def forget(self, subjects: Iterable[Subject]) -> None:
        """Ask anew for these: they are not where they were."""
        for each in subjects:
            self._known.pop(each, None)
