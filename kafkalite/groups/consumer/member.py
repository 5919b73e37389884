"""A member of a consumer group: what it said of itself, and what it has been given.

The two halves are two records in the log and change independently, so they are two values here:
`MemberMetadata` (ConsumerGroupMemberMetadata) and `CurrentAssignment`
(ConsumerGroupCurrentMemberAssignment).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from kafkalite.groups.fencing import NEVER_REVOKED, Revocation

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""What a member sends instead of its epoch to join, to leave, and to leave and come back."""

OwnedPartitions = Mapping[bytes, Mapping[int, int]]
"""Topic id → partition index → the epoch at which it was assigned (KIP-1251); no topic is empty."""


class MemberState(IntEnum):
    """How far a member has come towards its target, numbered as in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It still holds partitions it must give up before it may go on."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members have not given up yet."""
    UNKNOWN = 127
    """A state some later version wrote."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        del value
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocolMember:
    """What a member that speaks the classic protocol brought along from its JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Name and metadata of each protocol it supports, the one it likes best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """What a member last said of itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    """Kept as it was sent; null and "" both mean that there is none."""
    server_assignor: str | None = None
    classic: ClassicProtocolMember | None = None
    """None for a member that speaks the consumer protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """What a member has been given, and the epochs it was given it at."""

    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: OwnedPartitions = field(default_factory=dict)
    pending_revocation: OwnedPartitions = field(default_factory=dict)
    revocation: Revocation = NEVER_REVOKED

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether there is nothing left to give or take."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Return the epoch a partition was assigned at; None when the member does not hold it."""
        for owned in (self.assigned, self.pending_revocation):
            if (epoch := owned.get(topic_id, {}).get(partition)) is not None:
                return epoch
        return None
