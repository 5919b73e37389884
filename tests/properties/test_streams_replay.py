"""Streams groups: the replay law, and what must never happen whatever members do."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkalite.groups.fencing import FENCING_KEY, RULES
from kafkalite.groups.group import CommitClaim
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.metadata.image import ConfigResource, MetadataDelta, ResourceType
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.effort import examples
from tests.scenarios.streams_world import Request, StreamsWorld, internal, reading, tasks, told

if TYPE_CHECKING:
    from kafkalite.groups.shard import GroupShard
    from kafkalite.groups.streams.tasks import EpochsOfTasks, TaskIds
    from tests.scenarios.streams_world import Response

GROUPS = st.sampled_from(["g", "h"])
MEMBERS = st.sampled_from(["a1", "a2", "b1", "c1"])
"""The letter is the process, which members of the same letter share."""
TIMES_MS = st.sampled_from([0, 1, 500, 1_000, 5_000, 44_000, 60_000, 8 * 24 * 3_600_000])
TOPOLOGIES = (
    [reading("in"), reading("other", name="1", state_changelog_topics=[internal("store")])],
    [reading("in", "other")],
)
Task = tuple[str, int]


def pairs(held: TaskIds | EpochsOfTasks) -> set[Task]:
    return {(name, partition) for name, partitions in held.items() for partition in partitions}


def streams_groups(machine: GroupShard) -> list[StreamsGroup]:
    return [each for each in machine.directory.groups.values() if isinstance(each, StreamsGroup)]


def hard_state(machine: GroupShard) -> dict[str, object]:
    """Return all that must last of streams groups."""
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
    """Return the active tasks a member has, those it is to give up among them."""
    current = group.current_of(member)
    return pairs(current.assigned.active) | pairs(current.pending_revocation.active)


def may_commit(group: StreamsGroup, member: str, epoch: int, task: Task) -> bool:
    """Whether a commit for a task's partition would be taken."""
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
    """Members do what they like, in any order; the law and the promises hold after every step."""

    @initialize(
        standbys=st.sampled_from(["0", "1"]),
        interval_ms=st.sampled_from(["0", "0", "500"]),
        delay_ms=st.sampled_from(["0", "0", "3000"]),
    )
    def begin(self, standbys: str, interval_ms: str, delay_ms: str) -> None:
        self.world = StreamsWorld(
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
        self.seen: dict[str, StreamsGroup] = {}
        self.held: dict[tuple[str, str], tuple[int, set[Task]]] = {}
        self.heights: dict[str, tuple[int, int]] = {}
        self.own: dict[str, dict[str, str]] = {}
        for member in ("a1", "b1"):
            self.join("g", member, 0)

    def ask(self, request: Request) -> Response | None:
        """Send a heartbeat as a client that believes what it is told."""
        who = (request.group_id, request.member_id)
        try:
            response = self.world.ask(request).response
        except KafkaError as refusal:
            assert refusal.code in {  # noqa: PT017
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.GROUP_ID_NOT_FOUND,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.UNKNOWN_MEMBER_ID,
            }
            self.epochs.pop(who, None)
            self.owned.pop(who, None)
            return None
        self.epochs[who] = response.member_epoch
        active, standby = told(response.active_tasks), told(response.standby_tasks)
        if active is not None:
            self.owned[who] = (active, standby or {})
        return response

    @rule(group=GROUPS, member=MEMBERS, topology=st.sampled_from([0] * 9 + [1]))
    def join(self, group: str, member: str, topology: int) -> None:
        self.world.subtopologies = TOPOLOGIES[topology]
        self.ask(self.world.joining(member, group=group, process_id=member[0]))

    @rule(group=GROUPS, member=MEMBERS, says=st.booleans(), behind=st.sampled_from([0, 0, 0, 1]))
    def beat(self, group: str, member: str, behind: int, *, says: bool) -> None:
        who = (group, member)
        epoch = self.epochs.get(who, 1) - behind
        request = Request(group_id=group, member_id=member, member_epoch=max(epoch, 1))
        if says:
            active, standby = self.owned.get(who, ({}, {}))
            request.active_tasks = tasks(active)
            request.standby_tasks = tasks(standby)
            request.warmup_tasks = []
        self.ask(request)

    @rule(group=GROUPS, says=st.booleans())
    def all_beat(self, group: str, *, says: bool) -> None:
        for name, member in list(self.epochs):
            if name == group:
                self.beat(group, member, 0, says=says)

    @rule()
    def settle(self) -> None:
        """Let everybody do as it is told until nothing is left to do."""
        for _ in range(4):
            self.world.clock.advance(500)
            for group in ("g", "h"):
                self.all_beat(group, says=True)

    @rule(group=GROUPS, member=MEMBERS)
    def lie(self, group: str, member: str) -> None:
        """Report tasks that were never given, and an epoch of the future."""
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
        self.own = {group: {"streams.num.standby.replicas": replicas}}
        self.world.config.publish({}, self.own)
        resource = ConfigResource(ResourceType.GROUP, group)
        self.world.show(MetadataDelta(configs=frozenset({resource})))

    @rule(counts=st.sampled_from([(3, 2), (4, 2), (1, 1), (0, 2)]))
    def change_topics(self, counts: tuple[int, int]) -> None:
        """Give topics other numbers of partitions; none is a topic that is gone."""
        partitions, others = counts
        self.world.set_topic("other", others)
        self.world.set_topic("store", others)
        if partitions:
            self.world.set_topic("in", partitions)
        elif (gone := self.world.topics.pop("in", None)) is not None:
            self.world.show(MetadataDelta(deleted=(gone,)))

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        try:
            self.world.shard.write(lambda machine, _: machine.offsets.delete_group(group))
        except KafkaError as refusal:
            assert refusal.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP)  # noqa: PT017

    @rule(ms=TIMES_MS)
    def wait(self, ms: int) -> None:
        self.world.clock.advance(ms)

    @rule(group=GROUPS, member=MEMBERS)
    def fail(self, group: str, member: str) -> None:
        """Fill the disk for one append: the decision comes to nothing."""
        before = hard_state(self.world.machine)
        self.world.log.fails_with = OSError(28, "disk full")
        try:
            self.world.ask(self.world.joining(member, group=group, process_id=member[0]))
        except KafkaError:
            assert hard_state(self.world.machine) == before
        self.world.log.fails_with = None

    @rule()
    def restart(self) -> None:
        self.world = self.world.again()
        self.seen.clear()
        self.heights.clear()

    @invariant()
    def the_law(self) -> None:
        if hasattr(self, "world"):
            decided = hard_state(self.world.machine)
            assert hard_state(self.world.again(self.world.log.in_runs()).machine) == decided
            assert hard_state(self.world.again(self.world.log.compacted()).machine) == decided

    @invariant()
    def no_task_is_done_twice(self) -> None:
        for group in streams_groups(self.world.machine) if hasattr(self, "world") else ():
            doing = [active_of(group, member) for member in group.current]
            assert sum(map(len, doing)) == len(set().union(*doing))
            places = [
                (task, group.members[member].process_id)
                for member, current in group.current.items()
                for held in (current.assigned, current.pending_revocation)
                for task in chain(pairs(held.active), pairs(held.standby), pairs(held.warmup))
            ]
            assert len(places) == len(set(places)), "a process has a task twice"

    @invariant()
    def epochs_keep_their_order_and_only_grow(self) -> None:
        for group in streams_groups(self.world.machine) if hasattr(self, "world") else ():
            assert group.target_epoch <= group.epoch
            if self.seen.get(group.group_id) is group:
                epoch, target_epoch = self.heights[group.group_id]
                assert (group.epoch, group.target_epoch) >= (epoch, target_epoch)
            self.seen[group.group_id] = group
            self.heights[group.group_id] = (group.epoch, group.target_epoch)
            for current in group.current.values():
                assert current.member_epoch <= group.target_epoch
                assert current.revocation.epoch < max(current.member_epoch, 1)
                for held in (current.assigned, current.pending_revocation):
                    for epochs in held.active.values():
                        assert max(epochs.values()) <= current.member_epoch

    @invariant()
    def zombies_commit_nothing_and_holders_what_they_hold(self) -> None:
        if not hasattr(self, "world"):
            return
        held: dict[tuple[str, str], tuple[int, set[Task]]] = {}
        for group in streams_groups(self.world.machine):
            for member in group.members:
                who = (group.group_id, member)
                epoch = group.current_of(member).member_epoch
                held[who] = epoch, active_of(group, member)
                left, had = self.held.get(who, (0, set()))
                for task in had - held[who][1]:
                    self.lost[*who, task] = left
        gone = self.held.keys() - held.keys()
        self.lost = {
            (name, member, task): left
            for (name, member, task), left in self.lost.items()
            if (name, member) not in gone
        }
        self.held = held
        for each in RULES:
            self.world.config.publish({FENCING_KEY: each}, self.own)
            self._check_zombies()
        self.world.config.publish({}, self.own)
        self._check_holders()

    def _check_zombies(self) -> None:
        """Check that nobody commits what it gave up, at an epoch it left by that or before."""
        groups = {group.group_id: group for group in streams_groups(self.world.machine)}
        for (name, member, task), left in self.lost.items():
            group = groups[name]
            if (
                left < group.current_of(member).member_epoch
                and task not in active_of(group, member)
                and group.topology is not None
                and task[0] in group.topology.subtopologies
            ):
                assert not may_commit(group, member, left, task)

    def _check_holders(self) -> None:
        """Check that members commit what they have, at every epoch since they have it."""
        for group in streams_groups(self.world.machine):
            for member, current in group.current.items():
                for task in active_of(group, member):
                    since = current.assignment_epoch(*task)
                    assert since is not None
                    for epoch in range(max(since, 1), current.member_epoch + 1):
                        assert may_commit(group, member, epoch, task)


StreamsHistory.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestStreamsReplayLaw = StreamsHistory.TestCase
