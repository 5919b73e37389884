"""The `sticky` assignor of streams groups (KIP-1071).

An active task stays with its previous member as long as the load is even. Otherwise it goes to a
member with a standby of the task, or else to the process with the least load. Load is the number of
tasks per member of a process. Standby tasks are assigned to other processes than the active task.

Kafka breaks ties by the order of its hash maps and heaps. Here ties are broken by id and then by
the order of insertion, so that the same members always get the same tasks.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.groups.streams.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
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


class SubtopologySize(NamedTuple):
    """A subtopology as the assignor sees it."""

    task_count: int
    is_stateful: bool


class _Process:
    """One process with its members, and the tasks assigned to them so far."""

    __slots__ = ("_by_load", "counts", "process_id", "task_count", "tasks")

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.counts: dict[MemberId, int] = {}
        self.tasks: set[TaskId] = set()
        self.task_count = 0
        self._by_load: list[tuple[int, int, MemberId]] | None = None

    @property
    def load(self) -> float:
        return self.task_count / len(self.counts)

    def assign(self, member_id: MemberId, task: TaskId) -> int:
        """Assign a task to a member; return its new number of tasks."""
        self._by_load = None
        return self._record(member_id, task)

    def _record(self, member_id: MemberId, task: TaskId) -> int:
        self.tasks.add(task)
        self.task_count += 1
        self.counts[member_id] += 1
        return self.counts[member_id]

    def assign_to_least_loaded(self, task: TaskId) -> MemberId:
        """Assign a task to the member with the fewest tasks; return this member."""
        if self._by_load is None:
            ids = sorted(self.counts)
            self._by_load = [
                (self.counts[member_id], order, member_id) for order, member_id in enumerate(ids)
            ]
            heapify(self._by_load)
        _, _, member_id = heappop(self._by_load)
        count = self._record(member_id, task)
        heappush(self._by_load, (count, self.task_count + len(self.counts), member_id))
        return member_id


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
    ) -> None:
        self._subtopologies = subtopologies
        self._standby_replicas = standby_replicas
        self._process_of: dict[MemberId, _Process] = {}
        processes: dict[str, _Process] = {}
        self._previous_active: dict[TaskId, MemberId] = {}
        self._previous_standby: dict[TaskId, list[MemberId]] = {}
        for member_id, member in sorted(members.items()):
            process_id = member.process_id
            process = processes.setdefault(process_id, _Process(process_id))
            process.counts[member_id] = 0
            self._process_of[member_id] = process
            self._previous_active.update(
                dict.fromkeys(_tasks_in(member.previous.active), member_id)
            )
            for task in _tasks_in(member.previous.standby):
                self._previous_standby.setdefault(task, []).append(member_id)
        self._processes = [processes[process_id] for process_id in sorted(processes)]
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
        queue = _Queue(self._processes)
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

        Processes that have `excluded_task` are skipped. If the process of the first member has it,
        the result is None, as in Kafka.
        """
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
        queue = _Queue(self._processes)
        for task, replicas in sorted(unassigned, reverse=True):
            for _ in range(replicas):
                if not self._assign_new_standby(task, queue):
                    break

    def _retain_standby(self, task: TaskId) -> bool:
        """Assign a standby to a member with state of the task, if its quota is not reached."""
        # First the previous owner of the active task, then the least loaded previous standby.
        previous_owner = self._previous_active.get(task)
        if previous_owner is not None and self._assign_standby_to(task, previous_owner):
            return True
        candidate = self._least_loaded(self._previous_standby.get(task, ()), task)
        return candidate is not None and self._assign_standby_to(task, candidate)

    def _assign_standby_to(self, task: TaskId, member_id: MemberId) -> bool:
        process = self._process_of[member_id]
        if task in process.tasks or process.counts[member_id] >= self._total_quota.tasks_per_member:
            return False
        self._add_task(self.standby, member_id, task)
        self._total_quota.on_task_added(process.assign(member_id, task))
        return True

    def _assign_new_standby(self, task: TaskId, queue: _Queue) -> bool:
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


class _Queue:
    """Processes ordered by load, then by the order of insertion."""

    def __init__(self, processes: Iterable[_Process]) -> None:
        self._heap = [(process.load, order, process) for order, process in enumerate(processes)]
        self._order = len(self._heap)
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def pop(self) -> _Process:
        return heappop(self._heap)[2]

    def push(self, process: _Process) -> None:
        heappush(self._heap, (process.load, self._order, process))
        self._order += 1


def _tasks_in(tasks: TaskIds) -> list[TaskId]:
    return [TaskId(name, partition) for name in sorted(tasks) for partition in sorted(tasks[name])]


def assign_tasks(
    members: Mapping[MemberId, MemberSpec],
    subtopologies: Mapping[str, SubtopologySize],
    standby_replicas: int,
) -> dict[MemberId, Tasks]:
    """Return the tasks of each member; all active tasks are assigned if there are members."""
    if not members:
        return {}
    assignment = _StickyAssignment(members, subtopologies, standby_replicas)
    assignment.assign_active()
    if standby_replicas > 0:
        assignment.assign_standby()
    return {
        member_id: Tasks(
            active=_freeze(assignment.active.get(member_id, {})),
            standby=_freeze(assignment.standby.get(member_id, {})),
        )
        for member_id in members
    }


def _freeze(tasks: Mapping[str, set[int]]) -> dict[str, AbstractSet[int]]:
    return {name: frozenset(partitions) for name, partitions in sorted(tasks.items())}
