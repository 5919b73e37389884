"""Replay: each kind of record of a streams group, and what it makes true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.groups.replaying import GroupReplay
from kafkalite.groups.streams import records
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.groups.streams.topology import topology_of
from kafkalite.protocol.records.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from kafkalite.protocol.records.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from kafkalite.protocol.records.streams_group_metadata import (
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from kafkalite.protocol.records.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
)
from kafkalite.protocol.records.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from kafkalite.protocol.records.streams_group_topology import (
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.groups.directory import GroupDirectory


class StreamsGroupReplay(GroupReplay[StreamsGroup]):
    """Makes records of streams groups true in a directory of groups."""

    __slots__ = ()

    def __init__(self, directory: GroupDirectory) -> None:
        super().__init__(
            directory, StreamsGroup, lambda group_id: StreamsGroup(group_id, directory)
        )

    def replayers(self) -> Mapping[type, Callable[[Any, Any], None]]:
        """Return what to call for each class of key."""
        return {
            StreamsGroupMetadataKey: self.replay_metadata,
            StreamsGroupTopologyKey: self.replay_topology,
            StreamsGroupMemberMetadataKey: self.replay_member_metadata,
            StreamsGroupTargetAssignmentMetadataKey: self.replay_target_metadata,
            StreamsGroupTargetAssignmentMemberKey: self.replay_target_member,
            StreamsGroupCurrentMemberAssignmentKey: self.replay_current_assignment,
        }

    def replay_metadata(
        self, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None
    ) -> None:
        """Move the group to an epoch; the tombstone ends it."""
        if value is None:
            self.replay_end(key.group_id)
        elif (group := self._group(key.group_id, exists=True)) is not None:
            group.replay_metadata(
                value.epoch,
                value.metadata_hash,
                value.validated_topology_epoch,
                {each.key: each.value for each in value.last_assignment_configs or ()},
            )

    def replay_topology(
        self, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None
    ) -> None:
        """Say what the application looks like."""
        if (group := self._group(key.group_id, exists=value is not None)) is not None:
            group.replay_topology(None if value is None else topology_of(value))

    def replay_member_metadata(
        self, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None
    ) -> None:
        """Make what a member says of itself true."""
        if (group := self._group(key.group_id, exists=value is not None)) is not None:
            group.replay_member_metadata(
                key.member_id, None if value is None else records.member_metadata_of(value)
            )

    def replay_target_member(
        self,
        key: StreamsGroupTargetAssignmentMemberKey,
        value: StreamsGroupTargetAssignmentMemberValue | None,
    ) -> None:
        """Say which tasks a member should have."""
        if (group := self._group(key.group_id, exists=value is not None)) is not None:
            group.replay_target(
                key.member_id, None if value is None else records.target_tasks_of(value)
            )

    def replay_current_assignment(
        self,
        key: StreamsGroupCurrentMemberAssignmentKey,
        value: StreamsGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        """Say which tasks a member has."""
        if (group := self._group(key.group_id, exists=value is not None)) is not None:
            group.replay_current(
                key.member_id, None if value is None else records.current_tasks_of(value)
            )
