"""Streams groups: the replay law, and invariants for any behaviour of members."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkalite.groups.group import CommitClaim
from kafkalite.groups.modern.offset_commit_fencing import FENCING_KEY, RULES
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.metadata.image import ConfigResource, MetadataDelta, ResourceType
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.effort import examples
from tests.scenarios.streams_coordinator import (
    ManualStreamsCoordinator,
    Request,
    internal,
    reading,
    tasks,
    tasks_in,
)

if TYPE_CHECKING:
    from kafkalite.groups.shard import GroupShard
    from kafkalite.groups.streams.tasks import TaskEpochs, TaskIds
    from tests.scenarios.streams_coordinator import Response

GROUPS = st.sampled_from(["g", "h"])
MEMBERS = st.sampled_from(["a1", "a2", "b1", "c1"])
"""The letter names the process: members with the same letter share it."""
TIMES_MS = st.sampled_from([0, 1, 500, 1_000, 5_000, 44_000, 60_000, 8 * 24 * 3_600_000])
TOPOLOGIES = (
    [reading("in"), reading("other", name="1", state_changelog_topics=[internal("store")])],
    [reading("in", "other")],
)
Task = tuple[str, int]


def pairs(partitions_by_task: TaskIds | TaskEpochs) -> set[Task]:
    return {
        (name, partition)
        for name, partitions in partitions_by_task.items()
        for partition in partitions
    }


def streams_groups(machine: GroupShard) -> list[StreamsGroup]:
    return [group for group in machine.directory.groups.values() if isinstance(group, StreamsGroup)]


def hard_state(machine: GroupShard) -> dict[str, object]:
    """Return the durable state of streams groups."""
    return {
        group.group_id: (
            group.epoch,
            group.metadata_hash,
            group.validated_topology_epoch,
            group.assignment_configs,
            group.target_epoch,
            group.target_timestamp_ms,
            group.topology,
            group.members,
            group.current,
            group.target,
        )
        for group in streams_groups(machine)
    }


def active_of(group: StreamsGroup, member: str) -> set[Task]:
    """Return the active tasks of a member, including those it must release."""
    current = group.current_of(member)
    return pairs(current.assigned.active) | pairs(current.pending_revocation.active)


def may_commit(group: StreamsGroup, member: str, epoch: int, task: Task) -> bool:
    """Whether a commit for a task's partition would be accepted."""
    claim = CommitClaim(
        member_id=member, group_instance_id=None, generation_id_or_member_epoch=epoch
    )
    assert group.topology is not None
    topic = group.topology.subtopologies[task[0]].source_topics[0]
    try:
        check = group.validate_offset_commit(claim)
        if check is not None:
            check(topic, bytes(16), task[1])
    except KafkaError:
        return False
    return True


