"""The `sticky` assignor of streams groups (KIP-1071).

An active task stays with its previous member as long as the load is even. Otherwise it goes to a
member with a standby of the task, or that has reported an offset of it, or else to the process with
the least load. Load is the number of tasks per member of a process. Standby tasks are assigned to
other processes than the active task. Tags of clients have no influence, as in Kafka 4.4.

Kafka breaks ties by the order of its hash maps and heaps, which is the same here.
"""

from __future__ import annotations

from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkalite.config.rules import Rules
from kafkalite.coordinator.java_order import (
    JavaHashMap,
    JavaPriorityQueue,
    in_java_order,
    string_hash,
)
from kafkalite.groups.streams.tasks import Tasks
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from kafkalite.groups.group import MemberId
    from kafkalite.groups.streams.tasks import TaskIds


class TaskId(NamedTuple):
    """One task."""

    subtopology: str
    partition: int


class MemberSpec(NamedTuple):
    """A member as the assignor sees it."""

    process_id: str
    previous: Tasks
    offsets: Mapping[str, Mapping[int, int]] = MappingProxyType({})
    """Subtopology id → partition → offset of the task's state on the member's disk."""


class SubtopologySize(NamedTuple):
    """A subtopology as the assignor sees it."""

    task_count: int
    is_stateful: bool


class StandbyPlacement(NamedTuple):
    """The numbers of standby tasks by the reasons for their places."""

    with_previous_owner: int = 0
    """At the previous owner of the active task."""
    with_state: int = 0
    """At a member with state of the task, from a standby or on its disk."""
    least_loaded: int = 0
    """At the process with the least load."""
    missing: int = 0
    """Not placed, because every process has the task already."""


NOTHING_PLACED = StandbyPlacement()


class _Process:
    """One process with its members, and the tasks assigned to them so far."""

    __slots__ = ("_by_load", "counts", "load", "process_id", "task_count", "tasks")

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.counts: dict[MemberId, int] = {}
        self.tasks: set[TaskId] = set()
        self.task_count = 0
        self.load = 0.0
        """The number of tasks per member; an attribute, because many comparisons read it."""
        self._by_load: JavaPriorityQueue[MemberId] | None = None

    def add_member(self, member_id: MemberId) -> None:
        """Add a member without tasks."""
        self.counts[member_id] = 0

    def assign(self, member_id: MemberId, task: TaskId) -> int:
        """Assign a task to a member; return its new number of tasks."""
        self._by_load = None
        return self._record(member_id, task)

    def _record(self, member_id: MemberId, task: TaskId) -> int:
        self.tasks.add(task)
        self.task_count += 1
        self.load = self.task_count / len(self.counts)
        self.counts[member_id] += 1
        return self.counts[member_id]

    def assign_to_least_loaded(self, task: TaskId) -> MemberId:
        """Assign a task to the member with the fewest tasks; return this member."""
        if self._by_load is None:
            member_ids = in_java_order(self.counts, string_hash)
            self._by_load = JavaPriorityQueue(self.counts.__getitem__, member_ids)
        member_id = self._by_load.pop()
        self._record(member_id, task)
        self._by_load.push(member_id)
        return member_id


_load_of: Callable[[_Process], float] = attrgetter("load")


