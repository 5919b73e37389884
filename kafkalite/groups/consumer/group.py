"""ConsumerGroup: the hard state of one KIP-848 group, changed in replay alone.

Epochs only grow, and in this order: assignment epoch ≤ member epoch ≤ target epoch ≤ group epoch.
The group epoch moves when subscriptions, members or topics do; the target epoch follows when the
assignor has run; a member's epoch follows when it has nothing left to give up.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from kafkalite.groups.consumer import commits, records
from kafkalite.groups.consumer.hand_overs import HandOverBook
from kafkalite.groups.consumer.member import CurrentAssignment, MemberMetadata
from kafkalite.groups.consumer.topics import NO_TOPICS_HASH
from kafkalite.groups.fencing import ASSIGNMENT_EPOCH, FENCING_KEY
from kafkalite.groups.group import GroupType, OffsetExpiry
from kafkalite.groups.replaying import FIRST_EPOCH, NEVER_ASSIGNED_MS
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.assignors.contract import Assignment
    from kafkalite.groups.consumer.hand_overs import HandOvers
    from kafkalite.groups.consumer.member import OwnedPartitions
    from kafkalite.groups.consumer.regex import ResolvedRegex
    from kafkalite.groups.consumer.settings import GroupSettings
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import CommitClaim, GroupId, MemberId, PartitionCheck, Record
    from kafkalite.groups.offset import OffsetAndMetadata
    from kafkalite.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatResponse,
    )


def _commit_timestamp_ms(offset: OffsetAndMetadata) -> int:
    return offset.commit_timestamp_ms


_Owners: TypeAlias = "dict[bytes, dict[int, MemberId]]"


class SoftState:
    """What deciders remember of a group, and may lose."""

    __slots__ = ("answers", "owners", "settings", "shown", "topics_turn")

    def __init__(self) -> None:
        self.settings: tuple[int, GroupSettings | None] = (0, None)
        """What the group goes by, and at which turn of the configuration that was worked out."""
        self.topics_turn = -1
        """The last turn of the metadata at which the metadata hash was found right."""
        self.answers: dict[MemberId, ConsumerGroupHeartbeatResponse] = {}
        """What members were told that had nothing new to say; kept by `steady`."""
        self.owners: _Owners | None = None
        """Topic id → partition → who holds it; follows from `current`, once somebody asks."""
        self.shown: dict[MemberId, None] = {}
        """Members that have shown the epoch they were given; kept by `incarnations`."""


class ConsumerGroup:
    """A group whose partitions the coordinator assigns, and its members."""

    __slots__ = (
        "_directory", "_subscribed", "current", "epoch", "group_id",
        "has_partition_metadata", "members", "metadata_hash", "regex_subscribers",
        "resolved_regexes", "soft", "static_members", "target", "target_epoch",
        "target_timestamp_ms",
    )  # fmt: skip

    def __init__(self, group_id: GroupId, directory: GroupDirectory | None = None) -> None:
        self.group_id = group_id
        self._directory = directory
        self.epoch = FIRST_EPOCH
        self.metadata_hash = NO_TOPICS_HASH
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = NEVER_ASSIGNED_MS
        self.members: dict[MemberId, MemberMetadata] = {}
        self.current: dict[MemberId, CurrentAssignment] = {}
        self.target: dict[MemberId, Assignment] = {}
        self.resolved_regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """Whether the log still has the record that the metadata hash replaced."""
        self.static_members: dict[str, MemberId] = {}
        """Instance id → the member it is now; follows from `members`."""
        self.regex_subscribers: Counter[str] = Counter()
        """How many members subscribe by each expression; follows from `members`."""
        self._subscribed: frozenset[str] | None = None
        self.soft = SoftState()

    # What a group is to its neighbours.

    @property
    def group_type(self) -> GroupType:
        """The protocol the group speaks."""
        return GroupType.CONSUMER

    @property
    def protocol_type(self) -> str:
        """What ListGroups shows."""
        return "consumer"

    def state_name(self) -> str:
        """Return the state's name as clients see it."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(self.current_of(m).is_reconciled_to(self.target_epoch) for m in self.members):
            return "Stable"
        return "Reconciling"

    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def validate_offset_commit(self, claim: CommitClaim) -> PartitionCheck | None:
        """Raise KafkaError unless the claim may commit; None: no need to check partitions."""
        return commits.validate_offset_commit(self, claim)

    def touch(self, claim: CommitClaim, now_ms: int) -> None:
        """Do nothing: in this protocol only heartbeats are signs of life."""

    def validate_offset_fetch(self, member_id: MemberId | None, member_epoch: int) -> None:
        """Raise KafkaError unless this member at just this epoch, or an observer, may fetch."""
        commits.validate_offset_fetch(self, member_id, member_epoch)

    def validate_offset_delete(self) -> None:
        """Allow it: what must not go is told topic by topic."""

    def validate_delete(self) -> None:
        """Raise KafkaError(NON_EMPTY_GROUP) while the group has members."""
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member subscribes to the topic, by name or by expression."""
        if self._subscribed is None:
            self._subscribed = self.subscribed_topics()
        return topic in self._subscribed

    def offset_expiry(self) -> OffsetExpiry | None:
        """Return the rule that offsets age from their commit, whatever the group's state."""
        return OffsetExpiry(_commit_timestamp_ms)

    def tombstones(self, heirs: Mapping[MemberId, MemberId] | None = None) -> list[Record]:
        """Return the records that delete the group, without its offsets, in Kafka's order.

        `heirs` names members that are not here yet, by those whose places they are taking.
        """
        group_id = self.group_id
        member_ids = [(heirs or {}).get(member_id, member_id) for member_id in self.members]
        return [
            *(records.current_assignment_tombstone(group_id, m) for m in member_ids),
            *(records.target_assignment_tombstone(group_id, m) for m in member_ids),
            records.target_epoch_tombstone(group_id),
            *(records.member_metadata_tombstone(group_id, m) for m in member_ids),
            *(records.regex_tombstone(group_id, regex) for regex in self.resolved_regexes),
            records.partition_metadata_tombstone(group_id),
            records.group_epoch_tombstone(group_id),
        ]

    # What deciders read.

    def fencing_rule(self) -> str:
        """Return the rule by which commits at epochs of the past are taken now."""
        if self._directory is None:
            return ASSIGNMENT_EPOCH
        return self._directory.config.str(FENCING_KEY)

    def hand_overs(self) -> HandOvers:
        """Return what is remembered of who had which partition."""
        book = HandOverBook() if self._directory is None else self._directory.hand_overs
        return book.of(self.group_id)

    def current_of(self, member_id: MemberId) -> CurrentAssignment:
        """Return what a member has been given; nothing, for one that is not known."""
        return self.current.get(member_id) or CurrentAssignment()

    def subscribed_topics(self) -> frozenset[str]:
        """Return the topics that members name, or that an expression was resolved to."""
        return subscribed_topics(self.members.values(), self.resolved_regexes)

    def owner_of(self, topic_id: bytes, partition: int) -> MemberId | None:
        """Return the member that holds a partition, be it in order to give it up; None: free."""
        owners = self.soft.owners
        if owners is None:
            owners = self.soft.owners = {}
            for member_id, current in self.current.items():
                _hold(owners, member_id, current)
        return owners.get(topic_id, {}).get(partition)

    # What replay does, record by record.

    def replay_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Move the group to an epoch."""
        self.epoch = epoch
        self.metadata_hash = metadata_hash

    def replay_partition_metadata(self, *, present: bool) -> None:
        """Remember whether the record of old is there."""
        self.has_partition_metadata = present

    def replay_member_metadata(self, member_id: MemberId, metadata: MemberMetadata | None) -> None:
        """Make what a member says of itself true; None: it is gone."""
        self._subscribed = None
        old = self.members.pop(member_id, None)
        if old is not None:
            self._unlist(member_id, old)
        if metadata is None:
            return
        self.members[member_id] = metadata
        if metadata.topic_regex:
            self.regex_subscribers[metadata.topic_regex] += 1
        if metadata.instance_id is not None:
            self.static_members[metadata.instance_id] = member_id

    def _unlist(self, member_id: MemberId, old: MemberMetadata) -> None:
        if old.topic_regex:
            self.regex_subscribers[old.topic_regex] -= 1
            # A Counter would keep a zero for ever.
            if not self.regex_subscribers[old.topic_regex]:
                del self.regex_subscribers[old.topic_regex]
        if old.instance_id is not None and self.static_members.get(old.instance_id) == member_id:
            del self.static_members[old.instance_id]

    def replay_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Say for which epoch the assignor has run, and when."""
        self.target_epoch = epoch
        self.target_timestamp_ms = timestamp_ms

    def replay_target(self, member_id: MemberId, target: Assignment | None) -> None:
        """Say what a member should have; None: nothing is known of it."""
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target

    def replay_current(self, member_id: MemberId, current: CurrentAssignment | None) -> None:
        """Say what a member has; None: nothing, it is gone."""
        old = self.current.pop(member_id, None)
        if current is not None:
            self.current[member_id] = current
        owners = self.soft.owners
        if owners is not None:
            if old is not None:
                _release(owners, member_id, old.assigned)
                _release(owners, member_id, old.pending_revocation)
            if current is not None:
                _hold(owners, member_id, current)

    def replay_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Say what an expression stands for; None: nobody subscribes to it."""
        self._subscribed = None
        if resolved is None:
            self.resolved_regexes.pop(regex, None)
        else:
            self.resolved_regexes[regex] = resolved


def _hold(owners: _Owners, member_id: MemberId, current: CurrentAssignment) -> None:
    for partitions in (current.assigned, current.pending_revocation):
        for topic_id, epochs in partitions.items():
            owners.setdefault(topic_id, {}).update(dict.fromkeys(epochs, member_id))


def _release(owners: _Owners, member_id: MemberId, partitions: OwnedPartitions) -> None:
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
    """Return the topics that these members name, or that an expression was resolved to."""
    return frozenset().union(
        *(member.topic_names for member in members),
        *(resolved.topics for resolved in resolved_regexes.values()),
    )


def topics_of(
    member: MemberMetadata, resolved_regexes: Mapping[str, ResolvedRegex]
) -> frozenset[str]:
    """Return the topics of one member; an expression not resolved yet stands for none."""
    if not member.topic_regex or member.topic_regex not in resolved_regexes:
        return member.topic_names
    return member.topic_names | resolved_regexes[member.topic_regex].topics
