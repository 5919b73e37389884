"""A member of a streams group: its metadata and its current tasks.

They are two records in the log and change independently: `MemberMetadata`
(StreamsGroupMemberMetadata) and `CurrentTasks` (StreamsGroupCurrentMemberAssignment).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkalite.groups.modern.offset_commit_fencing import NEVER_REVOKED, Revocation
from kafkalite.groups.streams.tasks import NO_OWNED_TASKS, OwnedTasks
from kafkalite.ports.int_enums import IntEnum
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN_TOPOLOGY_EPOCH = -1


class MemberState(IntEnum):
    """The reconciliation state of a member, numbered as in the log."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    """The member must revoke tasks first."""
    UNRELEASED_TASKS = 3
    """The member waits for tasks that other processes have not revoked yet."""
    UNKNOWN = 127
    """A state written by a later version."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        del value
        return cls.UNKNOWN


class Endpoint(NamedTuple):
    """The address for interactive queries to an application."""

    host: str
    port: int


class TaskOffsets(NamedTuple):
    """The offsets of tasks that a member has reported, by subtopology and partition."""

    offsets: Mapping[str, Mapping[int, int]] = MappingProxyType({})
    """The sum of the offsets in all changelogs of a task."""
    end_offsets: Mapping[str, Mapping[int, int]] = MappingProxyType({})
    """The sum of the end offsets of all changelogs of a task."""


NO_TASK_OFFSETS = TaskOffsets()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """The metadata from a member's requests."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = UNKNOWN_TOPOLOGY_EPOCH
    process_id: str = ""
    """The process it runs in; members of one process share state on disk."""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentTasks:
    """A member's epochs and its tasks."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: OwnedTasks = NO_OWNED_TASKS
    pending_revocation: OwnedTasks = NO_OWNED_TASKS
    revocation: Revocation = NEVER_REVOKED
    """The last revocation of active tasks; in the log ActiveTaskRevocationEpoch (KAFKA-19779)."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member has its whole target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def assignment_epoch(self, subtopology: str, partition: int) -> int | None:
        """Return an active task's assignment epoch; None if the member does not own it."""
        epoch = self.assigned.assignment_epoch(subtopology, partition)
        if epoch is None:
            epoch = self.pending_revocation.assignment_epoch(subtopology, partition)
        return epoch
