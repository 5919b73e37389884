"""Reconciliation: one step of a member's current tasks to its target tasks (KIP-1071).

A task moves in three steps, each with a heartbeat of its own: the owner gets an assignment without
the task, the owner reports that it has revoked it, the new owner gets an assignment with it.
Standby and warm-up tasks move in the same way, but only within a process, which has one copy of a
task's state. Other processes may have copies at any time.

Since Kafka 4.4 a member changes the role of a task without these steps: an active task becomes a
standby at once, a standby becomes a warm-up or the reverse at once, and a copy that becomes active
stays until the active task is free.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from kafkalite.groups.modern.reconcile import advance, are_retained
from kafkalite.groups.streams.member import CurrentTasks, MemberState
from kafkalite.groups.streams.tasks import NO_OWNED_TASKS, OwnedTasks, Tasks
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from kafkalite.groups.streams.tasks import TaskEpochs, TaskIds


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
    converts_tasks: bool = True
    """Whether a member may change the role of a task without releasing it."""

    def still_owns_any_of(self, owned: OwnedTasks) -> bool:
        """Whether the member may still run one of these tasks."""
        return self.reported is None or self.reported.overlap_with(owned)

    def blocks_active(self, assigned: OwnedTasks, subtopology: str, partition: int) -> bool:
        """Whether an active task cannot be assigned yet: it has an owner or a local copy."""
        return (
            self.owners.active_process(subtopology, partition) is not None
            or self._has_standby(subtopology, partition, assigned.standby)
            or self._has_warmup(subtopology, partition, assigned.warmup)
        )

    def blocks_standby(self, assigned: OwnedTasks, subtopology: str, partition: int) -> bool:
        """Whether a standby cannot be assigned yet: this process already has the task."""
        return (
            self._is_owned_here(subtopology, partition, assigned.active)
            or self._has_standby(subtopology, partition, {})
            or self._has_warmup(subtopology, partition, assigned.warmup)
        )

    def blocks_warmup(self, assigned: OwnedTasks, subtopology: str, partition: int) -> bool:
        """Whether a warm-up cannot be assigned yet: this process already has the task."""
        return (
            self._is_owned_here(subtopology, partition, {})
            or self._has_standby(subtopology, partition, assigned.standby)
            or self._has_warmup(subtopology, partition, {})
        )

    # Tasks that the member can convert do not block: those in `convertible`.

    def _is_owned_here(self, subtopology: str, partition: int, convertible: TaskEpochs) -> bool:
        is_owned_here = self.owners.active_process(subtopology, partition) == self.process_id
        return is_owned_here and not self._converts(subtopology, partition, convertible)

    def _has_standby(self, subtopology: str, partition: int, convertible: TaskIds) -> bool:
        processes = self.owners.standby_processes(subtopology, partition)
        return self.process_id in processes and not self._converts(
            subtopology, partition, convertible
        )

    def _has_warmup(self, subtopology: str, partition: int, convertible: TaskIds) -> bool:
        processes = self.owners.warmup_processes(subtopology, partition)
        return self.process_id in processes and not self._converts(
            subtopology, partition, convertible
        )

    def _converts(
        self, subtopology: str, partition: int, convertible: TaskIds | TaskEpochs
    ) -> bool:
        return self.converts_tasks and partition in convertible.get(subtopology, ())


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
    active, active_blocked = _assignable_tasks(
        target.active, retained, partial(inputs.blocks_active, assigned)
    )
    standby, standby_blocked = _assignable_tasks(
        target.standby, retained_standby, partial(inputs.blocks_standby, assigned)
    )
    warmup, warmup_blocked = _assignable_tasks(
        target.warmup, retained_warmup, partial(inputs.blocks_warmup, assigned)
    )
    roles = _Roles(
        retained=OwnedTasks(active=retained, standby=retained_standby, warmup=retained_warmup),
        revoked=OwnedTasks(active=revoked, standby=revoked_standby, warmup=revoked_warmup),
        assignable=Tasks(active=active, standby=standby, warmup=warmup),
    )
    if inputs.converts_tasks:
        roles = _convert_tasks(roles, current, inputs)
    if not roles.revoked.is_empty() and inputs.still_owns_any_of(roles.revoked):
        return _advance(
            current,
            epoch,
            MemberState.UNREVOKED_TASKS,
            assigned=roles.retained,
            pending=roles.revoked,
        )
    is_blocked = active_blocked or standby_blocked or warmup_blocked
    assigned_tasks = OwnedTasks(
        active=_merge_epochs(roles.retained.active, roles.assignable.active, inputs.target_epoch),
        standby=_merge(roles.retained.standby, roles.assignable.standby),
        warmup=_merge(roles.retained.warmup, roles.assignable.warmup),
    )
    return _advance(
        current,
        inputs.target_epoch,
        MemberState.UNRELEASED_TASKS if is_blocked else MemberState.STABLE,
        assigned=assigned_tasks,
        pending=NO_OWNED_TASKS,
    )


class _Roles(NamedTuple):
    """The tasks of one step: those to keep, to revoke, and to assign if none is to be revoked."""

    retained: OwnedTasks
    revoked: OwnedTasks
    assignable: Tasks


def _convert_tasks(roles: _Roles, current: CurrentTasks, inputs: ReconcileInput) -> _Roles:
    """Let tasks change their roles without a release, as far as possible."""
    owned, assignable = current.assigned, roles.assignable
    demoted = _common(owned.active, assignable.standby)
    to_warmup = _common(owned.standby, assignable.warmup)
    to_standby = _common(owned.warmup, assignable.standby)
    promoted_standby = _common(owned.standby, inputs.target.active)
    promoted_warmup = _common(owned.warmup, inputs.target.active)
    revoked = OwnedTasks(
        active=roles.revoked.active,
        standby=_minus(_minus(roles.revoked.standby, to_warmup), promoted_standby),
        warmup=_minus(_minus(roles.revoked.warmup, to_standby), promoted_warmup),
    )
    if not revoked.is_empty() and inputs.still_owns_any_of(revoked):
        granted: TaskIds = {}
    else:
        granted = assignable.active
    # A copy that becomes active stays a copy until the active task is assigned.
    standby = _merge(roles.retained.standby, _merge(demoted, to_standby))
    warmup = _merge(roles.retained.warmup, to_warmup)
    retained = OwnedTasks(
        active=roles.retained.active,
        standby=_merge(standby, _minus(promoted_standby, granted)),
        warmup=_merge(warmup, _minus(promoted_warmup, granted)),
    )
    converted = Tasks(
        active=assignable.active,
        standby=_minus(_minus(assignable.standby, demoted), to_standby),
        warmup=_minus(assignable.warmup, to_warmup),
    )
    return _Roles(retained, revoked, converted)


def _common(owned: TaskIds | TaskEpochs, tasks: TaskIds) -> TaskIds:
    common = {name: frozenset(owned.get(name, ())) & tasks[name] for name in tasks}
    return _without_empty(common)


def _minus(tasks: TaskIds, removed: TaskIds) -> TaskIds:
    return _without_empty({name: tasks[name] - removed.get(name, frozenset()) for name in tasks})


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
