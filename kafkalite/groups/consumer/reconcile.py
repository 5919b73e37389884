"""Reconciliation: one step of a member from what it has towards what it should have (KIP-848).

A partition moves in three steps, each with a heartbeat of its own: its owner is shown an
assignment without it, the owner reports that it has let go, the new owner is shown an assignment
with it. Until all that a member must let go is gone, it keeps its old epoch; once it has the
target epoch it may still be waiting for others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalite.groups.consumer.member import CurrentAssignment, MemberState
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.assignors.contract import Assignment
    from kafkalite.groups.consumer.member import OwnedPartitions

Reported = Mapping[bytes, AbstractSet[int]]
"""Topic id → partitions a member says it owns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Towards:
    """Where a member is to go, and what it told of itself on the way."""

    target_epoch: int
    target: Assignment
    topic_ids: AbstractSet[bytes]
    """The topics it subscribes to; a target elsewhere counts as none."""
    subscription_changed: bool
    reported: Reported | None
    """None when it did not say what it owns, which is read as: still everything."""
    is_held_by_another: Callable[[bytes, int], bool]

    def still_owns_any_of(self, partitions: OwnedPartitions) -> bool:
        """Whether the member may still be consuming from one of these."""
        if self.reported is None:
            return True
        return any(
            not partitions[topic_id].keys().isdisjoint(owned)
            for topic_id, owned in self.reported.items()
            if topic_id in partitions
        )


def reconcile(current: CurrentAssignment, towards: Towards) -> CurrentAssignment:
    """Return the member's next step, or `current` itself when there is none to take now.

    FENCED_MEMBER_EPOCH when its state is one we do not know and it still owns partitions.
    """
    match current.state:
        case MemberState.STABLE if current.member_epoch == towards.target_epoch:
            return _shrink(current, towards) if towards.subscription_changed else current
        case MemberState.UNREVOKED_PARTITIONS if towards.still_owns_any_of(
            current.pending_revocation
        ):
            return _shrink(current, towards) if towards.subscription_changed else current
        case MemberState.UNKNOWN:
            if towards.reported is None or towards.reported:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The state of this member was written by a later version; it has to give up "
                    "all its partitions and join again.",
                )
            return _step(current, towards, towards.target_epoch)
        case _:
            return _step(current, towards, current.member_epoch)


def _step(current: CurrentAssignment, towards: Towards, epoch: int) -> CurrentAssignment:
    """Revoke what is not in the target; only when nothing is left to revoke, give what is free."""
    keep: dict[bytes, dict[int, int]] = {}
    revoke: dict[bytes, dict[int, int]] = {}
    for topic_id, owned in current.assigned.items():
        target = _target_of(topic_id, towards)
        for partition, assignment_epoch in owned.items():
            side = keep if partition in target else revoke
            side.setdefault(topic_id, {})[partition] = assignment_epoch
    if revoke and towards.still_owns_any_of(revoke):
        return _advanced(
            current, epoch, MemberState.UNREVOKED_PARTITIONS, assigned=keep, pending=revoke
        )
    is_blocked = _give_what_is_free(keep, towards)
    state = MemberState.UNRELEASED_PARTITIONS if is_blocked else MemberState.STABLE
    return _advanced(current, towards.target_epoch, state, assigned=keep, pending={})


def _target_of(topic_id: bytes, towards: Towards) -> AbstractSet[int]:
    if topic_id not in towards.topic_ids:
        return frozenset()
    return towards.target.get(topic_id, frozenset())


def _give_what_is_free(keep: dict[bytes, dict[int, int]], towards: Towards) -> bool:
    """Add to `keep` what the target wants and nobody else holds; whether anything was held."""
    is_blocked = False
    for topic_id in towards.target:
        wanted = _target_of(topic_id, towards) - keep.get(topic_id, {}).keys()
        for partition in wanted:
            if towards.is_held_by_another(topic_id, partition):
                is_blocked = True
            else:
                keep.setdefault(topic_id, {})[partition] = towards.target_epoch
    return is_blocked


def _shrink(current: CurrentAssignment, towards: Towards) -> CurrentAssignment:
    """Take away topics no longer subscribed to, before any new target is known."""
    gone = {
        topic_id: owned
        for topic_id, owned in current.assigned.items()
        if topic_id not in towards.topic_ids
    }
    if not gone:
        return current
    assigned = {topic: owned for topic, owned in current.assigned.items() if topic not in gone}
    pending = dict(current.pending_revocation)
    for topic_id, owned in gone.items():
        pending[topic_id] = {**pending.get(topic_id, {}), **owned}
    if towards.still_owns_any_of(pending):
        return _advanced(
            current,
            current.member_epoch,
            MemberState.UNREVOKED_PARTITIONS,
            assigned=assigned,
            pending=pending,
        )
    return replace(
        current,
        previous_member_epoch=current.member_epoch,
        assigned=assigned,
        revocation=current.revocation.moved(
            current.member_epoch, current.member_epoch, gave_up=True
        ),
    )


def _advanced(
    current: CurrentAssignment,
    epoch: int,
    state: MemberState,
    *,
    assigned: OwnedPartitions,
    pending: OwnedPartitions,
) -> CurrentAssignment:
    """Return the next state, or `current` itself when it says the same."""
    gave_up = not (
        _is_kept(current.assigned, assigned, pending)
        and _is_kept(current.pending_revocation, assigned, pending)
    )
    advanced = CurrentAssignment(
        member_epoch=epoch,
        previous_member_epoch=current.member_epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending,
        revocation=current.revocation.moved(current.member_epoch, epoch, gave_up=gave_up),
    )
    return current if advanced == current else advanced


def _is_kept(held: OwnedPartitions, assigned: OwnedPartitions, pending: OwnedPartitions) -> bool:
    """Whether the member holds all of this without a break, as the epochs of assignment tell."""
    return all(
        owned == assigned.get(topic_id)
        or owned.items() <= assigned.get(topic_id, {}).items() | pending.get(topic_id, {}).items()
        for topic_id, owned in held.items()
    )
