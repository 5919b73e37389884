"""The reasons why a broker does not have the records at an offset (OFFSET_OUT_OF_RANGE).

The error alone does not say whether the offset is wrong. The broker may be a former leader with a
shorter log, the log may have been truncated, the topic may have been created again, or retention
may have deleted the records. Only the last reason justifies a reset of the offset.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.client.epochs import NO_EPOCH, OffsetAndEpochs

if TYPE_CHECKING:
    from kafkalite.client.cluster_metadata import PartitionMetadata


class Reason(Enum):
    """A reason for OFFSET_OUT_OF_RANGE that the metadata shows."""

    STALE_LEADER = "the broker is not the leader any more"
    NEW_PARTITION = "the topic was deleted and created again"
    UNKNOWN = "the metadata shows no reason"


class EpochEnd(NamedTuple):
    """The largest leader epoch of a log up to a requested one, and its end; -1 if unknown."""

    leader_epoch: int
    end_offset: int


def has_other_partition_epoch(position: OffsetAndEpochs, partition_epoch: int) -> bool:
    """Return whether an offset belongs to another partition than that with this partition epoch.

    Returns False if one of the partition epochs is unknown.
    """
    return (
        NO_EPOCH not in (position.partition_epoch, partition_epoch)
        and position.partition_epoch != partition_epoch
    )


def reason_in_metadata(
    position: OffsetAndEpochs, used: PartitionMetadata, newest: PartitionMetadata | None
) -> Reason:
    """Return why the leader in the metadata `used` may have refused a position.

    `newest` is the newest metadata of all brokers; None if the partition is gone.
    """
    if newest is None:
        return Reason.STALE_LEADER
    if has_other_partition_epoch(position, newest.partition_epoch):
        return Reason.NEW_PARTITION
    if used.is_older_than(newest):
        return Reason.STALE_LEADER
    return Reason.UNKNOWN


def is_truncated(position: OffsetAndEpochs, end: EpochEnd) -> bool:
    """Return whether the log lost records below a position; `end` is the end of its leader epoch.

    Returns True as well if the log does not have any records up to that epoch.
    """
    return NO_EPOCH in end or end.end_offset < position.offset


def divergent_offset(position: OffsetAndEpochs, end: EpochEnd) -> OffsetAndEpochs | None:
    """Return the first offset of a truncated log that differs; None if it is unknown."""
    if NO_EPOCH in end:
        return None
    return OffsetAndEpochs(end.end_offset, end.leader_epoch, position.partition_epoch)
