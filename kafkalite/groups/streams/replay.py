"""Replay of the records of streams groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.groups.modern.replay import Decoders, GroupReplay
from kafkalite.groups.streams import streams_group_records as records
from kafkalite.groups.streams.descriptions import DescriptionEpochs
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.groups.streams.topology import topology_of
from kafkalite.protocol._generated.records.streams_group_topology import (
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.protocol._generated.records.streams_group_metadata import (
        StreamsGroupMetadataValue,
    )


def replayers(directory: GroupDirectory) -> Mapping[type, Callable[[Any, Any], None]]:
    """Return the replay function of each class of key."""
    replay = GroupReplay(
        directory, StreamsGroup, lambda group_id: StreamsGroup(group_id, directory)
    )
    return replay.replayers(
        records.TYPES,
        Decoders(records.member_metadata_of, records.target_tasks_of, records.current_tasks_of),
        _replay_metadata,
        {StreamsGroupTopologyKey: _set_topology},
    )


def _replay_metadata(group: StreamsGroup, value: StreamsGroupMetadataValue) -> None:
    group.replay_metadata(
        value.epoch,
        value.metadata_hash,
        value.validated_topology_epoch,
        {each.key: each.value for each in value.last_assignment_configs or ()},
        descriptions=DescriptionEpochs(
            value.stored_description_topology_epoch, value.failed_description_topology_epoch
        ),
    )


def _set_topology(
    group: StreamsGroup, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None
) -> None:
    del key
    group.replay_topology(None if value is None else topology_of(value))
