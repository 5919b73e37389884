"""Reconciliation: one step of a member's current assignment to its target (KIP-848).

A partition moves in three steps, each with a heartbeat of its own: the owner gets an assignment
without the partition, the owner reports that it has revoked it, the new owner gets an assignment
with it. A member keeps its epoch until it has revoked all partitions that it must revoke. At the
target epoch it may still wait for partitions of other members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalite.groups.consumer.member import CurrentAssignment, MemberState
from kafkalite.groups.modern.reconcile import advance, are_retained
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.assignors.contract import Assignment
    from kafkalite.groups.consumer.member import OwnedPartitions

ReportedPartitions = Mapping[bytes, AbstractSet[int]]
"""Topic id → partitions that a member reports to own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileInput:
    """The target of a member and the partitions that it reports."""

    target_epoch: int
    target: Assignment
    topic_ids: AbstractSet[bytes]
    """The topics it subscribes to; the target's other topics are ignored."""
    subscription_changed: bool
    reported: ReportedPartitions | None
    """None if it reports nothing, which means that it still owns all its partitions."""
    is_held_by_another: Callable[[bytes, int], bool]

    def still_owns_any_of(self, partitions: OwnedPartitions) -> bool:
        """Whether the member may still consume from one of these partitions."""
        if self.reported is None:
            return True
        return any(
            not partitions[topic_id].keys().isdisjoint(owned)
            for topic_id, owned in self.reported.items()
            if topic_id in partitions
        )


def reconcile(current: CurrentAssignment, inputs: ReconcileInput) -> CurrentAssignment:
    """Return the member's next state, or `current` itself if nothing changes.

    Raises KafkaError(FENCED_MEMBER_EPOCH) for an unknown state of a member that owns partitions.
    """
    match current.state:
        case MemberState.STABLE if current.member_epoch == inputs.target_epoch:
            return _revoke_unsubscribed(current, inputs) if inputs.subscription_changed else current
        case MemberState.UNREVOKED_PARTITIONS if inputs.still_owns_any_of(
            current.pending_revocation
        ):
            return _revoke_unsubscribed(current, inputs) if inputs.subscription_changed else current
        case MemberState.UNKNOWN:
            if inputs.reported is None or inputs.reported:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The state of this member was written by a later version; it must revoke all "
                    "its partitions and rejoin.",
                )
            return _step(current, inputs, inputs.target_epoch)
        case _:
            return _step(current, inputs, current.member_epoch)


def _step(current: CurrentAssignment, inputs: ReconcileInput, epoch: int) -> CurrentAssignment:
    """Revoke partitions outside the target; if none is left to revoke, assign free ones."""
    keep: dict[bytes, dict[int, int]] = {}
    revoke: dict[bytes, dict[int, int]] = {}
    for topic_id, owned in current.assigned.items():
        target = _target_of(topic_id, inputs)
        for partition, assignment_epoch in owned.items():
            destination = keep if partition in target else revoke
            destination.setdefault(topic_id, {})[partition] = assignment_epoch
    if revoke and inputs.still_owns_any_of(revoke):
        return _advance(
            current, epoch, MemberState.UNREVOKED_PARTITIONS, assigned=keep, pending=revoke
        )
    is_blocked = _assign_free_partitions(keep, inputs)
    state = MemberState.UNRELEASED_PARTITIONS if is_blocked else MemberState.STABLE
    return _advance(current, inputs.target_epoch, state, assigned=keep, pending={})


def _target_of(topic_id: bytes, inputs: ReconcileInput) -> AbstractSet[int]:
    if topic_id not in inputs.topic_ids:
        return frozenset()
    return inputs.target.get(topic_id, frozenset())


def _assign_free_partitions(keep: dict[bytes, dict[int, int]], inputs: ReconcileInput) -> bool:
    """Add the target's free partitions to `keep`; True if other members still own the rest."""
    is_blocked = False
    for topic_id in inputs.target:
        unassigned = _target_of(topic_id, inputs) - keep.get(topic_id, {}).keys()
        for partition in unassigned:
            if inputs.is_held_by_another(topic_id, partition):
                is_blocked = True
            else:
                keep.setdefault(topic_id, {})[partition] = inputs.target_epoch
    return is_blocked


def _revoke_unsubscribed(current: CurrentAssignment, inputs: ReconcileInput) -> CurrentAssignment:
    """Revoke topics that are no longer subscribed to, before a new target is computed."""
    unsubscribed = {
        topic_id: owned
        for topic_id, owned in current.assigned.items()
        if topic_id not in inputs.topic_ids
    }
    if not unsubscribed:
        return current
    assigned = {
        topic: owned for topic, owned in current.assigned.items() if topic not in unsubscribed
    }
    pending = dict(current.pending_revocation)
    for topic_id, owned in unsubscribed.items():
        pending[topic_id] = {**pending.get(topic_id, {}), **owned}
    if inputs.still_owns_any_of(pending):
        return _advance(
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
        revocation=current.revocation.after_step(
            current.member_epoch, current.member_epoch, revoked=True
        ),
    )


def _advance(
    current: CurrentAssignment,
    epoch: int,
    state: MemberState,
    *,
    assigned: OwnedPartitions,
    pending: OwnedPartitions,
) -> CurrentAssignment:
    """Return the next state, or `current` itself if nothing changes."""
    revoked = not (
        are_retained(current.assigned, assigned, pending)
        and are_retained(current.pending_revocation, assigned, pending)
    )
    return advance(current, epoch, state, assigned=assigned, pending=pending, revoked=revoked)
