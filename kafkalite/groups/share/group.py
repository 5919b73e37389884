"""ShareGroup: the hard state of one KIP-932 group, changed in replay alone.

Epochs only grow: member epoch ≤ target epoch ≤ group epoch. The group epoch moves when
subscriptions, members or topics do, and when partitions have got a share state since the last
assignment; the target epoch follows when the assignor has run; a member follows at its next beat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from kafkalite.groups.consumer.topics import NO_TOPICS_HASH
from kafkalite.groups.group import GroupType
from kafkalite.groups.replaying import FIRST_EPOCH, NEVER_ASSIGNED_MS
from kafkalite.groups.share import records
from kafkalite.groups.share.member import ShareAssignment
from kafkalite.groups.share.states import NO_PARTITIONS
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.assignors.contract import Assignment
    from kafkalite.groups.group import CommitClaim, GroupId, MemberId, Record
    from kafkalite.groups.share.member import ShareMember
    from kafkalite.groups.share.settings import ShareSettings
    from kafkalite.groups.share.states import SharePartitions
    from kafkalite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse


class ShareSoftState:
    """What deciders remember of a group, and may lose."""

    __slots__ = ("answers", "settings", "settled_turn", "topics_turn")

    def __init__(self) -> None:
        self.settings: tuple[int, ShareSettings | None] = (0, None)
        """What the group goes by, and at which turn of the configuration that was worked out."""
        self.topics_turn = -1
        """The last turn of the metadata at which the metadata hash was found right."""
        self.settled_turn = -1
        """The last turn at which a heartbeat found nothing to be done for the whole group."""
        self.answers: dict[MemberId, ShareGroupHeartbeatResponse] = {}
        """What members were told that had nothing new to say."""


class ShareGroup:
    """A group whose members share partitions, and whose offsets are kept with these."""

    __slots__ = (
        "current", "epoch", "group_id", "members", "metadata_hash", "partitions", "soft",
        "target", "target_epoch", "target_timestamp_ms",
    )  # fmt: skip

    def __init__(self, group_id: GroupId) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = NO_TOPICS_HASH
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = NEVER_ASSIGNED_MS
        self.members: dict[MemberId, ShareMember] = {}
        self.current: dict[MemberId, ShareAssignment] = {}
        self.target: dict[MemberId, Assignment] = {}
        self.partitions: SharePartitions | None = None
        """How far share state has come; None while nobody has asked for any."""
        self.soft = ShareSoftState()

    # What a group is to its neighbours.

    @property
    def group_type(self) -> GroupType:
        """The protocol the group speaks."""
        return GroupType.SHARE

    @property
    def protocol_type(self) -> str:
        """What ListGroups shows."""
        return "share"

    def state_name(self) -> str:
        """Return the state's name as clients see it."""
        return "Stable" if self.members else "Empty"

    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def validate_offset_commit(self, claim: CommitClaim) -> NoReturn:
        """Refuse: what a share group has read is kept with the partitions, not committed."""
        del claim
        raise self._holds_no_offsets()

    def touch(self, claim: CommitClaim, now_ms: int) -> None:
        """Do nothing: nobody commits here."""

    def validate_offset_fetch(self, member_id: MemberId | None, member_epoch: int) -> None:
        """Allow it: there is nothing to be found, as in a group that does not exist."""

    def validate_offset_delete(self) -> NoReturn:
        """Refuse: there is nothing of the kind."""
        raise self._holds_no_offsets()

    def _holds_no_offsets(self) -> KafkaError:
        return KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {self.group_id} is a share group, which commits no offsets.",
            {"rule": "group-type", "group_type": self.group_type.value},
        )

    def validate_delete(self) -> None:
        """Raise KafkaError(NON_EMPTY_GROUP) while the group has members."""
        if self.members:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP,
                f"Share group {self.group_id} has {len(self.members)} members.",
                {"rule": "empty-group", "members": sorted(self.members)},
            )

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member subscribes to the topic."""
        return any(topic in member.topic_names for member in self.members.values())

    def offset_expiry(self) -> None:
        """Return no rule: a share group has no offsets that could age."""

    def tombstones(self) -> list[Record]:
        """Return the records that delete the group, in Kafka's order."""
        group_id = self.group_id
        return [
            *(records.current_assignment_tombstone(group_id, m) for m in self.members),
            *(records.target_assignment_tombstone(group_id, m) for m in self.members),
            records.target_epoch_tombstone(group_id),
            *(records.member_metadata_tombstone(group_id, m) for m in self.members),
            records.partitions_tombstone(group_id),
            records.group_epoch_tombstone(group_id),
        ]

    # What deciders read.

    def current_of(self, member_id: MemberId) -> ShareAssignment:
        """Return what a member has been given; nothing, for one that is not known."""
        return self.current.get(member_id) or ShareAssignment()

    def share_partitions(self) -> SharePartitions:
        """Return how far share state has come; nowhere, while nobody has asked for any."""
        return self.partitions or NO_PARTITIONS

    # What replay does, record by record.

    def replay_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Move the group to an epoch."""
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self._unsettle()

    def replay_member(self, member_id: MemberId, member: ShareMember | None) -> None:
        """Make what a member says of itself true; None: it is gone."""
        if member is None:
            self.members.pop(member_id, None)
        else:
            self.members[member_id] = member
        self._unsettle()

    def replay_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Say for which epoch the assignor has run, and when."""
        self.target_epoch = epoch
        self.target_timestamp_ms = timestamp_ms
        self._unsettle()

    def replay_target(self, member_id: MemberId, target: Assignment | None) -> None:
        """Say what a member should have; None: nothing is known of it."""
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target
        self._unsettle()

    def replay_current(self, member_id: MemberId, current: ShareAssignment | None) -> None:
        """Say what a member has; None: nothing, it is gone."""
        if current is None:
            self.current.pop(member_id, None)
        else:
            self.current[member_id] = current
        self._unsettle()

    def replay_partitions(self, partitions: SharePartitions | None) -> None:
        """Say how far share state has come; None: there is none."""
        self.partitions = partitions
        self._unsettle()

    def _unsettle(self) -> None:
        self.soft.settled_turn = -1
