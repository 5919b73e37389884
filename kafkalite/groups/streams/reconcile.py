"""Reconciliation: one step of a member's current tasks to its target tasks (KIP-1071).

A task moves in three steps, each with a heartbeat of its own: the owner gets an assignment without
the task, the owner reports that it has revoked it, the new owner gets an assignment with it.
Standby and warm-up tasks move in the same way, but only within a process, which has one copy of a
task's state. Other processes may have copies at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkalite.groups.modern.reconcile import advance, are_retained
from kafkalite.groups.streams.member import CurrentTasks, MemberState
from kafkalite.groups.streams.tasks import NO_OWNED_TASKS, OwnedTasks
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from kafkalite.groups.streams.tasks import TaskEpochs, TaskIds, Tasks


class TaskOwners(Protocol):
    """The processes that own a task now, including those that are revoking it."""

    def active_process(self, subtopology: str, partition: int) -> str | None:
        """Return the process that owns an active task; None if it is free."""

    def standby_processes(self, subtopology: str, partition: int) -> AbstractSet[str]:
        """Return the processes with a standby of a task."""

    def warmup_processes(self, subtopology: str, partition: int) -> AbstractSet[str]:
        """Return the processes with a warm-up of a task."""


class ReconcileInput(NamedTuple):
    """The target of a member and the tasks that it reports."""

    target_epoch: int
    target: Tasks
    process_id: str
    reported: Tasks | None
    """None if it reports nothing, which means that it still owns all its tasks."""
    owners: TaskOwners

    def still_owns_any_of(self, owned: OwnedTasks) -> bool:
        """Whether the member may still run one of these tasks."""
        return self.reported is None or self.reported.overlap_with(owned)

    def _has_copy(self, subtopology: str, partition: int) -> bool:
        return self.process_id in self.owners.standby_processes(
            subtopology, partition
        ) or self.process_id in self.owners.warmup_processes(subtopology, partition)

    def blocks_active(self, subtopology: str, partition: int) -> bool:
        """Whether an active task cannot be assigned yet: it has an owner or a local copy."""
        has_owner = self.owners.active_process(subtopology, partition) is not None
        return has_owner or self._has_copy(subtopology, partition)

    def blocks_copy(self, subtopology: str, partition: int) -> bool:
        """Whether a copy of a task cannot be assigned yet: this process already has the task."""
        is_owned_here = self.owners.active_process(subtopology, partition) == self.process_id
        return is_owned_here or self._has_copy(subtopology, partition)


def reconcile(current: CurrentTasks, inputs: ReconcileInput) -> CurrentTasks:
    """Return the member's next state, or `current` itself if nothing changes.

    Raises KafkaError(FENCED_MEMBER_EPOCH) for an unknown state of a member that owns tasks.
    """
    match current.state:
        case MemberState.STABLE if current.member_epoch == inputs.target_epoch:
            return current
        case MemberState.UNREVOKED_TASKS:
            if inputs.still_owns_any_of(current.pending_revocation):
                return current
            # In contrast to consumer groups, the step starts from the next epoch.
            return _step(current, inputs, current.member_epoch + 1)
        case MemberState.UNKNOWN:
            if inputs.reported is None or not inputs.reported.is_empty():
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The state of this member was written by a later version; it must revoke all "
                    "its tasks and rejoin.",
                )
            return _step(current, inputs, inputs.target_epoch)
        case _:
            return _step(current, inputs, current.member_epoch)


def _step(current: CurrentTasks, inputs: ReconcileInput, epoch: int) -> CurrentTasks:
    """Revoke tasks outside the target; if none is left to revoke, assign free ones."""
    target, assigned = inputs.target, current.assigned
    retained, revoked = _split_epochs(assigned.active, target.active)
    retained_standby, revoked_standby = _split(assigned.standby, target.standby)
    retained_warmup, revoked_warmup = _split(assigned.warmup, target.warmup)
    retained_tasks = OwnedTasks(active=retained, standby=retained_standby, warmup=retained_warmup)
    revoked_tasks = OwnedTasks(active=revoked, standby=revoked_standby, warmup=revoked_warmup)
    if not revoked_tasks.is_empty() and inputs.still_owns_any_of(revoked_tasks):
        return _advance(
            current,
            epoch,
            MemberState.UNREVOKED_TASKS,
            assigned=retained_tasks,
            pending=revoked_tasks,
        )
    active, active_blocked = _assignable_tasks(target.active, retained, inputs.blocks_active)
    standby, standby_blocked = _assignable_tasks(
        target.standby, retained_standby, inputs.blocks_copy
    )
    warmup, warmup_blocked = _assignable_tasks(target.warmup, retained_warmup, inputs.blocks_copy)
    is_blocked = active_blocked or standby_blocked or warmup_blocked
    assigned_tasks = OwnedTasks(
        active=_merge_epochs(retained, active, inputs.target_epoch),
        standby=_merge(retained_standby, standby),
        warmup=_merge(retained_warmup, warmup),
    )
    return _advance(
        current,
        inputs.target_epoch,
        MemberState.UNRELEASED_TASKS if is_blocked else MemberState.STABLE,
        assigned=assigned_tasks,
        pending=NO_OWNED_TASKS,
    )


def _split(owned: TaskIds, target: TaskIds) -> tuple[TaskIds, TaskIds]:
    """Return the tasks to keep and the tasks to revoke."""
    retained_tasks = {name: owned[name] & target.get(name, frozenset()) for name in owned}
    revoked_tasks = {name: owned[name] - target.get(name, frozenset()) for name in owned}
    return _without_empty(retained_tasks), _without_empty(revoked_tasks)


def _without_empty(tasks: TaskIds) -> TaskIds:
    return {name: partitions for name, partitions in tasks.items() if partitions}


def _split_epochs(owned: TaskEpochs, target: TaskIds) -> tuple[TaskEpochs, TaskEpochs]:
    """Return the active tasks to keep and those to revoke, with their assignment epochs."""
    retained_tasks: dict[str, dict[int, int]] = {}
    revoked_tasks: dict[str, dict[int, int]] = {}
    for name, epochs in owned.items():
        target_partitions = target.get(name, frozenset())
        for partition, assigned_at in epochs.items():
            destination = retained_tasks if partition in target_partitions else revoked_tasks
            destination.setdefault(name, {})[partition] = assigned_at
    return retained_tasks, revoked_tasks


def _assignable_tasks(
    target: TaskIds, retained: TaskIds | TaskEpochs, is_blocked: Callable[[str, int], bool]
) -> tuple[TaskIds, bool]:
    """Return the target's tasks that can be assigned, and whether some are blocked."""
    assignable: dict[str, set[int]] = {}
    any_blocked = False
    for name, partitions in target.items():
        for partition in partitions - set(retained.get(name, ())):
            if is_blocked(name, partition):
                any_blocked = True
            else:
                assignable.setdefault(name, set()).add(partition)
    return assignable, any_blocked


def _merge(retained: TaskIds, assigned_tasks: TaskIds) -> TaskIds:
    return {
        name: frozenset(retained.get(name, ())) | frozenset(assigned_tasks.get(name, ()))
        for name in retained.keys() | assigned_tasks.keys()
    }


def _merge_epochs(retained: TaskEpochs, assigned_tasks: TaskIds, epoch: int) -> TaskEpochs:
    return {
        name: {**retained.get(name, {}), **dict.fromkeys(assigned_tasks.get(name, ()), epoch)}
        for name in retained.keys() | assigned_tasks.keys()
    }


def _advance(
    current: CurrentTasks,
    epoch: int,
    state: MemberState,
    *,
    assigned: OwnedTasks,
    pending: OwnedTasks,
) -> CurrentTasks:
    """Return the next state, or `current` itself if nothing changes."""
    revoked = not (
        are_retained(current.assigned.active, assigned.active, pending.active)
        and are_retained(current.pending_revocation.active, assigned.active, pending.active)
    )
    return advance(current, epoch, state, assigned=assigned, pending=pending, revoked=revoked)
