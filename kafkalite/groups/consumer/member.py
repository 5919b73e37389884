"""A member of a consumer group: its metadata and its current assignment.

They are two records in the log and change independently: `MemberMetadata`
(ConsumerGroupMemberMetadata) and `CurrentAssignment` (ConsumerGroupCurrentMemberAssignment).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkalite.groups.modern.offset_commit_fencing import NEVER_REVOKED, Revocation
from kafkalite.ports.int_enums import IntEnum

OwnedPartitions = Mapping[bytes, Mapping[int, int]]
"""Topic id → partition index → the epoch of its assignment (KIP-1251); no topic is without
partitions."""


class MemberState(IntEnum):
    """The reconciliation state of a member, numbered as in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member must revoke partitions first."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members have not revoked yet."""
    UNKNOWN = 127
    """A state written by a later version."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        del value
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocolMember:
    """Fields of the JoinGroup of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Name and metadata of each supported protocol, in order of preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """The metadata from a member's requests."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    """The expression in the request; both null and "" mean that there is none."""
    server_assignor: str | None = None
    classic: ClassicProtocolMember | None = None
    """None for a member that uses the consumer protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """A member's epochs and its partitions with their assignment epochs."""

    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: OwnedPartitions = field(default_factory=dict)
    pending_revocation: OwnedPartitions = field(default_factory=dict)
    revocation: Revocation = NEVER_REVOKED
    is_join_confirmed: bool = False
    """Whether it has sent a heartbeat at its epoch since its last join; see `incarnations`."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member has its whole target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Return a partition's assignment epoch; None if the member does not own it."""
        for owned in (self.assigned, self.pending_revocation):
            if (epoch := owned.get(topic_id, {}).get(partition)) is not None:
                return epoch
        return None
