"""GroupReplay: applies the records of one type of modern groups to the group directory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kafkalite.groups.group import Group
from kafkalite.groups.modern.group import FIRST_EPOCH, NEVER_ASSIGNED_MS
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId
    from kafkalite.groups.modern.record_types import RecordTypes


class GroupKey(Protocol):
    """The key of a record about a group."""

    group_id: GroupId


class MemberKey(Protocol):
    """The key of a record about a member."""

    group_id: GroupId
    member_id: MemberId


class TargetEpoch(Protocol):
    """The value of a target epoch record."""

    assignment_epoch: int
    assignment_timestamp: int


class GroupWithTarget(Group, Protocol):
    """A group with a target assignment."""

    def replay_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Set the target epoch, and the time when it was computed."""


G = TypeVar("G", bound=GroupWithTarget)
K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class Decoders(NamedTuple):
    """The functions that decode the values of a group type's member records."""

    member: Callable[[Any], object]
    target: Callable[[Any], object]
    current: Callable[[Any], object]


class GroupReplay(Generic[G]):
    """Applies records of one group type.

    In a compacted log, a tombstone may be the only record of a group, and the records of a member
    may be in any order. So each record is applied by itself, and the first one creates the group.
    """

    __slots__ = ("_directory", "_group_class", "_make_group")

    def __init__(
        self, directory: GroupDirectory, group_class: type[G], make: Callable[[GroupId], G]
    ) -> None:
        self._directory = directory
        self._group_class = group_class
        self._make_group = make

    def replayers(
        self,
        types: RecordTypes,
        decoders: Decoders,
        replay_epoch: Callable[[G, Any], None],
        type_specific: Mapping[type, Callable[[G, Any, Any], None]],
    ) -> Mapping[type, Callable[[Any, Any], None]]:
        """Return, for each class of record keys, the function that applies a key and its value.

        `replay_epoch` applies a group epoch. `type_specific` applies the records that only this
        group type has.
        """
        group_class: Any = self._group_class
        replay_member = self.replay_member
        return {
            types.group_key: partial(self.replay_group, replay_epoch),
            types.member_key: partial(
                replay_member, decoders.member, group_class.replay_member_metadata
            ),
            types.target_epoch_key: self.replay_target_epoch,
            types.target_member_key: partial(
                replay_member, decoders.target, group_class.replay_target
            ),
            types.current_key: partial(replay_member, decoders.current, group_class.replay_current),
            **{
                key: partial(self.replay_type_specific, apply)
                for key, apply in type_specific.items()
            },
        }

    def replay_group(
        self, replay_epoch: Callable[[G, V], None], key: GroupKey, value: V | None
    ) -> None:
        """Apply a group epoch; the tombstone deletes the group if it still has this type."""
        group = self._find_or_create(key.group_id, create=value is not None)
        if group is None:
            return
        if value is None:
            del self._directory.groups[key.group_id]
        else:
            replay_epoch(group, value)

    def replay_member(
        self,
        decode: Callable[[V], D],
        apply: Callable[[G, MemberId, D | None], None],
        key: MemberKey,
        value: V | None,
    ) -> None:
        """Apply a record about a member."""
        group = self._find_or_create(key.group_id, create=value is not None)
        if group is not None:
            apply(group, key.member_id, None if value is None else decode(value))

    def replay_target_epoch(self, key: GroupKey, value: TargetEpoch | None) -> None:
        """Apply a target epoch."""
        group = self._find_or_create(key.group_id, create=value is not None)
        if group is None:
            return
        if value is None:
            # Here an earlier group with this id was deleted. Compaction may have removed the
            # tombstone of the group itself, because a later group has a record with the same key.
            group.replay_target_epoch(FIRST_EPOCH, NEVER_ASSIGNED_MS)
        else:
            group.replay_target_epoch(value.assignment_epoch, value.assignment_timestamp)

    def replay_type_specific(
        self, apply: Callable[[G, K, V | None], None], key: K, value: V | None
    ) -> None:
        """Apply a record that only this group type has."""
        group_id: GroupId = key.group_id  # type: ignore[attr-defined]
        group = self._find_or_create(group_id, create=value is not None)
        if group is not None:
            apply(group, key, value)

    def _find_or_create(self, group_id: GroupId, *, create: bool) -> G | None:
        """Return the group; None if no group of this type exists and `create` is not set."""
        group = self._directory.groups.get(group_id)
        if isinstance(group, self._group_class):
            return group
        if not create:
            return None
        created = self._directory.groups[group_id] = self._make_group(group_id)
        return created
