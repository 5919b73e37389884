"""ModernGroup: the hard state that consumer, share and streams groups have in common.

Epochs never decrease, and member epoch ≤ target epoch ≤ group epoch. The group epoch is raised when
members, subscriptions or topics change. The target epoch is raised when the assignor has run. The
member epoch is raised when the member has nothing left to revoke.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from kafkalite.groups.group import GroupType, OffsetExpiry
from kafkalite.groups.modern.offset_commit_fencing import ASSIGNMENT_EPOCH, FENCING_KEY
from kafkalite.groups.modern.ownership import OwnershipHistory
from kafkalite.groups.modern.topics import NO_TOPICS_HASH
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import CommitClaim, GroupId, MemberId, OffsetAndMetadata
    from kafkalite.groups.modern.ownership import GroupOwnership

M = TypeVar("M")
"""The metadata of a member."""
C = TypeVar("C")
"""The current assignment of a member."""
T = TypeVar("T")
"""The target assignment of a member."""
R = TypeVar("R", bound="Reconcilable")
S = TypeVar("S")
"""The settings of a group."""

FIRST_EPOCH: Final = 1
"""The epoch of a new group."""
NEVER_ASSIGNED_MS: Final = 0
"""The timestamp of the target assignment while the assignor has not run."""


class ModernSoftState(Generic[S]):
    """State of a group that is not in the log and is lost when the shard is reloaded."""

    __slots__ = ("settings", "topics_version")

    def __init__(self) -> None:
        self.settings: tuple[int, S | None] = (0, None)
        """The version of the configuration, and the group's settings at that version."""
        self.topics_version = -1
        """The version of the topics at the last comparison of the metadata hash."""


class Reconcilable(Protocol):
    """The current assignment of a member during reconciliation."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member has its whole target assignment of this epoch."""


def _commit_timestamp_ms(offset: OffsetAndMetadata) -> int:
    return offset.commit_timestamp_ms


class ModernGroup(Generic[M, C, T]):
    """A group with a group epoch; each group type adds records of its own."""

    __slots__ = (
        "_directory", "current", "epoch", "group_id", "members", "metadata_hash", "target",
        "target_epoch", "target_timestamp_ms",
    )  # fmt: skip

    group_type: GroupType
    protocol_type: str

    def __init__(self, group_id: GroupId, directory: GroupDirectory | None = None) -> None:
        self.group_id = group_id
        self._directory = directory
        self.epoch = FIRST_EPOCH
        self.metadata_hash = NO_TOPICS_HASH
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = NEVER_ASSIGNED_MS
        self.members: dict[MemberId, M] = {}
        self.current: dict[MemberId, C] = {}
        self.target: dict[MemberId, T] = {}

    # The interface `Group`.

    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def extend_session(self, claim: CommitClaim, now_ms: int) -> None:
        """Do nothing: only heartbeats extend a session."""

    def validate_offset_delete(self) -> None:
        """Do nothing: the caller checks each topic separately."""

    def validate_delete(self) -> None:
        """Raise KafkaError(NON_EMPTY_GROUP) while the group has members."""
        if self.members:
            kind, count = self.group_type.value, len(self.members)
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP,
                ErrorText.GROUP_IS_NOT_EMPTY.template,
                {"rule": "empty-group", "members": count},
                f"{kind.capitalize()} group {self.group_id} has {count} members.",
            )

    def offset_expiry(self) -> OffsetExpiry | None:
        """Return the rule that offsets expire after their commit, in every state of the group."""
        return OffsetExpiry(_commit_timestamp_ms)

    # Queries of deciders.

    def fencing_rule(self) -> str:
        """Return the offset-commit fencing rule."""
        if self._directory is None:
            return ASSIGNMENT_EPOCH
        return self._directory.config.str(FENCING_KEY)

    def ownership(self) -> GroupOwnership:
        """Return the history of partition owners, which is used only for explanations."""
        history = OwnershipHistory() if self._directory is None else self._directory.ownership
        return history.of(self.group_id)

    # Replay, record by record.

    def replay_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Set the target epoch, and the time when it was computed."""
        self.target_epoch = epoch
        self.target_timestamp_ms = timestamp_ms

    def replay_target(self, member_id: MemberId, target: T | None) -> None:
        """Set a member's target assignment; None removes it."""
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target


def reconciliation_state(group: ModernGroup[M, R, T]) -> str:
    """Return the state name of a group whose members are reconciled in steps."""
    if not group.members:
        return "Empty"
    target_epoch = group.target_epoch
    if group.epoch > target_epoch:
        return "Assigning"
    current = group.current
    if all(m in current and current[m].is_reconciled_to(target_epoch) for m in group.members):
        return "Stable"
    return "Reconciling"


def may_assign_now(last_timestamp_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether the assignment interval has passed since the assignor last ran (KIP-1263).

    If it has not, no timer is set: the first heartbeat after the interval runs the assignor. With
    an interval of zero the assignor runs even if the clock was set back.
    """
    if last_timestamp_ms == NEVER_ASSIGNED_MS or interval_ms == 0:
        return True
    return now_ms >= last_timestamp_ms + interval_ms
