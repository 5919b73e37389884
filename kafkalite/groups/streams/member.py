"""A member of a streams group: what it said of itself, and which tasks it has been given.

The two halves are two records in the log and change independently, so they are two values here:
`MemberMetadata` (StreamsGroupMemberMetadata) and `CurrentTasks`
(StreamsGroupCurrentMemberAssignment).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.groups.fencing import NEVER_REVOKED, Revocation
from kafkalite.groups.streams.tasks import HOLDS_NOTHING, HeldTasks

if TYPE_CHECKING:
    from collections.abc import Mapping

JOIN_EPOCH = 0
STATIC_LEAVE_EPOCH = -2
"""What a member sends instead of its epoch to join, and to leave and come back; -1 is to leave."""

UNKNOWN_TOPOLOGY_EPOCH = -1


class MemberState(IntEnum):
    """How far a member has come towards its target, numbered as in the log."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    """It still does tasks it must give up before it may go on."""
    UNRELEASED_TASKS = 3
    """It waits for tasks that other processes have not given up yet."""
    UNKNOWN = 127
    """A state some later version wrote."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        del value
        return cls.UNKNOWN


class Endpoint(NamedTuple):
    """Where an application answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """What a member last said of itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = UNKNOWN_TOPOLOGY_EPOCH
    process_id: str = ""
    """The process it runs in; the members of one share state on disk."""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentTasks:
    """Which tasks a member has been given, and the epochs it has come to."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = HOLDS_NOTHING
    pending_revocation: HeldTasks = HOLDS_NOTHING
    revocation: Revocation = NEVER_REVOKED
    """When it last gave up active tasks, in the log ActiveTaskRevocationEpoch (KAFKA-19779)."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether there is nothing left to give or take."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def assignment_epoch(self, subtopology: str, partition: int) -> int | None:
        """Return the epoch an active task was assigned at; None when the member has it not."""
        epoch = self.assigned.assignment_epoch(subtopology, partition)
        if epoch is None:
            epoch = self.pending_revocation.assignment_epoch(subtopology, partition)
        return epoch
