"""Records and random walks of streams groups."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from tests.conformance.scenarios.commits import commit
from tests.conformance.scenarios.configs import GROUP, SET, alter, settled
from tests.conformance.scenarios.group_records import note_records
from tests.conformance.scenarios.streams_groups import (
    LEAVE,
    Owned,
    Request,
    Streams,
    internal,
    reading,
)
from tests.conformance.setup import create_topic, wait_for_group_coordinator

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
        StreamsGroupHeartbeatResponse,
    )
    from tests.conformance.scenario_cluster import ScenarioCluster

_STANDBYS = "streams.num.standby.replicas"
_PROCESSES = {"a": "a", "b": "b", "c": "a"}
# Kafka breaks ties by the order of its hash maps; with these names it is alphabetical.


class _Walker:
    """One member with its own view of its state."""

    def __init__(self, group: Streams, member: str) -> None:
        self._group, self._member = group, member
        self.epoch = 0
        self._active: Owned = {}
        self._standby: Owned = {}

    def join(self) -> Request:
        return self._group.join(self._member, process_id=_PROCESSES[self._member])

    def leave(self) -> Request:
        return self._group.heartbeat(self._member, LEAVE)

    def beat(self) -> Request:
        return self._group.heartbeat(self._member, self.epoch)

    def report(self) -> Request:
        return self._group.heartbeat(self._member, self.epoch, self._active, self._standby)

    def forget(self) -> Request:
        """Report only the first of its tasks."""
        first = {name: each[:1] for name, each in self._active.items()}
        return self._group.heartbeat(self._member, self.epoch, first)

    def lag(self) -> Request:
        """Send a heartbeat with an earlier epoch."""
        epoch = max(1, self.epoch - 1)
        return self._group.heartbeat(self._member, epoch, self._active, self._standby)

    def move(self) -> Request:
        return self._group.heartbeat(self._member, self.epoch, rack_id=f"rack-{self.epoch % 3}")

    def learn(self, answer: StreamsGroupHeartbeatResponse) -> None:
        if answer.error_code or answer.member_epoch < 0:
            self.epoch, self._active, self._standby = 0, {}, {}
            return
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self._active = _owned(answer.active_tasks)
            self._standby = _owned(answer.standby_tasks or [])


_STEPS: dict[Callable[[_Walker], Request] | None, int] = {
    _Walker.join: 3,
    _Walker.beat: 5,
    _Walker.report: 8,
    _Walker.forget: 1,
    _Walker.lag: 1,
    _Walker.leave: 1,
    _Walker.move: 1,
    None: 3,  # it commits
}


def streams_members_act_at_random(cluster: ScenarioCluster) -> None:
    """Walk with and without standbys, over topics of several sizes."""
    for seed in range(6):
        walk(cluster, seed)


def walk(cluster: ScenarioCluster, seed: int) -> None:
    """Run thirty random actions of three members, chosen by the seed."""
    name, size = f"{cluster.name}-{seed}", seed % 4 + 1
    for topic, partitions in (("in", size), ("other", 2), ("store", size)):
        create_topic(cluster, f"{name}-{topic}", partitions)
    wait_for_group_coordinator(cluster, name)
    if seed % 2:
        cluster.ask(alter(GROUP, name, (_STANDBYS, SET, "1")), 1)
        settled(cluster, _STANDBYS, "1", kind=GROUP, name=name)
    stateful = reading(f"{name}-in", state_changelog_topics=[internal(f"{name}-store")])
    group = Streams(name, (stateful, reading(f"{name}-other", name="1")))
    _walk(cluster, group, random.Random(seed))  # noqa: S311 - the same walk every time


def _walk(cluster: ScenarioCluster, group: Streams, choices: random.Random) -> None:
    walkers = {member: _Walker(group, member) for member in _PROCESSES}
    for _ in range(30):
        member = choices.choice([*walkers])
        walker = walkers[member]
        (step,) = choices.choices([*_STEPS], [*_STEPS.values()])
        if step is None:
            topic = f"{group.group}-{choices.choice(['in', 'other'])}"
            epoch = walker.epoch - choices.choice([0, 0, 1, 2])
            cluster.ask(commit(group.group, topic, 0, member_id=member, epoch=epoch), 9)
        else:
            # A client that is not in the group can only join or leave it.
            can = walker.epoch or step is _Walker.leave
            walker.learn(cluster.ask(step(walker) if can else walker.join(), 0))
    # The topology is omitted: whether a real broker already shows its partition counts depends
    # on the records since their computation.
    answer = cluster.probe(StreamsGroupDescribeRequest(group_ids=[group.group]), 0)
    (response,) = answer.groups
    cluster.record("state", [response.group_state, response.group_epoch, response.assignment_epoch])


def _owned(task_ids: list[StreamsGroupHeartbeatResponse.TaskIds]) -> Owned:
    return {each.subtopology_id: tuple(each.partitions) for each in task_ids}


def streams_groups_record_every_step(cluster: ScenarioCluster) -> None:
    """Join, share, run standby and move tasks, leave, delete the group; then read the log."""
    name = cluster.name
    for topic, partitions in (("in", 2), ("other", 3), ("store", 3)):
        create_topic(cluster, f"{name}-{topic}", partitions)
    wait_for_group_coordinator(cluster, name)
    cluster.ask(alter(GROUP, name, (_STANDBYS, SET, "1")), 1)
    settled(cluster, _STANDBYS, "1", kind=GROUP)
    store = internal(f"{name}-store", replicas=1, cleanup_policy="compact")
    together = [Request.CopartitionGroup(source_topics=[0])]
    group = Streams(
        name,
        (
            reading(f"{name}-other", state_changelog_topics=[store], copartition_groups=together),
            reading(f"{name}-in", name="1"),
        ),
        epoch=4,
    )
    zone = [Request.KeyValue(key="zone", value="x"), Request.KeyValue(key="area", value="y")]
    here = Request.Endpoint(host="here", port=70)
    cluster.ask(group.join("a", client_tags=zone, user_endpoint=here, rack_id="r"), 0)
    cluster.ask(group.join("b"), 0)
    response = cluster.ask(group.heartbeat("a", 2), 0)
    cluster.ask(group.heartbeat("a", 2, _owned(response.active_tasks)), 0)
    cluster.ask(group.heartbeat("b", 3), 0)
    cluster.ask(group.heartbeat("a", 3), 0)
    cluster.ask(group.heartbeat("b", 3, process_id="moved"), 0)
    cluster.ask(group.heartbeat("b", LEAVE), 0)
    cluster.ask(group.heartbeat("a", 3), 0)
    cluster.ask(group.heartbeat("a", LEAVE), 0)
    cluster.ask(DeleteGroupsRequest(groups_names=[name]), 2)
    note_records(cluster, name)


SCENARIOS = (streams_members_act_at_random, streams_groups_record_every_step)
