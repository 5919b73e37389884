"""ConsumerGroup: the hard state of one consumer group (KIP-848), changed only by replay.

Epochs never decrease, and assignment epoch ≤ member epoch ≤ target epoch ≤ group epoch. The group
epoch is raised when subscriptions, members or topics change. The target epoch is raised when the
assignor has run. The member epoch is raised when the member has nothing left to revoke.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from kafkalite.groups.assignors.contract import Assignment
from kafkalite.groups.consumer import consumer_group_records as records
from kafkalite.groups.consumer import offset_validation
from kafkalite.groups.consumer.member import CurrentAssignment, MemberMetadata
from kafkalite.groups.consumer.settings import ConsumerSettings
from kafkalite.groups.group import GroupType
from kafkalite.groups.modern.group import ModernGroup, ModernSoftState, reconciliation_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.consumer.member import OwnedPartitions
    from kafkalite.groups.consumer.regex import ResolvedRegex
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import (
        CommitClaim,
        GroupId,
        MemberId,
        PartitionCheck,
        Record,
    )
    from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatResponse,
    )


_Owners: TypeAlias = "dict[bytes, dict[int, MemberId]]"


class ConsumerSoftState(ModernSoftState[ConsumerSettings]):
    """State of a group that is not in the log and is lost when the shard is reloaded."""

    __slots__ = ("answers", "owners")

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[MemberId, ConsumerGroupHeartbeatResponse] = {}
        """Cached responses to steady heartbeats."""
        self.owners: _Owners | None = None
        """Topic id → partition → owner; computed from `current` on demand."""


class ConsumerGroup(ModernGroup[MemberMetadata, CurrentAssignment, Assignment]):
    """A consumer group and its members."""

    __slots__ = (
        "_subscribed", "has_partition_metadata", "regex_subscribers", "resolved_regexes", "soft",
        "static_members",
    )  # fmt: skip

    group_type = GroupType.CONSUMER
    protocol_type = "consumer"

    def __init__(self, group_id: GroupId, directory: GroupDirectory | None = None) -> None:
        super().__init__(group_id, directory)
        self.resolved_regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """Whether the log still has a ConsumerGroupPartitionMetadata record."""
        self.static_members: dict[str, MemberId] = {}
        """Instance id → current member id; computed from `members`."""
        self.regex_subscribers: Counter[str] = Counter()
        """Regular expression → number of subscribers; computed from `members`."""
        self._subscribed: frozenset[str] | None = None
        """Cached result of `subscribed_topics`; None after a change."""
        self.soft = ConsumerSoftState()

    # The interface `Group`.

    def state_name(self) -> str:
        """Return the state's name as clients see it."""
        return reconciliation_state(self)

    def validate_offset_commit(self, claim: CommitClaim) -> PartitionCheck | None:
        """Return the check for each partition, None if none is needed; raises KafkaError."""
        return offset_validation.validate_offset_commit(self, claim)

    def validate_offset_fetch(self, member_id: MemberId | None, member_epoch: int) -> None:
        """Raise KafkaError unless the epoch is the member's, or the request names no member."""
        offset_validation.validate_offset_fetch(self, member_id, member_epoch)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member subscribes to the topic, by name or by regular expression."""
        if self._subscribed is None:
            self._subscribed = self.subscribed_topics()
        return topic in self._subscribed

    def tombstones(self, replacements: Mapping[MemberId, MemberId] | None = None) -> list[Record]:
        """Return the tombstones of the group, except those of its offsets, in Kafka's order.

        `replacements` maps the id of a replaced member to the new id in earlier records.
        """
        group_id = self.group_id
        member_ids = [(replacements or {}).get(member_id, member_id) for member_id in self.members]
        return records.TYPES.group_tombstones(
            group_id,
            member_ids,
            [
                *(records.regex_tombstone(group_id, regex) for regex in self.resolved_regexes),
                records.partition_metadata_tombstone(group_id),
                records.TYPES.group_tombstone(group_id),
            ],
        )

    # Queries of deciders.

    def current_of(self, member_id: MemberId) -> CurrentAssignment:
        """Return a member's current assignment; an unknown member has an empty one."""
        return self.current.get(member_id) or CurrentAssignment()

    def subscribed_topics(self) -> frozenset[str]:
        """Return the topics that members subscribe to by name or by resolved expression."""
        return subscribed_topics(self.members.values(), self.resolved_regexes)

    def owner_of(self, topic_id: bytes, partition: int) -> MemberId | None:
        """Return the owner of a partition, which may be revoking it; None if it is free."""
        owners = self.soft.owners
        if owners is None:
            owners = self.soft.owners = {}
            for member_id, current in self.current.items():
                _add_owner(owners, member_id, current)
        return owners.get(topic_id, {}).get(partition)

    # Replay, record by record.

    def replay_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Set the group epoch."""
        self.epoch = epoch
        self.metadata_hash = metadata_hash

    def replay_partition_metadata(self, *, exists: bool) -> None:
        """Set whether the log has a ConsumerGroupPartitionMetadata record."""
        self.has_partition_metadata = exists

    def replay_member_metadata(self, member_id: MemberId, metadata: MemberMetadata | None) -> None:
        """Set a member's metadata; None removes the member."""
        self._subscribed = None
        old = self.members.pop(member_id, None)
        if old is not None:
            self._remove_from_indexes(member_id, old)
        if metadata is None:
            return
        self.members[member_id] = metadata
        if metadata.topic_regex:
            self.regex_subscribers[metadata.topic_regex] += 1
        if metadata.instance_id is not None:
            self.static_members[metadata.instance_id] = member_id

    def _remove_from_indexes(self, member_id: MemberId, old: MemberMetadata) -> None:
        if old.topic_regex:
            self.regex_subscribers[old.topic_regex] -= 1
            # A Counter does not delete keys with a count of 0.
            if not self.regex_subscribers[old.topic_regex]:
                del self.regex_subscribers[old.topic_regex]
        if old.instance_id is not None and self.static_members.get(old.instance_id) == member_id:
            del self.static_members[old.instance_id]

    def replay_current(self, member_id: MemberId, current: CurrentAssignment | None) -> None:
        """Set a member's current assignment; None removes it."""
        old = self.current.pop(member_id, None)
        if current is not None:
            self.current[member_id] = current
        owners = self.soft.owners
        if owners is not None:
            if old is not None:
                _remove_owner(owners, member_id, old.assigned)
                _remove_owner(owners, member_id, old.pending_revocation)
            if current is not None:
                _add_owner(owners, member_id, current)

    def replay_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Set the topics of a resolved expression; None removes it."""
        self._subscribed = None
        if resolved is None:
            self.resolved_regexes.pop(regex, None)
        else:
            self.resolved_regexes[regex] = resolved


def _add_owner(owners: _Owners, member_id: MemberId, current: CurrentAssignment) -> None:
    for partitions in (current.assigned, current.pending_revocation):
        for topic_id, epochs in partitions.items():
            owners.setdefault(topic_id, {}).update(dict.fromkeys(epochs, member_id))


def _remove_owner(owners: _Owners, member_id: MemberId, partitions: OwnedPartitions) -> None:
    for topic_id, epochs in partitions.items():
        held = owners.get(topic_id, {})
        for partition in epochs:
            if held.get(partition) == member_id:
                del held[partition]
        if not held:
            owners.pop(topic_id, None)


def subscribed_topics(
    members: Iterable[MemberMetadata], resolved_regexes: Mapping[str, ResolvedRegex]
) -> frozenset[str]:
    """Return the topics of these members, by name or by resolved expression."""
    return frozenset().union(
        *(member.topic_names for member in members),
        *(resolved.topics for resolved in resolved_regexes.values()),
    )


def topics_of(
    member: MemberMetadata, resolved_regexes: Mapping[str, ResolvedRegex]
) -> frozenset[str]:
    """Return the topics of one member; an unresolved expression matches none."""
    if not member.topic_regex or member.topic_regex not in resolved_regexes:
        return member.topic_names
    return member.topic_names | resolved_regexes[member.topic_regex].topics
