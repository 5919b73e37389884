"""Tasks: what a member of a streams group does, or is to do.

A task is one partition of one subtopology. An active task is done by one process at a time; standby
and warm-up tasks keep copies of its state elsewhere. Only active tasks commit offsets, so only they
carry the epoch at which they were assigned.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

Subtopology: TypeAlias = str
TaskIds: TypeAlias = Mapping[Subtopology, AbstractSet[int]]
"""Subtopology id → partitions; no subtopology is empty."""
EpochsOfTasks: TypeAlias = Mapping[Subtopology, Mapping[int, int]]
"""Subtopology id → partition → the epoch at which the task was assigned; none is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Tasks by kind, as a target or as a member reports them."""

    active: TaskIds = field(default_factory=dict)
    standby: TaskIds = field(default_factory=dict)
    warmup: TaskIds = field(default_factory=dict)

    def is_empty(self) -> bool:
        """Whether there is no task of any kind."""
        return not (self.active or self.standby or self.warmup)

    def share_any_with(self, held: HeldTasks) -> bool:
        """Whether any of these tasks is among those held, and of the same kind."""
        return (
            _overlap(self.active, held.active)
            or _overlap(self.standby, held.standby)
            or _overlap(self.warmup, held.warmup)
        )

    def are_within(self, held: HeldTasks) -> bool:
        """Whether all of these tasks are among those held, each of the same kind."""
        return (
            _within(self.active, held.active)
            and _within(self.standby, held.standby)
            and _within(self.warmup, held.warmup)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTasks:
    """Tasks by kind, as a member has them."""

    active: EpochsOfTasks = field(default_factory=dict)
    standby: TaskIds = field(default_factory=dict)
    warmup: TaskIds = field(default_factory=dict)

    def is_empty(self) -> bool:
        """Whether there is no task of any kind."""
        return not (self.active or self.standby or self.warmup)

    def assignment_epoch(self, subtopology: Subtopology, partition: int) -> int | None:
        """Return the epoch an active task was assigned at; None when it is not held."""
        return self.active.get(subtopology, {}).get(partition)


NO_TASKS = Tasks()
HOLDS_NOTHING = HeldTasks()


def _overlap(some: TaskIds, held: TaskIds | EpochsOfTasks) -> bool:
    return any(
        not partitions.isdisjoint(held[name]) for name, partitions in some.items() if name in held
    )


def _within(some: TaskIds, held: TaskIds | EpochsOfTasks) -> bool:
    return all(partitions <= set(held.get(name, ())) for name, partitions in some.items())
