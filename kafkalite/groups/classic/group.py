"""ClassicGroup: a classic group with its checks of commits, fetches and deletions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.classic.membership import CONSUMER_PROTOCOL_TYPE, ClassicState, Membership
from kafkalite.groups.classic.refusals import (
    illegal_generation_error,
    non_empty_group_error,
    rebalance_in_progress_error,
    unknown_member_error,
)
from kafkalite.groups.group import GroupType, OffsetExpiry
from kafkalite.groups.offsets_topic_records import group_metadata_tombstone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.groups.group import CommitClaim, GroupId, MemberId, PartitionCheck, Record
    from kafkalite.protocol._generated.records.group_metadata import GroupMetadataValue

__all__ = ["CONSUMER_PROTOCOL_TYPE", "ClassicGroup"]

_BY_COMMIT = OffsetExpiry(lambda offset: offset.commit_timestamp_ms)


class ClassicGroup:
    """A group that rebalances by JoinGroup and SyncGroup, or a simple group without members.

    `recorded` is hard state: the latest GroupMetadata record, None for a *simple* group, which has
    only offsets. `soft` is the membership since that record.
    """

    __slots__ = ("group_id", "recorded", "soft")

    group_type = GroupType.CLASSIC

    def __init__(self, group_id: GroupId) -> None:
        self.group_id = group_id
        self.recorded: GroupMetadataValue | None = None
        self.soft = Membership()

    @property
    def protocol_type(self) -> str:
        """The protocol type that ListGroups shows; "" while it is not known."""
        return self.soft.protocol_type or ""

    def state_name(self) -> str:
        """Return the state's name as clients see it."""
        return self.soft.state.value

    def is_empty(self) -> bool:
        """Whether the group is in state Empty."""
        return self.soft.state is ClassicState.EMPTY

    def validate_offset_commit(self, claim: CommitClaim) -> PartitionCheck | None:
        """Raise KafkaError unless the claim may commit; return None, as no partition is checked.

        An Empty group accepts all commits without a generation. Other groups accept only commits
        of their members.
        """
        soft = self.soft
        generation_id = claim.generation_id_or_member_epoch
        if generation_id < 0 and soft.state is ClassicState.EMPTY:
            return None
        action = "offset commit"
        if generation_id >= 0 or claim.member_id or claim.group_instance_id is not None:
            soft.find_member(claim.member_id, claim.group_instance_id, action)
            if generation_id != soft.generation_id:
                raise illegal_generation_error(soft, action, claim.member_id, generation_id)
        elif not claim.is_transactional:
            raise unknown_member_error(soft, action, "")
        if not claim.is_transactional and soft.state is ClassicState.COMPLETING_REBALANCE:
            raise rebalance_in_progress_error(soft, action, claim.member_id)
        return None

    def extend_session(self, claim: CommitClaim, now_ms: int) -> None:
        """Extend the member's session after a plain commit, as after a heartbeat.

        The member's timer is not changed: when it expires, the new deadline is checked.
        """
        member = self.soft.members.get(claim.member_id)
        if member is not None and not claim.is_transactional:
            member.deadline_ms = max(member.deadline_ms, now_ms + member.session_timeout_ms)

    def validate_offset_fetch(self, member_id: MemberId | None, member_epoch: int) -> None:
        """Accept the request: OffsetFetch has no member id in classic groups."""

    def validate_offset_delete(self) -> None:
        """Raise NON_EMPTY_GROUP if there are members and the protocol type is not "consumer"."""
        if not self.is_empty() and self.soft.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise non_empty_group_error(self.soft, "deletion of offsets")

    def validate_delete(self) -> None:
        """Raise NON_EMPTY_GROUP unless the group is Empty."""
        if not self.is_empty():
            raise non_empty_group_error(self.soft, "deletion of the group")

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to this topic.

        If the topics of a group of type "consumer" are unknown, all topics count as subscribed.
        """
        topics = self.soft.subscribed_topics()
        if topics is None:
            return self.soft.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in topics

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics of a group of type "consumer", None if they are unknown."""
        return self.soft.subscribed_topics()

    def offset_expiry(self) -> OffsetExpiry | None:
        """Return the rule by which committed offsets expire (KIP-211), None if no offset expires.

        Offsets of an Empty group expire after the group became Empty. In a Stable group of type
        "consumer", offsets of topics without a subscriber expire after their commit. All offsets of
        a simple group expire after their commit as well. During a rebalance no offsets expire.
        """
        soft = self.soft
        if soft.protocol_type is None:
            return _BY_COMMIT
        if soft.state is ClassicState.EMPTY:
            since_ms = soft.state_timestamp_ms
            if since_ms is None:
                # Records of Kafka before 2.1 have no such timestamp.
                return _BY_COMMIT
            return OffsetExpiry(lambda _: since_ms, "empty-since")
        if soft.state is ClassicState.STABLE and self.subscribed_topics() is not None:
            return _BY_COMMIT
        return None

    def tombstones(self) -> Sequence[Record]:
        """Return the record that deletes the group; Kafka writes it for a simple group too."""
        return [group_metadata_tombstone(self.group_id)]
