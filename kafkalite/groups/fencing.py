"""Fencing of offset commits: which epochs of its past a member may still commit at.

A member commits at the epoch it knew when it sent the request, while the coordinator may have
moved it on meanwhile. Three rules are told apart by `group.consumer.offset.commit.fencing`:

- `strict`: the epochs must be equal, as in Kafka 4.0 to 4.2.
- `revocation-epoch`: the epoch must be later than the last one the member left by giving
  partitions up, as KAFKA-19779 proposed.
- `assignment-epoch`: each partition must have been the member's since that epoch or before, as
  Kafka ships it since 4.3 (KIP-1251). This is the default.

Consumer and streams groups share this, and so do OffsetCommit and TxnOffsetCommit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from kafkalite.groups.group import PartitionCheck
    from kafkalite.protocol.errors import KafkaError

FENCING_KEY: Final = "group.consumer.offset.commit.fencing"
"""The broker setting that chooses the rule."""

STRICT: Final = "strict"
REVOCATION_EPOCH: Final = "revocation-epoch"
ASSIGNMENT_EPOCH: Final = "assignment-epoch"


class Revocation(NamedTuple):
    """When a member last gave partitions up; in the log, tags of our own (see the ledger)."""

    epoch: int = 0
    """The epoch it last left having given partitions up at it; always below its epoch."""
    is_under_way: bool = False
    """Whether it gave some up at its present epoch, which it has not left yet.

    The proposal takes the two for one step. Kafka tells them apart: a member may lose what it no
    longer subscribes to, or be told to give up more, before it may move on.
    """

    def moved(self, from_epoch: int, to_epoch: int, *, gave_up: bool) -> Revocation:
        """Return what holds after a step that may have taken partitions away."""
        # One who comes back begins at zero, but went at the epoch after the one it left for that.
        left = from_epoch if from_epoch > 0 else self.epoch + 1
        gave_up = gave_up or self.is_under_way
        if left >= to_epoch:
            return Revocation(self.epoch, gave_up)
        return Revocation(left if gave_up else self.epoch)

    def left_for_a_while(self, from_epoch: int, *, gave_up: bool) -> Revocation:
        """Return what holds of a static member that goes: its commits so far are all it made."""
        return Revocation(
            max(self.epoch, from_epoch - 1, 0), is_under_way=self.is_under_way or gave_up
        )


NEVER_REVOKED: Final = Revocation()


def revocation_of(epoch: int, *, is_under_way: bool) -> Revocation:
    """Read back what the log holds; most members never gave anything up, and share one value."""
    return Revocation(epoch, is_under_way) if epoch or is_under_way else NEVER_REVOKED


class Standing(NamedTuple):
    """What a coordinator knows of a member that commits."""

    member_epoch: int
    revocation: Revocation
    assignment_epoch: Callable[[str, bytes, int], int | None]
    """(topic, its id, partition) → since which epoch it is the member's; None when it is not."""


class Fenced(NamedTuple):
    """Why a commit is refused."""

    rule: str
    epoch: int
    """The epoch of the commit."""
    standing: Standing
    partition: tuple[str, bytes, int] | None = None
    """(topic, its id, partition); None when the epoch alone is reason enough."""
    held_since: int | None = None
    """The epoch since which that partition is the member's, if it is."""


PartitionRule: TypeAlias = Callable[[int, int | None], bool]


class Rule(NamedTuple):
    """One rule: a test of the epoch, and if need be another one of each partition."""

    accepts_epoch: Callable[[int, Standing], bool]
    accepts_partition: PartitionRule | None = None
    """(epoch, assignment epoch) → whether the partition's offset is taken."""


def _is_equal(epoch: int, standing: Standing) -> bool:
    return epoch == standing.member_epoch


def _is_after_the_revocation(epoch: int, standing: Standing) -> bool:
    revocation = standing.revocation
    if revocation.is_under_way:
        return epoch == standing.member_epoch
    return revocation.epoch < epoch <= standing.member_epoch


def _is_not_ahead(epoch: int, standing: Standing) -> bool:
    return epoch <= standing.member_epoch


def _was_held_by_then(epoch: int, assignment_epoch: int | None) -> bool:
    return assignment_epoch is not None and assignment_epoch <= epoch


RULES: Final[Mapping[str, Rule]] = {
    STRICT: Rule(_is_equal),
    REVOCATION_EPOCH: Rule(_is_after_the_revocation),
    ASSIGNMENT_EPOCH: Rule(_is_not_ahead, _was_held_by_then),
}


def fence_commit(
    rule: str, epoch: int, standing: Standing, refuse: Callable[[Fenced], KafkaError]
) -> PartitionCheck | None:
    """Let a member commit at this epoch, or raise what `refuse` makes of the reason not to.

    Returns the check that each partition has to pass; None: there is nothing to check.
    """
    if not RULES[rule].accepts_epoch(epoch, standing):
        raise refuse(Fenced(rule, epoch, standing))
    accepts_partition = RULES[rule].accepts_partition
    # At its own epoch a member may commit what it likes under every rule, as in Kafka: one that
    # gives up a topic commits where it came to in it.
    if accepts_partition is None or epoch == standing.member_epoch:
        return None

    def check(topic: str, topic_id: bytes, partition: int) -> None:
        held_since = standing.assignment_epoch(topic, topic_id, partition)
        if not accepts_partition(epoch, held_since):
            raise refuse(Fenced(rule, epoch, standing, (topic, topic_id, partition), held_since))

    return check
