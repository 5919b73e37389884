"""Reconciliation: one step of a member from the tasks it has towards those it should have.

A task moves in three steps, each with a heartbeat of its own: its owner is shown an assignment
without it, the owner reports that it has let go, the new owner is shown an assignment with it.
Standby and warm-up tasks go the same way, but only within a process, which has one copy of a
task's state: another process may keep a copy whoever else has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkalite.groups.streams.member import CurrentTasks, MemberState
from kafkalite.groups.streams.tasks import HOLDS_NOTHING, HeldTasks
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from kafkalite.groups.streams.tasks import EpochsOfTasks, TaskIds, Tasks


class TaskOwners(Protocol):
    """Which processes hold a task now, be it in order to give it up."""

    def active_process(self, subtopology: str, partition: int) -> str | None:
        """Return the process that does an active task; None: it is free."""

    def standby_processes(self, subtopology: str, partition: int) -> AbstractSet[str]:
        """Return the processes that keep a standby of a task."""

    def warmup_processes(self, subtopology: str, partition: int) -> AbstractSet[str]:
        """Return the processes that warm up for a task."""


class Towards(NamedTuple):
    """Where a member is to go, and what it told of itself on the way."""

    target_epoch: int
    target: Tasks
    process_id: str
    reported: Tasks | None
    """None when it did not say what it owns, which is read as: still everything."""
    owners: TaskOwners

    def still_owns_any_of(self, held: HeldTasks) -> bool:
        """Whether the member may still be doing one of these tasks."""
        return self.reported is None or self.reported.share_any_with(held)

    def _has_copy(self, subtopology: str, partition: int) -> bool:
        return self.process_id in self.owners.standby_processes(
            subtopology, partition
        ) or self.process_id in self.owners.warmup_processes(subtopology, partition)

    def blocks_active(self, subtopology: str, partition: int) -> bool:
        """Whether an active task cannot be given yet: somebody does it, or has a copy here."""
        is_done = self.owners.active_process(subtopology, partition) is not None
        return is_done or self._has_copy(subtopology, partition)

    def blocks_copy(self, subtopology: str, partition: int) -> bool:
        """Whether a standby or warm-up task cannot be given yet: the process has it already."""
        does_it = self.owners.active_process(subtopology, partition) == self.process_id
        return does_it or self._has_copy(subtopology, partition)


def reconcile(current: CurrentTasks, towards: Towards) -> CurrentTasks:
    """Return the member's next step, or `current` itself when there is none to take now.

    FENCED_MEMBER_EPOCH when its state is one we do not know and it still owns tasks.
    """
    match current.state:
        case MemberState.STABLE if current.member_epoch == towards.target_epoch:
            return current
        case MemberState.UNREVOKED_TASKS:
            if towards.still_owns_any_of(current.pending_revocation):
                return current
            # Where a consumer group keeps the epoch, a streams group goes on from the next one.
            return _step(current, towards, current.member_epoch + 1)
        case MemberState.UNKNOWN:
            if towards.reported is None or not towards.reported.is_empty():
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The state of this member was written by a later version; it has to give up "
                    "all its tasks and join again.",
                )
            return _step(current, towards, towards.target_epoch)
        case _:
            return _step(current, towards, current.member_epoch)


def _step(current: CurrentTasks, towards: Towards, epoch: int) -> CurrentTasks:
    """Revoke what is not in the target; only when nothing is left to revoke, give what is free."""
    target, assigned = towards.target, current.assigned
    kept, revoked = _split_epochs(assigned.active, target.active)
    kept_standby, revoked_standby = _split(assigned.standby, target.standby)
    kept_warmup, revoked_warmup = _split(assigned.warmup, target.warmup)
    keep = HeldTasks(active=kept, standby=kept_standby, warmup=kept_warmup)
    revoke = HeldTasks(active=revoked, standby=revoked_standby, warmup=revoked_warmup)
    if not revoke.is_empty() and towards.still_owns_any_of(revoke):
        return _advanced(current, epoch, MemberState.UNREVOKED_TASKS, assigned=keep, pending=revoke)
    active, active_blocked = _free(target.active, kept, towards.blocks_active)
    standby, standby_blocked = _free(target.standby, kept_standby, towards.blocks_copy)
    warmup, warmup_blocked = _free(target.warmup, kept_warmup, towards.blocks_copy)
    is_blocked = active_blocked or standby_blocked or warmup_blocked
    given = HeldTasks(
        active=_joined_epochs(kept, active, towards.target_epoch),
        standby=_joined(kept_standby, standby),
        warmup=_joined(kept_warmup, warmup),
    )
    return _advanced(
        current,
        towards.target_epoch,
        MemberState.UNRELEASED_TASKS if is_blocked else MemberState.STABLE,
        assigned=given,
        pending=HOLDS_NOTHING,
    )


def _split(held: TaskIds, target: TaskIds) -> tuple[TaskIds, TaskIds]:
    """Return what is held and stays, and what is held and goes."""
    keep = {name: held[name] & target.get(name, frozenset()) for name in held}
    revoke = {name: held[name] - target.get(name, frozenset()) for name in held}
    return _not_empty(keep), _not_empty(revoke)


def _not_empty(tasks: TaskIds) -> TaskIds:
    return {name: partitions for name, partitions in tasks.items() if partitions}


def _split_epochs(held: EpochsOfTasks, target: TaskIds) -> tuple[EpochsOfTasks, EpochsOfTasks]:
    """Do the same for active tasks, which keep the epochs they were assigned at."""
    keep: dict[str, dict[int, int]] = {}
    revoke: dict[str, dict[int, int]] = {}
    for name, epochs in held.items():
        wanted = target.get(name, frozenset())
        for partition, assigned_at in epochs.items():
            side = keep if partition in wanted else revoke
            side.setdefault(name, {})[partition] = assigned_at
    return keep, revoke


def _free(
    target: TaskIds, kept: TaskIds | EpochsOfTasks, is_blocked: Callable[[str, int], bool]
) -> tuple[TaskIds, bool]:
    """Return the tasks that are wanted and can be given, and whether some cannot."""
    free: dict[str, set[int]] = {}
    any_blocked = False
    for name, partitions in target.items():
        for partition in partitions - set(kept.get(name, ())):
            if is_blocked(name, partition):
                any_blocked = True
            else:
                free.setdefault(name, set()).add(partition)
    return free, any_blocked


def _joined(kept: TaskIds, given: TaskIds) -> TaskIds:
    return {
        name: frozenset(kept.get(name, ())) | frozenset(given.get(name, ()))
        for name in kept.keys() | given.keys()
    }


def _joined_epochs(kept: EpochsOfTasks, given: TaskIds, epoch: int) -> EpochsOfTasks:
    return {
        name: {**kept.get(name, {}), **dict.fromkeys(given.get(name, ()), epoch)}
        for name in kept.keys() | given.keys()
    }


def _advanced(
    current: CurrentTasks,
    epoch: int,
    state: MemberState,
    *,
    assigned: HeldTasks,
    pending: HeldTasks,
) -> CurrentTasks:
    """Return the next state, or `current` itself when it says the same."""
    gave_up = not (
        _is_kept(current.assigned.active, assigned.active, pending.active)
        and _is_kept(current.pending_revocation.active, assigned.active, pending.active)
    )
    advanced = CurrentTasks(
        member_epoch=epoch,
        previous_member_epoch=current.member_epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending,
        revocation=current.revocation.moved(current.member_epoch, epoch, gave_up=gave_up),
    )
    return current if advanced == current else advanced


def _is_kept(held: EpochsOfTasks, assigned: EpochsOfTasks, pending: EpochsOfTasks) -> bool:
    """Whether the member has all of this without a break, as the epochs of assignment tell."""
    return all(
        epochs.items() <= assigned.get(name, {}).items() | pending.get(name, {}).items()
        for name, epochs in held.items()
    )
