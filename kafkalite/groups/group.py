"""Group: the interface of all types of groups to offsets, listing and deletion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.groups.offsets import OffsetToCommit

GroupId: TypeAlias = str
MemberId: TypeAlias = str
Record: TypeAlias = CoordinatorRecord[object, object]


class OffsetAndMetadata(NamedTuple):
    """A committed offset of one partition."""

    offset: int
    commit_timestamp_ms: int
    leader_epoch: int = -1
    metadata: str = ""
    expire_timestamp_ms: int | None = None
    """Expiry set by the client; only OffsetCommit v2 to v4 can set one."""
    topic_id: bytes = ZERO_UUID
    incarnation_epoch: int = -1
    """The partition epoch of KIP-232 in the commit; -1 if it had none."""


class GroupType(Enum):
    """The type of a group, by the name that ListGroups shows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class CommitClaim(NamedTuple):
    """The member that an OffsetCommit or TxnOffsetCommit names as its sender."""

    member_id: MemberId
    group_instance_id: str | None
    generation_id_or_member_epoch: int
    is_transactional: bool = False
    supports_member_epochs: bool = True
    """Whether the request's version supports member epochs."""
    stale_member_epoch_code: ErrorCode = ErrorCode.STALE_MEMBER_EPOCH
    """The error code for a wrong member epoch in the request's version."""
    offsets: Sequence[OffsetToCommit] = ()
    """The offsets to commit; used only to explain a refusal."""

    @property
    def names_no_member(self) -> bool:
        """Whether the claim names no member, as from transactional producers without a group."""
        return (
            self.generation_id_or_member_epoch == -1
            and self.member_id == ""
            and self.group_instance_id is None
        )


PartitionCheck: TypeAlias = Callable[[str, bytes, int], None]
"""(topic, topic id, partition) → None; raises KafkaError if this partition's offset is refused.

One refused partition refuses the whole request (KIP-1251).
"""


@dataclass(frozen=True, slots=True)
class OffsetExpiry:
    """The time from which the age of a group's offsets is counted."""

    base_timestamp_ms: Callable[[OffsetAndMetadata], int]
    rule: str = "commit-time"
    """The name of the rule in explain events."""

    def is_expired(self, offset: OffsetAndMetadata, now_ms: int, retention_ms: int) -> bool:
        """Whether the offset expired, by its own expiry if it has one, else by the retention."""
        if offset.expire_timestamp_ms is not None:
            return now_ms >= offset.expire_timestamp_ms
        return now_ms - self.base_timestamp_ms(offset) >= retention_ms

    def rule_for(self, offset: OffsetAndMetadata) -> str:
        """Return the name of the rule that applies to this offset."""
        return self.rule if offset.expire_timestamp_ms is None else "own-retention"


class Group(Protocol):
    """A group of any type; validators raise KafkaError and change nothing."""

    group_id: GroupId

    @property
    def group_type(self) -> GroupType:
        """The type of the group."""

    @property
    def protocol_type(self) -> str:
        """The protocol type that ListGroups shows; "" while it is not known."""

    def state_name(self) -> str:
        """Return the state's name as clients see it, such as "Stable"."""

    def is_empty(self) -> bool:
        """Whether the group has no members."""

    def validate_offset_commit(self, claim: CommitClaim) -> PartitionCheck | None:
        """Return the check for each partition, None if none is needed; raises KafkaError."""

    def extend_session(self, claim: CommitClaim, now_ms: int) -> None:
        """Extend the member's session after an accepted commit, if the protocol does so."""

    def validate_offset_fetch(self, member_id: MemberId | None, member_epoch: int) -> None:
        """Raise KafkaError unless this member may fetch offsets; (None, -1) names no member."""

    def validate_offset_delete(self) -> None:
        """Raise GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP unless offsets may be deleted."""

    def validate_delete(self) -> None:
        """Raise NON_EMPTY_GROUP unless the group may be deleted."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the group subscribes to the topic, so its offsets must not be deleted."""

    def offset_expiry(self) -> OffsetExpiry | None:
        """Return the expiry rule for the group's offsets; None if they cannot expire now."""

    def tombstones(self) -> Sequence[Record]:
        """Return the tombstones of the group, except those of its offsets, in Kafka's order."""


def group_not_found_error(
    group_id: GroupId,
    group_type: GroupType,
    *,
    exists: bool,
    facts: Mapping[str, object] | None = None,
) -> KafkaError:
    """Return GROUP_ID_NOT_FOUND; `exists` means that the group has another type."""
    text = ErrorText.GROUP_HAS_ANOTHER_TYPE if exists else ErrorText.GROUP_NOT_FOUND
    message = text.format(group_id=group_id, group_type=group_type.value)
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message, facts)
