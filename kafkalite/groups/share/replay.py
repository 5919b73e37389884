"""Replay of the records of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.groups.modern.replay import Decoders, GroupReplay
from kafkalite.groups.share import share_group_records as records
from kafkalite.groups.share.group import ShareGroup
from kafkalite.protocol._generated.records.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.protocol._generated.records.share_group_metadata import ShareGroupMetadataValue


def replayers(directory: GroupDirectory) -> Mapping[type, Callable[[Any, Any], None]]:
    """Return the replay function of each class of key."""
    replay = GroupReplay(directory, ShareGroup, lambda group_id: ShareGroup(group_id, directory))
    return replay.replayers(
        records.TYPES,
        Decoders(records.member_of, records.target_assignment_of, records.current_assignment_of),
        _replay_epoch,
        {ShareGroupStatePartitionMetadataKey: _set_partitions},
    )


def _replay_epoch(group: ShareGroup, value: ShareGroupMetadataValue) -> None:
    group.replay_epoch(value.epoch, value.metadata_hash)


def _set_partitions(
    group: ShareGroup,
    key: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
) -> None:
    del key
    group.replay_partitions(None if value is None else records.partitions_of(value))
