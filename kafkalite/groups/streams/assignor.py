"""The sticky task assignor: who is to do which task (KIP-1071, `sticky`).

Tasks stay where they were as long as the load stays even; then they go to whoever kept a standby
of them, then to the process with the least load. Load is counted per process, by its number of
members, since it is processes that have disks and cores. Standbys go to other processes than the
active task.

Kafka breaks ties in the order of its hash tables and heaps. Here ids decide, and whoever has waited
longest; the same members always get the same tasks.
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
    """A member, as an assignor needs to know it."""

    process_id: str
    previous: Tasks


class SubtopologySize(NamedTuple):
    """A subtopology, as an assignor needs to know it."""

    task_count: int
    is_stateful: bool


class _Process:
    """One process: its members, and what they have been given so far."""

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

    def add(self, member_id: MemberId, task: TaskId) -> int:
        """Give a task to one of the members; how many it has now."""
        self._by_load = None
        return self._count(member_id, task)

    def _count(self, member_id: MemberId, task: TaskId) -> int:
        self.tasks.add(task)
        self.task_count += 1
        self.counts[member_id] += 1
        return self.counts[member_id]

    def least_loaded(self, task: TaskId) -> MemberId:
        """Give a task to the member that has the fewest, and return which that is."""
        if self._by_load is None:
            ids = sorted(self.counts)
            self._by_load = [(self.counts[each], turn, each) for turn, each in enumerate(ids)]
            heapify(self._by_load)
        _, _, member_id = heappop(self._by_load)
        count = self._count(member_id, task)
        heappush(self._by_load, (count, self.task_count + len(self.counts), member_id))
        return member_id


class _Quota:
    """An even share of tasks; members that have theirs are set aside, and the rest share again."""

    __slots__ = ("_members", "_tasks", "share")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self._divide()

    def _divide(self) -> None:
        self.share = -(-self._tasks // self._members) if self._members else 0

    def reached(self, count: int) -> None:
        """Note that a member has this many tasks now."""
        if count == self.share:
            self._members -= 1
            self._tasks -= count
            self._divide()


class _Assignment:
    """One run of the assignor."""

    def __init__(
        self,
        members: Mapping[MemberId, MemberSpec],
        subtopologies: Mapping[str, SubtopologySize],
        standby_replicas: int,
    ) -> None:
        self._subtopologies = subtopologies
        self._replicas = standby_replicas
        self._process_of: dict[MemberId, _Process] = {}
        processes: dict[str, _Process] = {}
        self._did: dict[TaskId, MemberId] = {}
        self._stood_by: dict[TaskId, list[MemberId]] = {}
        for member_id, member in sorted(members.items()):
            process_id = member.process_id
            process = processes.setdefault(process_id, _Process(process_id))
            process.counts[member_id] = 0
            self._process_of[member_id] = process
            self._did.update(dict.fromkeys(_tasks_in(member.previous.active), member_id))
            for task in _tasks_in(member.previous.standby):
                self._stood_by.setdefault(task, []).append(member_id)
        self._processes = [processes[each] for each in sorted(processes)]
        active = sum(each.task_count for each in subtopologies.values())
        stateful = sum(each.task_count for each in subtopologies.values() if each.is_stateful)
        self._active_quota = _Quota(active, len(members))
        self._total_quota = _Quota(active + stateful * standby_replicas, len(members))
        self.active: dict[MemberId, dict[str, set[int]]] = {}
        self.standby: dict[MemberId, dict[str, set[int]]] = {}

    # Active tasks

    def assign_active(self) -> None:
        """Give every task to somebody."""
        # By partition first, so that the tasks of different subtopologies that were paired stay so.
        left = sorted(
            (
                TaskId(name, partition)
                for name, size in self._subtopologies.items()
                for partition in range(size.task_count)
            ),
            key=lambda task: (task.partition, task.subtopology),
        )
        left = [task for task in left if not self._keep(task, self._did.get(task))]
        left = [
            task
            for task in left
            if not self._keep(task, self._least_loaded(self._stood_by.get(task, ()), None))
        ]
        queue = _Queue(self._processes)
        for task in sorted(left):
            process = queue.pop()
            member_id = process.least_loaded(task)
            self._note(self.active, member_id, task)
            self._active_quota.reached(process.counts[member_id])
            self._total_quota.reached(process.counts[member_id])
            queue.push(process)

    def _keep(self, task: TaskId, member_id: MemberId | None) -> bool:
        """Give an active task to a member that knows it, unless that has its share."""
        if member_id is None:
            return False
        process = self._process_of[member_id]
        if process.counts[member_id] >= self._active_quota.share:
            return False
        count = process.add(member_id, task)
        self._note(self.active, member_id, task)
        self._active_quota.reached(count)
        self._total_quota.reached(count)
        return True

    def _least_loaded(
        self, members: Sequence[MemberId], unless_has: TaskId | None
    ) -> MemberId | None:
        """Return the member whose process and who itself have least to do.

        Processes that have the task `unless_has` in some form already are passed over; Kafka looks
        no further when the first is one of these.
        """
        if not members or unless_has in self._process_of[members[0]].tasks:
            return None
        chosen = members[0]
        for member_id in members[1:]:
            process, best = self._process_of[member_id], self._process_of[chosen]
            if (
                process.load < best.load
                and unless_has not in process.tasks
                and process.counts[member_id] < best.counts[chosen]
            ):
                chosen = member_id
        return chosen

    @staticmethod
    def _note(to: dict[MemberId, dict[str, set[int]]], member_id: MemberId, task: TaskId) -> None:
        to.setdefault(member_id, {}).setdefault(task.subtopology, set()).add(task.partition)

    # Standby tasks

    def assign_standby(self) -> None:
        """Give each stateful task its standbys, as far as there are processes for them."""
        stateful = [
            TaskId(name, partition)
            for name, size in self._subtopologies.items()
            if size.is_stateful
            for partition in range(size.task_count)
        ]
        stateful.sort(key=lambda task: (task.partition, task.subtopology), reverse=True)
        left: list[tuple[TaskId, int]] = []
        for task in stateful:
            given = 0
            while given < self._replicas and self._keep_standby(task):
                given += 1
            left.append((task, self._replicas - given))
        queue = _Queue(self._processes)
        for task, replicas in sorted(left, reverse=True):
            for _ in range(replicas):
                if not self._give_standby(task, queue):
                    break

    def _keep_standby(self, task: TaskId) -> bool:
        """Give a standby to a member that has state of the task, if there is one with room."""
        # The member that did the task comes first; then the least of those that stood by.
        did = self._did.get(task)
        if did is not None and self._stand_by(task, did):
            return True
        stood_by = self._least_loaded(self._stood_by.get(task, ()), task)
        return stood_by is not None and self._stand_by(task, stood_by)

    def _stand_by(self, task: TaskId, member_id: MemberId) -> bool:
        process = self._process_of[member_id]
        if task in process.tasks or process.counts[member_id] >= self._total_quota.share:
            return False
        self._note(self.standby, member_id, task)
        self._total_quota.reached(process.add(member_id, task))
        return True

    def _give_standby(self, task: TaskId, queue: _Queue) -> bool:
        """Give a standby to the process with the least load among those without the task."""
        passed_over: list[_Process] = []
        found = False
        while queue and not found:
            process = queue.pop()
            passed_over.append(process)
            if task not in process.tasks:
                member_id = process.least_loaded(task)
                self._note(self.standby, member_id, task)
                self._total_quota.reached(process.counts[member_id])
                found = True
        for process in reversed(passed_over):
            queue.push(process)
        return found


class _Queue:
    """Processes by their load; among equals, whoever has waited longest."""

    def __init__(self, processes: Iterable[_Process]) -> None:
        self._heap = [(each.load, turn, each) for turn, each in enumerate(processes)]
        self._turn = len(self._heap)
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def pop(self) -> _Process:
        return heappop(self._heap)[2]

    def push(self, process: _Process) -> None:
        heappush(self._heap, (process.load, self._turn, process))
        self._turn += 1


def _tasks_in(tasks: TaskIds) -> list[TaskId]:
    return [TaskId(name, each) for name in sorted(tasks) for each in sorted(tasks[name])]


def assign_sticky(
    members: Mapping[MemberId, MemberSpec],
    subtopologies: Mapping[str, SubtopologySize],
    standby_replicas: int,
) -> dict[MemberId, Tasks]:
    """Return what each member is to do; every active task is somebody's, if anybody is there."""
    if not members:
        return {}
    run = _Assignment(members, subtopologies, standby_replicas)
    run.assign_active()
    if standby_replicas > 0:
        run.assign_standby()
    return {
        member_id: Tasks(
            active=_frozen(run.active.get(member_id, {})),
            standby=_frozen(run.standby.get(member_id, {})),
        )
        for member_id in members
    }


def _frozen(tasks: Mapping[str, set[int]]) -> dict[str, AbstractSet[int]]:
    return {name: frozenset(partitions) for name, partitions in sorted(tasks.items())}
