"""ClassicGroup: the rules of a classic group towards offsets, listing and deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.classic.membership import CONSUMER_PROTOCOL_TYPE, Membership
from kafkalite.groups.classic.refusals import (
    in_rebalance,
    non_empty,
    other_generation,
    unknown_member,
)
from kafkalite.groups.classic.states import ClassicState
from kafkalite.groups.group import GroupType, OffsetExpiry
from kafkalite.groups.records import group_metadata_tombstone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.groups.group import CommitClaim, GroupId, MemberId, PartitionCheck, Record
    from kafkalite.protocol.records.group_metadata import GroupMetadataValue

__all__ = ["CONSUMER_PROTOCOL_TYPE", "ClassicGroup"]

_BY_COMMIT = OffsetExpiry(lambda offset: offset.commit_timestamp_ms)


class ClassicGroup:
    """A group that rebalances by JoinGroup and SyncGroup, or that nobody joins.

    `recorded` is hard state: what the log says the group settled on, None for a *simple* group
    that is only known by its offsets. `soft` is the membership in between.
    """

    __slots__ = ("group_id", "recorded", "soft")

    group_type = GroupType.CLASSIC

    def __init__(self, group_id: GroupId) -> None:
        self.group_id = group_id
        self.recorded: GroupMetadataValue | None = None
        self.soft = Membership()

    @property
    def protocol_type(self) -> str:
        """What ListGroups shows; "" while nobody has said."""
        return self.soft.protocol_type or ""

    def state_name(self) -> str:
        """Return the state's name as clients see it."""
        return self.soft.state.value

    def is_empty(self) -> bool:
        """Whether the group is in state Empty."""
        return self.soft.state is ClassicState.EMPTY

    def validate_offset_commit(self, claim: CommitClaim) -> PartitionCheck | None:
        """Raise KafkaError unless the claim may commit; partitions are never checked.

        An Empty group takes any commit that claims no generation; others only their members'.
        """
        soft = self.soft
        generation_id = claim.generation_id_or_member_epoch
        if generation_id < 0 and soft.state is ClassicState.EMPTY:
            return None
        action = "offset commit"
        if generation_id >= 0 or claim.member_id or claim.group_instance_id is not None:
            soft.member_of(claim.member_id, claim.group_instance_id, action)
            if generation_id != soft.generation_id:
                raise other_generation(soft, action, claim.member_id, generation_id)
        elif not claim.is_transactional:
            raise unknown_member(soft, action, "")
        if not claim.is_transactional and soft.state is ClassicState.COMPLETING_REBALANCE:
            raise in_rebalance(soft, action, claim.member_id)
        return None

    def touch(self, claim: CommitClaim, now_ms: int) -> None:
        """Let a member's plain commit count as a heartbeat.

        The timer that is set for the member stands: it will find the deadline moved.
        """
        member = self.soft.members.get(claim.member_id)
        if member is not None and not claim.is_transactional:
            member.deadline_ms = max(member.deadline_ms, now_ms + member.session_timeout_ms)

    def validate_offset_fetch(self, member_id: MemberId | None, member_epoch: int) -> None:
        """Let anybody fetch: classic members do not say who they are."""

    def validate_offset_delete(self) -> None:
        """Raise NON_EMPTY_GROUP when there are members whose topics we cannot tell."""
        if not self.is_empty() and self.soft.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise non_empty(self.soft, "deletion of offsets")

    def validate_delete(self) -> None:
        """Raise NON_EMPTY_GROUP unless the group is Empty."""
        if not self.is_empty():
            raise non_empty(self.soft, "deletion of the group")

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads this topic; all of them, if that cannot be told."""
        topics = self.soft.subscribed_topics()
        if topics is None:
            return self.soft.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in topics

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return what the members of a `consumer` group read, None when that cannot be told."""
        return self.soft.subscribed_topics()

    def offset_expiry(self) -> OffsetExpiry | None:
        """Return the rule of KIP-211: an Empty group's offsets age from when it became so.

        A Stable `consumer` group's age from their commit, where nobody reads the topic; so do
        those of a simple group. In the middle of a rebalance nothing ages.
        """
        soft = self.soft
        if soft.protocol_type is None:
            return _BY_COMMIT
        if soft.state is ClassicState.EMPTY:
            since_ms = soft.state_timestamp_ms
            if since_ms is None:
                # Recorded before Kafka 2.1, whose records do not say since when.
                return _BY_COMMIT
            return OffsetExpiry(lambda _: since_ms, "empty-since")
        if soft.state is ClassicState.STABLE and self.subscribed_topics() is not None:
            return _BY_COMMIT
        return None

    def tombstones(self) -> Sequence[Record]:
        """Return the record that deletes the group; Kafka writes it for a simple group too."""
        return [group_metadata_tombstone(self.group_id)]
