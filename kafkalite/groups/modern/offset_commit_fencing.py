"""Offset-commit fencing: the past epochs at which a member may still commit offsets.

A member commits at the epoch that it knew when it sent the request. The coordinator may have
raised the member's epoch since. `group.consumer.offset.commit.fencing` selects one of three rules:

- `strict`: the epochs must be equal, as in Kafka 4.0 to 4.2.
- `revocation-epoch`: the epoch must be later than the last epoch at which the member revoked
  partitions, as KAFKA-19779 proposed.
- `assignment-epoch`: each partition must have been assigned to the member at that epoch or
  earlier, as in Kafka since 4.3 (KIP-1251). This is the default.

The rules apply to consumer and streams groups, and to OffsetCommit and TxnOffsetCommit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.groups.group import PartitionCheck
    from kafkalite.protocol.errors import KafkaError

FENCING_KEY: Final = "group.consumer.offset.commit.fencing"
"""The broker setting that selects the rule."""

STRICT: Final = "strict"
REVOCATION_EPOCH: Final = "revocation-epoch"
ASSIGNMENT_EPOCH: Final = "assignment-epoch"


class Revocation(NamedTuple):
    """The epoch at which a member last revoked partitions; the log has it in tagged fields."""

    epoch: int = 0
    """The last completed epoch at which it revoked partitions; always below its epoch."""
    is_under_way: bool = False
    """Whether it revoked partitions at its current epoch.

    In the proposal a member revokes partitions and advances its epoch in one step. In Kafka a
    member may lose partitions of topics that it no longer subscribes to, or must revoke more,
    before it reaches the next epoch.
    """

    def after_step(self, from_epoch: int, to_epoch: int, *, revoked: bool) -> Revocation:
        """Return the value after a reconciliation step, which may have revoked partitions."""
        # A returning static member starts at epoch 0. It had left at the epoch after `self.epoch`.
        completed_epoch = from_epoch if from_epoch > 0 else self.epoch + 1
        revoked = revoked or self.is_under_way
        if completed_epoch >= to_epoch:
            return Revocation(self.epoch, revoked)
        return Revocation(completed_epoch if revoked else self.epoch)

    def after_temporary_leave(self, from_epoch: int, *, revoked: bool) -> Revocation:
        """Return the value after a static member left temporarily; its later commits are fenced."""
        return Revocation(
            max(self.epoch, from_epoch - 1, 0), is_under_way=self.is_under_way or revoked
        )


NEVER_REVOKED: Final = Revocation()


def revocation_of(epoch: int, *, is_under_way: bool) -> Revocation:
    """Return the value of a record; members that never revoked anything share one object."""
    return Revocation(epoch, is_under_way) if epoch or is_under_way else NEVER_REVOKED


class CommitterState(NamedTuple):
    """The coordinator's state of the member that commits."""

    member_epoch: int
    revocation: Revocation
    assignment_epoch: Callable[[str, bytes, int], int | None]
    """(topic, topic id, partition) → its assignment epoch; None if the member does not own it."""


class FencedCommit(NamedTuple):
    """A refused commit, with the rule that it violates."""

    rule: str
    epoch: int
    """The epoch of the commit."""
    committer: CommitterState
    partition: tuple[str, bytes, int] | None = None
    """(topic, topic id, partition); None if the epoch is refused for all partitions."""
    assignment_epoch: int | None = None
    """The assignment epoch of the partition; None if the member does not own it."""


PartitionRule: TypeAlias = Callable[[int, int | None], bool]


class Rule(NamedTuple):
    """One rule: a check of the epoch, and optionally a check of each partition."""

    accepts_epoch: Callable[[int, CommitterState], bool]
    accepts_partition: PartitionRule | None = None
    """(epoch, assignment epoch) → whether the partition's offset is accepted."""


def _is_equal(epoch: int, committer: CommitterState) -> bool:
    return epoch == committer.member_epoch


def _is_after_revocation(epoch: int, committer: CommitterState) -> bool:
    revocation = committer.revocation
    if revocation.is_under_way:
        return epoch == committer.member_epoch
    return revocation.epoch < epoch <= committer.member_epoch


def _is_not_ahead(epoch: int, committer: CommitterState) -> bool:
    return epoch <= committer.member_epoch


def _was_assigned_at(epoch: int, assignment_epoch: int | None) -> bool:
    return assignment_epoch is not None and assignment_epoch <= epoch


RULES: Final[Mapping[str, Rule]] = {
    STRICT: Rule(_is_equal),
    REVOCATION_EPOCH: Rule(_is_after_revocation),
    ASSIGNMENT_EPOCH: Rule(_is_not_ahead, _was_assigned_at),
}


def fence_commit(
    rule: str,
    epoch: int,
    committer: CommitterState,
    make_error: Callable[[FencedCommit], KafkaError],
) -> PartitionCheck | None:
    """Check a commit at this epoch; raises the error of `make_error` if the rule refuses it.

    Returns the check for each partition, None if none is needed.
    """
    if not RULES[rule].accepts_epoch(epoch, committer):
        raise make_error(FencedCommit(rule, epoch, committer))
    accepts_partition = RULES[rule].accepts_partition
    # At its current epoch a member may commit any partition under every rule, as in Kafka: it
    # commits the final offsets of partitions that it is about to revoke.
    if accepts_partition is None or epoch == committer.member_epoch:
        return None

    def check(topic: str, topic_id: bytes, partition: int) -> None:
        assignment_epoch = committer.assignment_epoch(topic, topic_id, partition)
        if not accepts_partition(epoch, assignment_epoch):
            raise make_error(
                FencedCommit(rule, epoch, committer, (topic, topic_id, partition), assignment_epoch)
            )

    return check
