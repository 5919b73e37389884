"""Intents of share groups for the share coordinator.

Machines return them in `result.intents`. The outbox carries them out at least once, and then
`ShareGroups.record_initialized_state` is called with the `InitializeShareState`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.groups.group import GroupId

UNKNOWN_START_OFFSET = -1
"""The leader of the share partition determines the offset by `share.auto.offset.reset`."""


class SharePartitionInitialization(NamedTuple):
    """The initialization of the state of one share partition."""

    topic_id: bytes
    partition: int
    state_epoch: int
    """The group epoch; it replaces state of a lower epoch."""
    start_offset: int = UNKNOWN_START_OFFSET


class InitializeShareState(NamedTuple):
    """Initialize the share state of these partitions, so that they can be assigned."""

    group_id: GroupId
    partitions: tuple[SharePartitionInitialization, ...]
