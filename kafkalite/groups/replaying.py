"""Replaying: what the records of all groups have in common whose members follow an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from kafkalite.groups.group import Group

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId

FIRST_EPOCH: Final = 1
"""Where a new group stands before anybody has said anything of consequence."""

NEVER_ASSIGNED_MS: Final = 0
"""When the assignor ran that has not run yet."""


class EpochGroup(Group, Protocol):
    """A group with a target assignment."""

    def replay_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Say for which epoch the assignor has run, and when."""


class TargetKey(Protocol):
    """The key of a group's target assignment metadata."""

    group_id: GroupId


class TargetValue(Protocol):
    """For which epoch the assignor ran, and when."""

    assignment_epoch: int
    assignment_timestamp: int


G = TypeVar("G", bound=EpochGroup)


class GroupReplay(Generic[G]):
    """Makes records of one kind of group true in a directory of groups.

    A compacted log may show a tombstone whose group it no longer shows, and a member's parts in
    any order: each record stands for itself, and the group comes into being with the first.
    """

    __slots__ = ("_directory", "_kind", "_make")

    def __init__(
        self, directory: GroupDirectory, kind: type[G], make: Callable[[GroupId], G]
    ) -> None:
        self._directory = directory
        self._kind = kind
        self._make = make

    def replay_target_metadata(self, key: TargetKey, value: TargetValue | None) -> None:
        """Say for which epoch the assignor has run."""
        group = self._group(key.group_id, exists=value is not None)
        if group is None:
            return
        if value is None:
            # The group's own tombstone may be folded away by a later life under the same id, which
            # then begins here.
            group.replay_target_epoch(FIRST_EPOCH, NEVER_ASSIGNED_MS)
        else:
            group.replay_target_epoch(value.assignment_epoch, value.assignment_timestamp)

    def _group(self, group_id: GroupId, *, exists: bool) -> G | None:
        """Return the group, made if a record says that it exists; None: nothing to bury."""
        group = self._directory.groups.get(group_id)
        if isinstance(group, self._kind):
            return group
        if not exists:
            return None
        made = self._directory.groups[group_id] = self._make(group_id)
        return made

    def replay_end(self, group_id: GroupId) -> None:
        """Let the tombstone of a group end it, unless it is of another kind by now."""
        if self._group(group_id, exists=False) is not None:
            del self._directory.groups[group_id]