class StreamsHistory(RuleBasedStateMachine):
    """Members send any requests in any order; the law and the invariants hold after every step."""

    @initialize(
        standbys=st.sampled_from(["0", "1"]),
        interval_ms=st.sampled_from(["0", "0", "500"]),
        delay_ms=st.sampled_from(["0", "0", "3000"]),
    )
    def begin(self, standbys: str, interval_ms: str, delay_ms: str) -> None:
        self.coordinator = ManualStreamsCoordinator(
            {"in": 3, "other": 2, "store": 2},
            {
                "group.streams.assignment.interval.ms": interval_ms,
                "group.streams.num.standby.replicas": standbys,
                "group.streams.initial.rebalance.delay.ms": delay_ms,
            },
        )
        self.epochs: dict[tuple[str, str], int] = {}
        self.owned: dict[tuple[str, str], tuple[dict[str, list[int]], dict[str, list[int]]]] = {}
        self.lost: dict[tuple[str, str, Task], int] = {}
        self.last_groups: dict[str, StreamsGroup] = {}
        self.last_tasks: dict[tuple[str, str], tuple[int, set[Task]]] = {}
        self.last_epochs: dict[str, tuple[int, int]] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        for member in ("a1", "b1"):
            self.join("g", member, 0)

    def ask(self, request: Request) -> Response | None:
        """Send a heartbeat as a client that follows its assignments."""
        key = (request.group_id, request.member_id)
        try:
            response = self.coordinator.ask(request).response
        except KafkaError as refusal:
            assert refusal.code in {  # noqa: PT017
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.GROUP_ID_NOT_FOUND,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.UNKNOWN_MEMBER_ID,
            }
            self.epochs.pop(key, None)
            self.owned.pop(key, None)
            return None
        self.epochs[key] = response.member_epoch
        active, standby = tasks_in(response.active_tasks), tasks_in(response.standby_tasks)
        if active is not None:
            self.owned[key] = (active, standby or {})
        return response

    @rule(group=GROUPS, member=MEMBERS, topology=st.sampled_from([0] * 9 + [1]))
    def join(self, group: str, member: str, topology: int) -> None:
        self.coordinator.subtopologies = TOPOLOGIES[topology]
        self.ask(self.coordinator.joining(member, group=group, process_id=member[0]))

    @rule(group=GROUPS, member=MEMBERS, reports=st.booleans(), behind=st.sampled_from([0, 0, 0, 1]))
    def beat(self, group: str, member: str, behind: int, *, reports: bool) -> None:
        key = (group, member)
        epoch = self.epochs.get(key, 1) - behind
        request = Request(group_id=group, member_id=member, member_epoch=max(epoch, 1))
        if reports:
            active, standby = self.owned.get(key, ({}, {}))
            request.active_tasks = tasks(active)
            request.standby_tasks = tasks(standby)
            request.warmup_tasks = []
        self.ask(request)

    @rule(group=GROUPS, reports=st.booleans())
    def all_beat(self, group: str, *, reports: bool) -> None:
        for name, member in list(self.epochs):
            if name == group:
                self.beat(group, member, 0, reports=reports)

    @rule()
    def reconcile(self) -> None:
        """Let all members follow their assignments until they are stable."""
        for _ in range(4):
            self.coordinator.clock.advance(500)
            for group in ("g", "h"):
                self.all_beat(group, reports=True)

    @rule(group=GROUPS, member=MEMBERS)
    def report_false_tasks(self, group: str, member: str) -> None:
        """Report tasks that were never assigned, and a future epoch."""
        epoch = self.epochs.get((group, member), 0) + 1
        request = Request(group_id=group, member_id=member, member_epoch=epoch)
        request.active_tasks = tasks({"0": [0, 1, 2]})
        request.standby_tasks = request.warmup_tasks = []
        self.ask(request)

    @rule(group=GROUPS, member=MEMBERS)
    def leave(self, group: str, member: str) -> None:
        self.ask(Request(group_id=group, member_id=member, member_epoch=-1))
        self.epochs.pop((group, member), None)

    @rule(group=GROUPS, replicas=st.sampled_from(["0", "1", "2"]))
    def configure(self, group: str, replicas: str) -> None:
        self.group_configs = {group: {"streams.num.standby.replicas": replicas}}
        self.coordinator.config.publish({}, self.group_configs)
        resource = ConfigResource(ResourceType.GROUP, group)
        self.coordinator.show(MetadataDelta(configs=frozenset({resource})))

    @rule(counts=st.sampled_from([(3, 2), (4, 2), (1, 1), (0, 2)]))
    def change_topics(self, counts: tuple[int, int]) -> None:
        """Change the numbers of partitions; zero means that the topic was deleted."""
        partitions, other_count = counts
        self.coordinator.set_topic("other", other_count)
        self.coordinator.set_topic("store", other_count)
        if partitions:
            self.coordinator.set_topic("in", partitions)
        elif (deleted := self.coordinator.topics.pop("in", None)) is not None:
            self.coordinator.show(MetadataDelta(deleted=(deleted,)))

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        try:
            self.coordinator.shard.write(lambda machine, _: machine.offsets.delete_group(group))
        except KafkaError as refusal:
            assert refusal.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP)  # noqa: PT017

    @rule(group=GROUPS, limit=st.integers(1, 3), fails=st.booleans())
    def reset_group(self, group: str, limit: int, *, fails: bool) -> None:
        """Remove the members and delete the group, as a reset of the broker does."""
        shard = self.coordinator.shard
        self.coordinator.log.next_error = OSError(28, "disk full") if fails else None
        before = hard_state(self.coordinator.machine)
        try:
            while shard.write(lambda machine, now_ms: machine.remove_members(group, now_ms, limit)):
                pass
        except KafkaError:
            assert hard_state(self.coordinator.machine) == before
            return
        finally:
            self.coordinator.log.next_error = None
        with suppress(KafkaError):  # the group does not exist
            shard.write(lambda machine, _: machine.offsets.delete_group(group, "a reset"))
        assert self.coordinator.machine.group(group) is None

    @rule(ms=TIMES_MS)
    def wait(self, ms: int) -> None:
        self.coordinator.clock.advance(ms)

    @rule(group=GROUPS, member=MEMBERS)
    def fail(self, group: str, member: str) -> None:
        """Fill the disk for one append: the decision has no effect."""
        before = hard_state(self.coordinator.machine)
        self.coordinator.log.next_error = OSError(28, "disk full")
        try:
            self.coordinator.ask(
                self.coordinator.joining(member, group=group, process_id=member[0])
            )
        except KafkaError:
            assert hard_state(self.coordinator.machine) == before
        self.coordinator.log.next_error = None

    @rule()
    def restart(self) -> None:
        self.coordinator = self.coordinator.again()
        self.last_groups.clear()
        self.last_epochs.clear()

    @invariant()
    def replay_equals_state(self) -> None:
        if hasattr(self, "coordinator"):
            decided = hard_state(self.coordinator.machine)
            assert (
                hard_state(self.coordinator.again(self.coordinator.log.with_short_runs()).machine)
                == decided
            )
            assert (
                hard_state(self.coordinator.again(self.coordinator.log.compact()).machine)
                == decided
            )

    @invariant()
    def no_task_has_two_owners(self) -> None:
        for group in (
            streams_groups(self.coordinator.machine) if hasattr(self, "coordinator") else ()
        ):
            active = [active_of(group, member) for member in group.current]
            assert sum(map(len, active)) == len(set().union(*active))
            process_tasks = []
            for member, current in group.current.items():
                held = [
                    task
                    for by_role in (current.assigned, current.pending_revocation)
                    for task in chain(
                        pairs(by_role.active), pairs(by_role.standby), pairs(by_role.warmup)
                    )
                ]
                # A member has a task twice while it turns the active task into a standby.
                demoted = pairs(current.assigned.standby) & pairs(current.pending_revocation.active)
                assert len(held) - len(demoted) == len(set(held))
                process_tasks += [(task, group.members[member].process_id) for task in set(held)]
            assert len(process_tasks) == len(set(process_tasks)), "a process has a task twice"

    @invariant()
    def epochs_keep_their_order_and_only_grow(self) -> None:
        for group in (
            streams_groups(self.coordinator.machine) if hasattr(self, "coordinator") else ()
        ):
            assert group.target_epoch <= group.epoch
            if self.last_groups.get(group.group_id) is group:
                epoch, target_epoch = self.last_epochs[group.group_id]
                assert (group.epoch, group.target_epoch) >= (epoch, target_epoch)
            self.last_groups[group.group_id] = group
            self.last_epochs[group.group_id] = (group.epoch, group.target_epoch)
            for current in group.current.values():
                assert current.member_epoch <= group.target_epoch
                assert current.revocation.epoch < max(current.member_epoch, 1)
                for by_role in (current.assigned, current.pending_revocation):
                    for epochs in by_role.active.values():
                        assert max(epochs.values()) <= current.member_epoch

    @invariant()
    def only_owners_can_commit(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        owned_tasks: dict[tuple[str, str], tuple[int, set[Task]]] = {}
        for group in streams_groups(self.coordinator.machine):
            for member in group.members:
                key = (group.group_id, member)
                epoch = group.current_of(member).member_epoch
                owned_tasks[key] = epoch, active_of(group, member)
                last_epoch, earlier_tasks = self.last_tasks.get(key, (0, set()))
                for task in earlier_tasks - owned_tasks[key][1]:
                    self.lost[*key, task] = last_epoch
        removed_members = self.last_tasks.keys() - owned_tasks.keys()
        self.lost = {
            (name, member, task): last_epoch
            for (name, member, task), last_epoch in self.lost.items()
            if (name, member) not in removed_members
        }
        self.last_tasks = owned_tasks
        for fencing in RULES:
            self.coordinator.config.publish({FENCING_KEY: fencing}, self.group_configs)
            self._check_zombies()
        self.coordinator.config.publish({}, self.group_configs)
        self._check_holders()

    def _check_zombies(self) -> None:
        """Check that commits at an old epoch are refused for tasks that were released since."""
        groups = {group.group_id: group for group in streams_groups(self.coordinator.machine)}
        for (name, member, task), last_epoch in self.lost.items():
            group = groups[name]
            if (
                last_epoch < group.current_of(member).member_epoch
                and task not in active_of(group, member)
                and group.topology is not None
                and task[0] in group.topology.subtopologies
            ):
                assert not may_commit(group, member, last_epoch, task)

    def _check_holders(self) -> None:
        """Check that members may commit their tasks at every epoch since the assignment."""
        for group in streams_groups(self.coordinator.machine):
            for member, current in group.current.items():
                for task in active_of(group, member):
                    since = current.assignment_epoch(*task)
                    assert since is not None
                    for epoch in range(max(since, 1), current.member_epoch + 1):
                        assert may_commit(group, member, epoch, task)


StreamsHistory.TestCase.settings = settings(
    max_examples=examples(40),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestStreamsReplayLaw = StreamsHistory.TestCase
