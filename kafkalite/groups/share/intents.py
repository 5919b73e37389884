"""What a share group wants done where the state of share partitions is kept.

Machines name these in `result.intents`; whoever stands above both coordinators carries them out,
at least once, and brings `InitializeShareState` back to `ShareGroups.state_initialized`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafkalite.groups.group import GroupId

UNKNOWN_START_OFFSET = -1
"""Whoever first leads the share partition is to find the start by `share.auto.offset.reset`."""


class ShareStart(NamedTuple):
    """One share partition that is to come into being, and where reading it starts."""

    topic_id: bytes
    partition: int
    state_epoch: int
    """The group's epoch; state of a lesser epoch gives way to it."""
    start_offset: int = UNKNOWN_START_OFFSET


class InitializeShareState(NamedTuple):
    """Give a share group a state for these partitions, so that they may be assigned."""

    group_id: GroupId
    partitions: tuple[ShareStart, ...]
