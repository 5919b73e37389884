"""Replay of the records of consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.groups.consumer import consumer_group_records as records
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.regex import ResolvedRegex
from kafkalite.groups.modern.replay import Decoders, GroupReplay
from kafkalite.protocol._generated.records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from kafkalite.protocol._generated.records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.protocol._generated.records.consumer_group_metadata import (
        ConsumerGroupMetadataValue,
    )


def replayers(directory: GroupDirectory) -> Mapping[type, Callable[[Any, Any], None]]:
    """Return the replay function of each class of key."""
    replay = GroupReplay(
        directory, ConsumerGroup, lambda group_id: ConsumerGroup(group_id, directory)
    )
    return replay.replayers(
        records.TYPES,
        Decoders(
            records.member_metadata_of, records.target_assignment_of, records.current_assignment_of
        ),
        _replay_epoch,
        {
            ConsumerGroupPartitionMetadataKey: _set_partition_metadata,
            ConsumerGroupRegularExpressionKey: _set_regex,
        },
    )


def _replay_epoch(group: ConsumerGroup, value: ConsumerGroupMetadataValue) -> None:
    group.replay_epoch(value.epoch, value.metadata_hash)


def _set_partition_metadata(
    group: ConsumerGroup,
    key: ConsumerGroupPartitionMetadataKey,
    value: ConsumerGroupPartitionMetadataValue | None,
) -> None:
    del key
    group.replay_partition_metadata(exists=value is not None)


def _set_regex(
    group: ConsumerGroup,
    key: ConsumerGroupRegularExpressionKey,
    value: ConsumerGroupRegularExpressionValue | None,
) -> None:
    resolved = None
    if value is not None:
        resolved = ResolvedRegex(
            topics=frozenset(value.topics), version=value.version, timestamp_ms=value.timestamp
        )
    group.replay_regex(key.regular_expression, resolved)