class _Quota:
    """The number of tasks per member, recomputed when a member has reached it."""

    __slots__ = ("_members", "_tasks", "tasks_per_member")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self._recompute()

    def _recompute(self) -> None:
        self.tasks_per_member = -(-self._tasks // self._members) if self._members else 0

    def on_task_added(self, count: int) -> None:
        """Record that a member has this number of tasks now."""
        if count == self.tasks_per_member:
            self._members -= 1
            self._tasks -= count
            self._recompute()


class _StickyAssignment:
    """One run of the assignor."""

    def __init__(
        self,
        members: Mapping[MemberId, MemberSpec],
        subtopologies: Mapping[str, SubtopologySize],
        standby_replicas: int,
        rules: Rules,
    ) -> None:
        self._subtopologies = subtopologies
        self._standby_replicas = standby_replicas
        self._rules = rules
        self.placement = NOTHING_PLACED
        self._process_of: dict[MemberId, _Process] = {}
        processes: JavaHashMap[str, _Process] = JavaHashMap(
            string_hash, initial_capacity=len(members)
        )
        self._previous_active: dict[TaskId, MemberId] = {}
        candidates: dict[TaskId, list[tuple[bool, int, int, MemberId]]] = {}
        for member_id in in_java_order(sorted(members), string_hash):
            member = members[member_id]
            process = _find_or_add_process(processes, member.process_id, rules)
            process.add_member(member_id)
            self._process_of[member_id] = process
            self._previous_active.update(
                dict.fromkeys(_tasks_in(member.previous.active), member_id)
            )
            for task, is_standby, offset in _tasks_with_state(member):
                candidates.setdefault(task, []).append(
                    (not is_standby, -offset, len(self._process_of), member_id)
                )
        # Members with a standby are first, then those with the largest offset.
        self._previous_standby = {
            task: [member_id for _, _, _, member_id in sorted(members_with_state)]
            for task, members_with_state in candidates.items()
        }
        self._processes = processes.values()
        active = sum(size.task_count for size in subtopologies.values())
        stateful = sum(size.task_count for size in subtopologies.values() if size.is_stateful)
        self._active_quota = _Quota(active, len(members))
        self._total_quota = _Quota(active + stateful * standby_replicas, len(members))
        self.active: dict[MemberId, dict[str, set[int]]] = {}
        self.standby: dict[MemberId, dict[str, set[int]]] = {}

    # Active tasks

    def assign_active(self) -> None:
        """Assign every active task."""
        # Sorted by partition first, so that co-located tasks of subtopologies stay together.
        unassigned = sorted(
            (
                TaskId(name, partition)
                for name, size in self._subtopologies.items()
                for partition in range(size.task_count)
            ),
            key=lambda task: (task.partition, task.subtopology),
        )
        unassigned = [
            task
            for task in unassigned
            if not self._retain_active(task, self._previous_active.get(task))
        ]
        unassigned = [
            task
            for task in unassigned
            if not self._retain_active(
                task, self._least_loaded(self._previous_standby.get(task, ()), None)
            )
        ]
        queue = JavaPriorityQueue(_load_of, self._processes)
        for task in sorted(unassigned):
            process = queue.pop()
            member_id = process.assign_to_least_loaded(task)
            self._add_task(self.active, member_id, task)
            self._active_quota.on_task_added(process.counts[member_id])
            self._total_quota.on_task_added(process.counts[member_id])
            queue.push(process)

    def _retain_active(self, task: TaskId, member_id: MemberId | None) -> bool:
        """Assign an active task to a member with the task's state, if its quota allows."""
        if member_id is None:
            return False
        process = self._process_of[member_id]
        if process.counts[member_id] >= self._active_quota.tasks_per_member:
            return False
        count = process.assign(member_id, task)
        self._add_task(self.active, member_id, task)
        self._active_quota.on_task_added(count)
        self._total_quota.on_task_added(count)
        return True

    def _least_loaded(
        self, members: Sequence[MemberId], excluded_task: TaskId | None
    ) -> MemberId | None:
        """Return the least loaded member: it has fewer tasks and a less loaded process.

        Processes that have `excluded_task` are skipped. Before Kafka 4.4, the result is None if the
        process of the first member has it.
        """
        if self._rules.skips_processes_with_task:
            members = [m for m in members if excluded_task not in self._process_of[m].tasks]
        if not members or excluded_task in self._process_of[members[0]].tasks:
            return None
        chosen = members[0]
        for member_id in members[1:]:
            process, best = self._process_of[member_id], self._process_of[chosen]
            if (
                process.load < best.load
                and excluded_task not in process.tasks
                and process.counts[member_id] < best.counts[chosen]
            ):
                chosen = member_id
        return chosen

    @staticmethod
    def _add_task(
        assignment: dict[MemberId, dict[str, set[int]]], member_id: MemberId, task: TaskId
    ) -> None:
        assignment.setdefault(member_id, {}).setdefault(task.subtopology, set()).add(task.partition)

    # Standby tasks

    def assign_standby(self) -> None:
        """Assign standbys of each stateful task, as far as there are enough processes."""
        stateful = [
            TaskId(name, partition)
            for name, size in self._subtopologies.items()
            if size.is_stateful
            for partition in range(size.task_count)
        ]
        stateful.sort(key=lambda task: (task.partition, task.subtopology), reverse=True)
        unassigned: list[tuple[TaskId, int]] = []
        for task in stateful:
            assigned_count = 0
            while assigned_count < self._standby_replicas and self._retain_standby(task):
                assigned_count += 1
            unassigned.append((task, self._standby_replicas - assigned_count))
        queue = JavaPriorityQueue(_load_of, self._processes)
        for task, replicas in sorted(unassigned, reverse=True):
            for assigned_count in range(replicas):
                if not self._assign_new_standby(task, queue):
                    self._count(missing=replicas - assigned_count)
                    break
                self._count(least_loaded=1)

    def _count(self, **added: int) -> None:
        before = self.placement
        self.placement = before._replace(
            **{reason: getattr(before, reason) + count for reason, count in added.items()}
        )

    def _retain_standby(self, task: TaskId) -> bool:
        """Assign a standby to a member with state of the task, if its quota is not reached."""
        # First the previous owner of the active task, then the least loaded previous standby.
        previous_owner = self._previous_active.get(task)
        if previous_owner is not None and self._assign_standby_to(task, previous_owner):
            self._count(with_previous_owner=1)
            return True
        candidate = self._least_loaded(self._previous_standby.get(task, ()), task)
        if candidate is None or not self._assign_standby_to(task, candidate):
            return False
        self._count(with_state=1)
        return True

    def _assign_standby_to(self, task: TaskId, member_id: MemberId) -> bool:
        process = self._process_of[member_id]
        if task in process.tasks or process.counts[member_id] >= self._total_quota.tasks_per_member:
            return False
        self._add_task(self.standby, member_id, task)
        self._total_quota.on_task_added(process.assign(member_id, task))
        return True

    def _assign_new_standby(self, task: TaskId, queue: JavaPriorityQueue[_Process]) -> bool:
        """Assign a standby to the least loaded process without the task; False if there is none."""
        popped_processes: list[_Process] = []
        is_assigned = False
        while queue and not is_assigned:
            process = queue.pop()
            popped_processes.append(process)
            if task not in process.tasks:
                member_id = process.assign_to_least_loaded(task)
                self._add_task(self.standby, member_id, task)
                self._total_quota.on_task_added(process.counts[member_id])
                is_assigned = True
        for process in reversed(popped_processes):
            queue.push(process)
        return is_assigned


def _tasks_in(tasks: TaskIds) -> list[TaskId]:
    return [TaskId(name, partition) for name in sorted(tasks) for partition in sorted(tasks[name])]


def _find_or_add_process(
    processes: JavaHashMap[str, _Process], process_id: str, rules: Rules
) -> _Process:
    if not rules.computes_processes:
        if process_id not in processes:
            processes.put(process_id, _Process(process_id))
        return processes[process_id]
    return processes.compute_if_absent(process_id, lambda: _Process(process_id))


def _tasks_with_state(member: MemberSpec) -> Iterator[tuple[TaskId, bool, int]]:
    """Yield each task of which the member has state, whether as a standby, and its offset."""
    offsets = member.offsets
    standby = _tasks_in(member.previous.standby)
    for task in standby:
        yield task, True, offsets.get(task.subtopology, {}).get(task.partition, 0)
    for name, offset_by_partition in sorted(offsets.items()):
        for partition, offset in sorted(offset_by_partition.items()):
            if partition not in member.previous.standby.get(name, ()):
                yield TaskId(name, partition), False, offset


def assign_tasks(
    members: Mapping[MemberId, MemberSpec],
    subtopologies: Mapping[str, SubtopologySize],
    standby_replicas: int,
    rules: Rules = Rules(),  # noqa: B008 - immutable
) -> tuple[dict[MemberId, Tasks], StandbyPlacement]:
    """Return the tasks of each member, and the reasons for the places of the standby tasks.

    All active tasks are assigned if there are members.
    """
    if not members:
        return {}, NOTHING_PLACED
    assignment = _StickyAssignment(members, subtopologies, standby_replicas, rules)
    assignment.assign_active()
    if standby_replicas > 0:
        assignment.assign_standby()
    targets = {
        member_id: Tasks(
            active=_freeze(assignment.active.get(member_id, {})),
            standby=_freeze(assignment.standby.get(member_id, {})),
        )
        for member_id in members
    }
    return targets, assignment.placement


def _freeze(tasks: Mapping[str, set[int]]) -> dict[str, AbstractSet[int]]:
    return {name: frozenset(partitions) for name, partitions in sorted(tasks.items())}
