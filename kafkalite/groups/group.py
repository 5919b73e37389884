"""Group: what offsets, listing and deletion ask of a group, whatever protocol it speaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.groups.offset import OffsetAndMetadata
    from kafkalite.groups.offsets import OffsetToCommit

GroupId: TypeAlias = str
MemberId: TypeAlias = str
Record: TypeAlias = CoordinatorRecord[object, object]


class GroupType(Enum):
    """The protocol a group speaks, by the name that ListGroups shows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class CommitClaim(NamedTuple):
    """Who says to be committing offsets, in the words of OffsetCommit and TxnOffsetCommit."""

    member_id: MemberId
    group_instance_id: str | None
    generation_id_or_member_epoch: int
    is_transactional: bool = False
    knows_member_epochs: bool = True
    """Whether the client's API version was written with member epochs in mind."""
    stale_member_epoch: ErrorCode = ErrorCode.STALE_MEMBER_EPOCH
    """What a client of that version is told when its member epoch is not the right one."""
    wishes: Sequence[OffsetToCommit] = ()
    """What is to be committed; a refusal looks at it, in order to explain itself."""

    @property
    def is_nobodys(self) -> bool:
        """Whether it names no member: a transaction of a producer that knows of no group's."""
        return (
            self.generation_id_or_member_epoch == -1
            and self.member_id == ""
            and self.group_instance_id is None
        )


PartitionCheck: TypeAlias = Callable[[str, bytes, int], None]
"""(topic, its id, partition) → nothing, or KafkaError when this partition's offset is refused.

One refused partition refuses the whole request (KIP-1251).
"""


@dataclass(frozen=True, slots=True)
class OffsetExpiry:
    """From when on an offset ages, for the groups whose offsets do age."""

    base_timestamp_ms: Callable[[OffsetAndMetadata], int]
    rule: str = "commit-time"
    """What the age is counted from, in a word for whoever asks why an offset has gone."""

    def is_expired(self, offset: OffsetAndMetadata, now_ms: int, retention_ms: int) -> bool:
        """Whether the offset has outlived its own expiry, or else the retention."""
        if offset.expire_timestamp_ms is not None:
            return now_ms >= offset.expire_timestamp_ms
        return now_ms - self.base_timestamp_ms(offset) >= retention_ms

    def name_for(self, offset: OffsetAndMetadata) -> str:
        """Return the rule that this offset goes by, in a word."""
        return self.rule if offset.expire_timestamp_ms is None else "own-retention"


class Group(Protocol):
    """A group as its neighbours see it; validators raise KafkaError and change nothing."""

    group_id: GroupId

    @property
    def group_type(self) -> GroupType:
        """The protocol the group speaks."""

    @property
    def protocol_type(self) -> str:
        """What ListGroups shows; "" while nobody has said."""

    def state_name(self) -> str:
        """Return the state's name as clients see it, such as "Stable"."""

    def is_empty(self) -> bool:
        """Whether the group has no members."""

    def validate_offset_commit(self, claim: CommitClaim) -> PartitionCheck | None:
        """Raise KafkaError unless the claim may commit; None: no need to check partitions."""

    def touch(self, claim: CommitClaim, now_ms: int) -> None:
        """Take an accepted commit as a sign of life, where the protocol does so."""

    def validate_offset_fetch(self, member_id: MemberId | None, member_epoch: int) -> None:
        """Raise KafkaError unless this member, or an observer (None, -1), may fetch offsets."""

    def validate_offset_delete(self) -> None:
        """Raise KafkaError unless offsets may be deleted; GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""

    def validate_delete(self) -> None:
        """Raise KafkaError unless the group may be deleted; NON_EMPTY_GROUP."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether offsets of this topic are in use, so that they neither expire nor go."""

    def offset_expiry(self) -> OffsetExpiry | None:
        """Return the rule offsets of this group age by; None: none of them ages now."""

    def tombstones(self) -> Sequence[Record]:
        """Return the records that delete the group, without its offsets, in Kafka's order."""
