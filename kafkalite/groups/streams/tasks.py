"""Tasks of streams groups.

A task is one partition of one subtopology. An active task runs in one process at a time. Standby
and warm-up tasks are copies of its state in other processes. Only active tasks commit offsets, so
only they have assignment epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

S = TypeVar("S")

Subtopology: TypeAlias = str
TaskIds: TypeAlias = Mapping[Subtopology, AbstractSet[int]]
"""Subtopology id → partitions; subtopologies without tasks are omitted."""
TaskEpochs: TypeAlias = Mapping[Subtopology, Mapping[int, int]]
"""Subtopology id → partition → assignment epoch; subtopologies without tasks are omitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Tasks by kind, as in a target or in a member's report."""

    active: TaskIds = field(default_factory=dict)
    standby: TaskIds = field(default_factory=dict)
    warmup: TaskIds = field(default_factory=dict)

    def is_empty(self) -> bool:
        """Whether there is no task of any kind."""
        return not (self.active or self.standby or self.warmup)

    def overlap_with(self, owned: OwnedTasks) -> bool:
        """Whether any of these tasks is in `owned`, with the same kind."""
        return (
            _overlaps(self.active, owned.active)
            or _overlaps(self.standby, owned.standby)
            or _overlaps(self.warmup, owned.warmup)
        )

    def are_subset_of(self, owned: OwnedTasks) -> bool:
        """Whether all of these tasks are in `owned`, with the same kind."""
        return (
            _is_subset(self.active, owned.active)
            and _is_subset(self.standby, owned.standby)
            and _is_subset(self.warmup, owned.warmup)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedTasks:
    """The current tasks of a member, by kind."""

    active: TaskEpochs = field(default_factory=dict)
    standby: TaskIds = field(default_factory=dict)
    warmup: TaskIds = field(default_factory=dict)

    def is_empty(self) -> bool:
        """Whether there is no task of any kind."""
        return not (self.active or self.standby or self.warmup)

    def assignment_epoch(self, subtopology: Subtopology, partition: int) -> int | None:
        """Return an active task's assignment epoch; None if it is not held."""
        return self.active.get(subtopology, {}).get(partition)

    def without_epochs(self) -> Tasks:
        """Return the same tasks without assignment epochs."""
        active = {name: epochs.keys() for name, epochs in self.active.items()}
        return Tasks(active=active, standby=self.standby, warmup=self.warmup)

    def copies(self) -> TaskIds:
        """Return the tasks that are not active: standby and warm-up tasks."""
        return {
            name: frozenset(self.standby.get(name, ())) | frozenset(self.warmup.get(name, ()))
            for name in self.standby.keys() | self.warmup.keys()
        }


NO_TASKS = Tasks()
NO_OWNED_TASKS = OwnedTasks()


def to_structs(struct: Callable[..., S], tasks: TaskIds | TaskEpochs) -> list[S]:
    """Return tasks as structs of a message or a record, with `subtopology_id` and `partitions`."""
    return [
        struct(subtopology_id=name, partitions=sorted(partitions))
        for name, partitions in sorted(tasks.items())
    ]


def _overlaps(tasks: TaskIds, owned: TaskIds | TaskEpochs) -> bool:
    return any(
        not partitions.isdisjoint(owned[name])
        for name, partitions in tasks.items()
        if name in owned
    )


def _is_subset(tasks: TaskIds, owned: TaskIds | TaskEpochs) -> bool:
    return all(partitions <= set(owned.get(name, ())) for name, partitions in tasks.items())
