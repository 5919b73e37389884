"""ShareGroup: the hard state of one share group (KIP-932), changed only by replay.

Epochs never decrease, and member epoch ≤ target epoch ≤ group epoch. The group epoch is raised when
subscriptions, members or topics change, and when share state was initialized after the last
assignment. The target epoch is raised when the assignor has run, and the member epoch at the
member's next heartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from kafkalite.groups.assignors.contract import Assignment
from kafkalite.groups.group import GroupType
from kafkalite.groups.modern.group import ModernGroup, ModernSoftState
from kafkalite.groups.share import share_group_records as records
from kafkalite.groups.share.member import ShareAssignment, ShareMember
from kafkalite.groups.share.settings import ShareSettings
from kafkalite.groups.share.share_partitions import NO_PARTITIONS
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import CommitClaim, GroupId, MemberId, Record
    from kafkalite.groups.share.share_partitions import SharePartitions
    from kafkalite.protocol._generated.messages.share_group_heartbeat import (
        ShareGroupHeartbeatResponse,
    )


class ShareSoftState(ModernSoftState[ShareSettings]):
    """State of a group that is not in the log and is lost when the shard is reloaded."""

    __slots__ = ("answers", "steady_topics_version")

    def __init__(self) -> None:
        super().__init__()
        self.steady_topics_version = -1
        """The `topics_version` of the last heartbeat, if that changed nothing in the group."""
        self.answers: dict[MemberId, ShareGroupHeartbeatResponse] = {}
        """Cached responses to steady heartbeats."""


class ShareGroup(ModernGroup[ShareMember, ShareAssignment, Assignment]):
    """A share group and its members; the share coordinator stores its offsets."""

    __slots__ = ("partitions", "soft")

    group_type = GroupType.SHARE
    protocol_type = "share"

    def __init__(self, group_id: GroupId, directory: GroupDirectory | None = None) -> None:
        super().__init__(group_id, directory)
        self.partitions: SharePartitions | None = None
        """The share state of the group's partitions; None before the first initialization."""
        self.soft = ShareSoftState()

    # The interface `Group`.

    def state_name(self) -> str:
        """Return the state's name as clients see it."""
        return "Stable" if self.members else "Empty"

    def validate_offset_commit(self, claim: CommitClaim) -> NoReturn:
        """Raise GROUP_ID_NOT_FOUND: a share group commits no offsets."""
        del claim
        raise self._no_offsets_error()

    def validate_offset_fetch(self, member_id: MemberId | None, member_epoch: int) -> None:
        """Accept the request: there are no offsets, as in a group that does not exist."""

    def validate_offset_delete(self) -> NoReturn:
        """Raise GROUP_ID_NOT_FOUND: a share group commits no offsets."""
        raise self._no_offsets_error()

    def _no_offsets_error(self) -> KafkaError:
        return KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {self.group_id} is a share group, which commits no offsets.",
            {"rule": "group-type", "group_type": self.group_type.value},
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member subscribes to the topic."""
        return any(topic in member.topic_names for member in self.members.values())

    def offset_expiry(self) -> None:
        """Return None: a share group has no offsets."""

    def tombstones(self) -> list[Record]:
        """Return the tombstones of the group in Kafka's order."""
        group_id = self.group_id
        return records.TYPES.group_tombstones(
            group_id,
            self.members,
            [records.partitions_tombstone(group_id), records.TYPES.group_tombstone(group_id)],
        )

    # Queries of deciders.

    def current_of(self, member_id: MemberId) -> ShareAssignment:
        """Return a member's current assignment; an unknown member has an empty one."""
        return self.current.get(member_id) or ShareAssignment()

    def share_partitions(self) -> SharePartitions:
        """Return the share state of the group's partitions."""
        return self.partitions or NO_PARTITIONS

    # Replay, record by record.

    def replay_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Set the group epoch."""
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self._reset_steady()

    def replay_member_metadata(self, member_id: MemberId, metadata: ShareMember | None) -> None:
        """Set a member's metadata; None removes the member."""
        if metadata is None:
            self.members.pop(member_id, None)
        else:
            self.members[member_id] = metadata
        self._reset_steady()

    def replay_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Set the target epoch, and the time when it was computed."""
        super().replay_target_epoch(epoch, timestamp_ms)
        self._reset_steady()

    def replay_target(self, member_id: MemberId, target: Assignment | None) -> None:
        """Set a member's target assignment; None removes it."""
        super().replay_target(member_id, target)
        self._reset_steady()

    def replay_current(self, member_id: MemberId, current: ShareAssignment | None) -> None:
        """Set a member's current assignment; None removes it."""
        if current is None:
            self.current.pop(member_id, None)
        else:
            self.current[member_id] = current
        self._reset_steady()

    def replay_partitions(self, partitions: SharePartitions | None) -> None:
        """Set the share state of the group's partitions; None removes it."""
        self.partitions = partitions
        self._reset_steady()

    def _reset_steady(self) -> None:
        self.soft.steady_topics_version = -1
