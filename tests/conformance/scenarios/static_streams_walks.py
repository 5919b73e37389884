"""Random walks of streams groups with static members: owners of instance ids are replaced."""

from __future__ import annotations

import random
import string
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from kafkalite.coordinator.java_order import string_hash
from kafkalite.coordinator.runtime import partition_of
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.scenarios.commits import commit
from tests.conformance.scenarios.configs import GROUP, SET, alter, settled
from tests.conformance.scenarios.group_records import OFFSETS_PARTITIONS, note_records
from tests.conformance.scenarios.streams_groups import (
    LEAVE,
    LEAVE_FOR_A_WHILE,
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
_STEPS_OF_A_WALK = 40
_HELD_BY_ANOTHER = (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID)


def _names(prefix: str, positions: range) -> list[str]:
    """Return member ids at these positions of Kafka's hash maps, whose order is visible."""
    names = [f"{prefix}{letter}" for letter in string.ascii_letters]
    return [name for name in names if string_hash(name) % 16 in positions]


_INSTANCES = {"i": _names("i", range(5)), "j": _names("j", range(5, 10))}
"""Instance id → the member ids that use it one after the other."""
(_DYNAMIC, *_) = _names("x", range(10, 16))


class _Incarnation:
    """One process with an instance id, or a dynamic member, and its view of its tasks."""

    def __init__(self, group: Streams, member: str, instance: str | None) -> None:
        self.member, self.instance = member, instance
        self.epoch = 0
        self.is_absent = True
        self._group = group
        self._active: Owned = {}
        self._standby: Owned = {}

    def join(self, **fields: Any) -> Request:  # noqa: ANN401 - fields of the request
        named = {"process_id": self.member[0], **fields}
        return self._group.join(self.member, instance_id=self.instance, **named)

    def beat(self, **fields: Any) -> Request:  # noqa: ANN401 - fields of the request
        return self._heartbeat(self.epoch, **fields)

    def report(self) -> Request:
        return self._heartbeat(self.epoch, self._active, self._standby)

    def lag(self) -> Request:
        return self._heartbeat(max(1, self.epoch - 1), self._active, self._standby)

    def lead(self) -> Request:
        return self._heartbeat(self.epoch + 1)

    def forget(self) -> Request:
        """Report only the first of its tasks."""
        first = {name: each[:1] for name, each in self._active.items()}
        return self._heartbeat(self.epoch, first)

    def move(self) -> Request:
        return self._heartbeat(self.epoch, rack_id=f"rack-{self.epoch % 3}")

    def change_process(self) -> Request:
        return self._heartbeat(self.epoch, process_id=f"process-{self.epoch % 2}")

    def leave(self) -> Request:
        return self._heartbeat(LEAVE)

    def leave_for_a_while(self) -> Request:
        return self._heartbeat(LEAVE_FOR_A_WHILE)

    def beat_without_instance(self) -> Request:
        return self._group.heartbeat(self.member, self.epoch)

    def beat_with_unknown_instance(self) -> Request:
        return self._group.heartbeat(self.member, self.epoch, instance_id="unknown")

    def beat_with_other_instance(self) -> Request:
        other = "j" if self.instance == "i" else "i"
        return self._group.heartbeat(self.member, self.epoch, instance_id=other)

    def _heartbeat(
        self,
        epoch: int,
        active: Owned | None = None,
        standby: Owned | None = None,
        **fields: Any,  # noqa: ANN401 - fields of the request
    ) -> Request:
        return self._group.heartbeat(
            self.member, epoch, active, standby, instance_id=self.instance, **fields
        )

    def learn(self, answer: StreamsGroupHeartbeatResponse) -> None:
        """Apply an answer; a refused member still sends its last epoch and tasks."""
        if answer.error_code:
            return
        self.is_absent = answer.member_epoch < 0
        if self.is_absent:
            return
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self._active = _owned(answer.active_tasks)
            self._standby = _owned(answer.standby_tasks or [])


_STEPS: dict[Callable[[_Incarnation], Request], int] = {
    _Incarnation.beat: 4,
    _Incarnation.report: 8,
    _Incarnation.forget: 1,
    _Incarnation.lag: 2,
    _Incarnation.lead: 1,
    _Incarnation.join: 1,
    _Incarnation.move: 1,
    _Incarnation.change_process: 1,
    _Incarnation.leave: 1,
    _Incarnation.leave_for_a_while: 5,
    _Incarnation.beat_without_instance: 1,
    _Incarnation.beat_with_unknown_instance: 1,
    _Incarnation.beat_with_other_instance: 1,
}


class _Walk:
    """The members of one group: those of two instance ids, those they replaced, a dynamic one."""

    def __init__(self, cluster: ScenarioCluster, group: Streams, choices: random.Random) -> None:
        self._cluster, self._group, self._choices = cluster, group, choices
        self._incarnations = {
            instance: [_Incarnation(group, members[0], instance)]
            for instance, members in _INSTANCES.items()
        }
        self._dynamic = _Incarnation(group, _DYNAMIC, None)
        self._changes = 0

    def take_step(self) -> None:
        """Let a member, or one that was replaced, act at random."""
        kind = self._choices.choices(("owner", "replaced", "dynamic", "commit"), (9, 3, 3, 2))[0]
        incarnations = self._incarnations[self._choices.choice([*_INSTANCES])]
        if kind == "owner":
            self._act_as_owner(incarnations)
        elif kind == "dynamic":
            self._act(self._dynamic, self._choice())
        elif kind == "commit":
            self._commit(self._choices.choice(incarnations))
        elif len(incarnations) > 1:
            self._act(self._choices.choice(incarnations[:-1]), self._choice())

    def _act_as_owner(self, incarnations: list[_Incarnation]) -> None:
        owner = incarnations[-1]
        if owner.is_absent and self._choices.random() < 0.8:
            if owner.epoch and owner.instance and self._choices.random() < 0.8:
                member = _INSTANCES[owner.instance][len(incarnations)]
                owner = _Incarnation(self._group, member, owner.instance)
                incarnations.append(owner)
            process_id = self._choices.choice((owner.member[0], "other"))
            self._send(owner, owner.join(process_id=process_id))
        else:
            self._act(owner, self._choice())

    def _act(self, member: _Incarnation, step: Callable[[_Incarnation], Request]) -> None:
        # A client that was never in the group can only join it.
        self._send(member, step(member) if member.epoch else member.join())

    def _send(self, member: _Incarnation, request: Request) -> None:
        answer = self._cluster.ask(request, 1)
        member.learn(answer)
        if answer.error_code in _HELD_BY_ANOTHER:
            self._change_group()

    def _change_group(self) -> None:
        """Cause another assignment after a refused request with the instance id of another member.

        Kafka 4.4.0 takes the tasks of the current assignment from the other member.
        """
        self._changes += 1
        fields = {"rack_id": f"new-{self._changes}"}
        changed = self._dynamic
        request = changed.join(**fields) if changed.is_absent else changed.beat(**fields)
        answer = self._cluster.ask(request, 1)
        if answer.error_code:
            answer = self._cluster.ask(changed.join(**fields), 1)
        changed.learn(answer)

    def _choice(self) -> Callable[[_Incarnation], Request]:
        return self._choices.choices([*_STEPS], [*_STEPS.values()])[0]

    def _commit(self, member: _Incarnation) -> None:
        topic = f"{self._group.group}-{self._choices.choice(['in', 'other'])}"
        epoch = member.epoch - self._choices.choice([0, 0, 1])
        request = commit(self._group.group, topic, 0, member_id=member.member, epoch=epoch)
        self._cluster.ask(request, 9)


def walk(cluster: ScenarioCluster, seed: int) -> None:
    """Run random actions of static members, chosen by the seed."""
    name, size = f"{cluster.name}-{seed}", seed % 4 + 1
    for topic, partitions in (("in", size), ("other", 3), ("store", size)):
        create_topic(cluster, f"{name}-{topic}", partitions)
    wait_for_group_coordinator(cluster, name)
    if seed % 2:
        cluster.ask(alter(GROUP, name, (_STANDBYS, SET, "1")), 1)
        settled(cluster, _STANDBYS, "1", kind=GROUP, name=name)
    stateful = reading(f"{name}-in", state_changelog_topics=[internal(f"{name}-store")])
    group = Streams(name, (stateful, reading(f"{name}-other", name="1")))
    _wait_for_topics(cluster, group)
    walked = _Walk(cluster, group, random.Random(seed))  # noqa: S311 - the same walk every time
    for _ in range(_STEPS_OF_A_WALK):
        walked.take_step()
    # The topology is omitted: whether a real broker already shows its partition counts depends
    # on the records since their computation.
    (response,) = cluster.probe(StreamsGroupDescribeRequest(group_ids=[name]), 1).groups
    cluster.record("state", [response.group_state, response.group_epoch, response.assignment_epoch])
    note_records(cluster, name)


def _wait_for_topics(cluster: ScenarioCluster, group: Streams) -> None:
    """Wait until the group's coordinator knows the topics, by another group of its shard."""
    shard = partition_of(group.group, OFFSETS_PARTITIONS)
    names = (f"{group.group}-before-{number}" for number in count())
    other = next(name for name in names if partition_of(name, OFFSETS_PARTITIONS) == shard)
    cluster.call_until(
        replace(group, group=other).join("a"),
        1,
        lambda answer: answer.error_code == ErrorCode.NONE and not answer.status,
        is_recorded=False,
    )


def static_streams_members_act_at_random(cluster: ScenarioCluster) -> None:
    """Walk with and without standbys; owners leave for a while, and are replaced."""
    for seed in range(6):
        walk(cluster, seed)


def _owned(task_ids: list[StreamsGroupHeartbeatResponse.TaskIds]) -> Owned:
    return {each.subtopology_id: tuple(each.partitions) for each in task_ids}


SCENARIOS = (static_streams_members_act_at_random,)
