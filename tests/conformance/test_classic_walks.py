"""Random requests of classic group members get the same answers from Kafka and kafkalite.

A walk is generated while it runs on kafkalite, because only then it is known which responses wait
for other clients. Then the same steps run on a real Kafka, which must give the same responses after
the same steps.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
from tests.cluster.groups import GroupCluster
from tests.cluster.responses import PendingResponse
from tests.conformance.compare import differences
from tests.conformance.normalization import Normaliser
from tests.conformance.scenario_cluster import Entry, ScenarioCluster
from tests.conformance.scenarios.classic_groups import Classic
from tests.conformance.scenarios.commits import commit, fetch
from tests.conformance.setup import create_topic, wait_for_group_coordinator

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from kafkalite.protocol.message import Message
    from tests.oracle.target import Target

    class WalkBroker(Protocol):
        """The interface of a broker for walks."""

        def send(self, slot: int, request: Message, version: int) -> None:
            """Send a join or a sync; its response may be delayed."""

        def ask(self, request: Message, version: int) -> Any:  # noqa: ANN401
            """Send a request whose response does not wait for other clients."""

        def receive_responses(self, slots: Sequence[int]) -> dict[int, Any]:
            """Wait for the responses to these clients and return them."""


pytestmark = pytest.mark.oracle

WALKS = 200 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 6
STEPS = 60
_ARRIVAL_S = 0.02
"""Time for a join or sync to arrive at a broker, because its arrival cannot be observed."""
_EXPECTED_REQUEST_SHARE = 0.5
"""Probability that a client sends the request that its group waits for."""
_SLOTS = (None, None, None, "i-1", "i-2")
"""The clients, by their instance ids."""
_PROTOCOLS = (("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",), ("own",))
_VERSIONS = {"heartbeat": 4, "leave": 5, "forget": 0, "delete": 2, "fetch": 8, "describe": 6}
_NOT_COMPARED = frozenset(("client_id", "client_host", "assignment", "member_assignment"))
"""Fields that are not compared: they depend on the order of member ids, which are random."""


@dataclass(slots=True)
class Client:
    """One client with its own view of its state."""

    instance: str | None
    member_id: str = ""
    generation: int = -1
    members: tuple[str, ...] = ()
    names: int = 0
    """Number of member ids that it has received."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request, described independently of the broker."""

    slot: int
    action: str
    version: int = 0
    protocols: tuple[str, ...] = ()
    off_by: int = 0
    """Difference of the generation in the request from the one that the client knows."""
    is_anonymous: bool = False
    answered_slots: tuple[int, ...] = ()
    """The clients whose pending joins and syncs are answered because of this step."""
    group_state: tuple[str, int] = ("Dead", 0)
    """State and number of members of the group after the step."""


class Kafkalite:
    """Kafkalite in this process, with driven time."""

    def __init__(self, group: str) -> None:
        config = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
        self.wire = GroupCluster(config=config)
        self.wire.ask(FindCoordinatorRequest(key=group), 3)
        self.wire.create("t", 2)
        self.wire.create("u", 2)
        self._group = group
        self._late: dict[int, PendingResponse] = {}
        self._responses: dict[int, Any] = {}

    def send(self, slot: int, request: Message, version: int) -> None:
        answer = self.wire.ask(request, version)
        if isinstance(answer, PendingResponse):
            self._late[slot] = answer
        else:
            self._responses[slot] = answer

    def ask(self, request: Message, version: int) -> Any:  # noqa: ANN401 - any response class
        answer = self.wire.ask(request, version)
        assert not isinstance(answer, PendingResponse)
        return answer

    def run_due_work(self) -> tuple[int, ...]:
        """Run everything that is due; return the clients that have a response now."""
        self.wire.clock.advance(0)
        for slot, late in list(self._late.items()):
            if late.has_arrived:
                self._responses[slot] = self._late.pop(slot).response
        return tuple(sorted(self._responses))

    def receive_responses(self, slots: Sequence[int]) -> dict[int, Any]:
        assert sorted(self._responses) == list(slots)
        responses, self._responses = self._responses, {}
        return responses

    def is_waiting(self, slot: int) -> bool:
        return slot in self._late

    def group_state(self) -> tuple[str, int]:
        group = self.wire.groups.shards()[0].machine.classic_group(self._group)
        return ("Dead", 0) if group is None else (group.state_name(), len(group.soft.members))

    def may_leave(self, member_id: str) -> bool:
        """Whether the next leader is certain if this member leaves; Kafka selects it by hash."""
        group = self.wire.groups.shards()[0].machine.classic_group(self._group)
        return group is None or group.soft.leader_id != member_id or len(group.soft.members) <= 2


class RealKafka:
    """A real broker, with one connection for each client and one for all other requests."""

    def __init__(self, cluster: ScenarioCluster) -> None:
        self._cluster = cluster

    def send(self, slot: int, request: Message, version: int) -> None:
        self._cluster.connection(f"client {slot}").send(request, version)

    def ask(self, request: Message, version: int) -> Any:  # noqa: ANN401 - any response class
        return self._cluster.probe(request, version)

    def await_effect(self, step: Step, group: str) -> None:
        """Wait for the effect of a step: requests on other connections could overtake it."""
        described = DescribeGroupsRequest(groups=[group])

        def is_in_state(response: Any) -> bool:  # noqa: ANN401 - any response class
            (row,) = response.groups
            return (row.group_state, len(row.members)) == step.group_state

        self._cluster.call_until(described, 5, is_in_state, is_recorded=False)
        if step.action in {"join", "sync"} and step.slot not in step.answered_slots:
            time.sleep(_ARRIVAL_S)

    def receive_responses(self, slots: Sequence[int]) -> dict[int, Any]:
        return {slot: self._cluster.connection(f"client {slot}").receive() for slot in slots}


@dataclass(slots=True)
class Walk:
    """A walk on one stage: its clients and their answers."""

    broker: WalkBroker
    group: Classic
    topics: tuple[str, str]
    clients: list[Client] = field(default_factory=lambda: [Client(name) for name in _SLOTS])
    transcript: list[Entry] = field(default_factory=list)
    normaliser: Normaliser = field(default_factory=lambda: Normaliser(_NOT_COMPARED))

    def send_request(self, step: Step) -> None:
        """Send the request of a step, and record its response if that is not delayed."""
        client = self.clients[step.slot]
        generation = client.generation + step.off_by
        if step.action == "join":
            instance = client.instance if step.version >= 5 else None
            join = self.group.join(client.member_id, *step.protocols, instance=instance)
            self.broker.send(step.slot, join, step.version)
        elif step.action == "sync":
            sync = self.group.sync(
                client.member_id, generation, *client.members, instance=client.instance
            )
            self.broker.send(step.slot, sync, step.version)
        else:
            self._record(
                step, self.broker.ask(self._request(step, client, generation), step.version)
            )

    def _request(self, step: Step, client: Client, generation: int) -> Message:
        name, topic = self.group.group, self.topics[step.off_by % 2]
        row = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
        topic_row = OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic, partitions=[row])
        by_member = commit(name, topic, 0, 1, member_id=client.member_id, epoch=generation)
        by_member.group_instance_id = client.instance if step.version >= 7 else None
        requests: dict[str, Message] = {
            "heartbeat": self.group.heartbeat(client.member_id, generation, client.instance),
            "leave": self.group.leave(client.member_id, instance=client.instance),
            "commit": commit(name, topic, 0, 1) if step.is_anonymous else by_member,
            "forget": OffsetDeleteRequest(group_id=name, topics=[topic_row]),
            "delete": DeleteGroupsRequest(groups_names=[name]),
            "fetch": fetch(name, topic, 0, 1),
            "describe": DescribeGroupsRequest(groups=[name]),
        }
        return requests[step.action]

    def record_responses(self, step: Step) -> None:
        """Record the responses to joins and syncs that this step completes."""
        responses = self.broker.receive_responses(step.answered_slots)
        for slot, answer in responses.items():
            member_id = getattr(answer, "member_id", "")
            client = self.clients[slot]
            if member_id and member_id != client.member_id:
                client.names += 1
                self.normaliser.name("member_id", member_id, f"client {slot}, id {client.names}")
        for slot in step.answered_slots:
            self._record(step, responses[slot], f" to client {slot}")
            self._update_client(self.clients[slot], responses[slot])

    def _update_client(self, client: Client, answer: Any) -> None:  # noqa: ANN401 - any response class
        if hasattr(answer, "generation_id"):
            client.member_id = answer.member_id or client.member_id
            if answer.error_code == 0:
                client.generation = answer.generation_id
                client.members = tuple(sorted(member.member_id for member in answer.members))
        if answer.error_code in {25, 82}:
            client.member_id, client.generation, client.members = "", -1, ()

    def _record(self, step: Step, answer: Message, to: str = "") -> None:
        title = f"{step.action} v{step.version} of client {step.slot}{to}"
        tree = self.normaliser.tree(answer)
        if step.action == "describe":
            # A member that waits in its first join exists already, but its id is not known yet.
            described: list[str] = []
            for row in answer.groups:  # type: ignore[attr-defined]
                described += [row.group_state, row.protocol_type, row.protocol_data]
                described += sorted(
                    f"{member.group_instance_id} {bytes(member.member_metadata).hex()}"
                    for member in row.members
                )
            tree = {"described": [*described]}
        self.transcript.append(Entry(title, tree))


_ACTIONS = (
    ("join", 8), ("sync", 8), ("heartbeat", 4), ("leave", 2), ("commit", 4), ("forget", 1),
    ("fetch", 1), ("describe", 2), ("delete", 1),
)  # fmt: skip


_EXPECTED_REQUESTS = {"PreparingRebalance": "join", "CompletingRebalance": "sync"}
"""State of a group → the request that its members must send next."""


def _is_allowed(action: str, slot: int, client: Client, kafkalite: Kafkalite) -> bool:
    """Whether a step has a response, and the response does not depend on chance."""
    if action in {"join", "sync"}:
        return not kafkalite.is_waiting(slot)
    if action == "leave":
        # Kafka never answers the sync of a member that leaves meanwhile.
        is_syncing = (
            kafkalite.is_waiting(slot) and kafkalite.group_state()[0] == "CompletingRebalance"
        )
        return bool(client.member_id) and kafkalite.may_leave(client.member_id) and not is_syncing
    return True


def _next_step(dice: Random, kafkalite: Kafkalite, walk: Walk) -> Step | None:
    names, weights = zip(*_ACTIONS, strict=True)
    slot = dice.randrange(len(_SLOTS))
    client = walk.clients[slot]
    (action,) = dice.choices(names, weights)
    if client.member_id and dice.random() < _EXPECTED_REQUEST_SHARE:
        action = _EXPECTED_REQUESTS.get(kafkalite.group_state()[0], action)
    off_by = dice.choice((0,) * 12 + (1, -1))
    if not _is_allowed(action, slot, client, kafkalite):
        return None
    if action == "join":
        versions = (5, 7, 9) if client.instance else (0, 2, 3, 4, 5, 9)
        protocols = dice.choices(_PROTOCOLS, (6, 4, 4, 1, 1))[0]
        return Step(slot, action, dice.choice(versions), protocols)
    if action == "sync":
        return Step(slot, action, 3 if client.instance else dice.choice((0, 3)), off_by=off_by)
    if action == "commit":
        version = dice.choice((7, 8, 9)) if client.instance else dice.choice((2, 6, 7, 8, 9))
        return Step(slot, action, version, off_by=off_by, is_anonymous=dice.random() < 0.2)
    return Step(slot, action, _VERSIONS[action], off_by=off_by)


def _generate_walk(seed: int, group: str) -> tuple[list[Step], Walk]:
    """Create a random walk on kafkalite."""
    dice = Random(seed)  # noqa: S311 - it draws test data
    kafkalite = Kafkalite(group)
    walk = Walk(kafkalite, Classic(group, "t"), ("t", "u"))
    steps: list[Step] = []
    while len(steps) < STEPS:
        drawn = _next_step(dice, kafkalite, walk)
        if drawn is None:
            continue
        walk.send_request(drawn)
        step = Step(
            drawn.slot, drawn.action, drawn.version, drawn.protocols, drawn.off_by,
            drawn.is_anonymous, kafkalite.run_due_work(), kafkalite.group_state(),
        )  # fmt: skip
        walk.record_responses(step)
        steps.append(step)
    return steps, walk


@pytest.mark.parametrize("seed", range(WALKS))
def test_a_random_walk_gets_the_same_answers(seed: int, real_kafka: Target, attempt: int) -> None:
    group = f"walk-{seed}-{attempt}"
    steps, emulated_walk = _generate_walk(seed, group)
    cluster = ScenarioCluster(real_kafka.port, group)
    try:
        for topic in ("t", "u"):
            create_topic(cluster, topic, 2)
        wait_for_group_coordinator(cluster, group)
        kafka = RealKafka(cluster)
        real_walk = Walk(kafka, Classic(group, "t"), ("t", "u"))
        for number, step in enumerate(steps):
            real_walk.send_request(step)
            try:
                real_walk.record_responses(step)
                kafka.await_effect(step, group)
            except TimeoutError:
                played = "\n".join(map(str, steps[: number + 1]))
                pytest.fail(f"no answer to step {number}:\n{played}")
    finally:
        cluster.close()
    lines = differences(real_walk.transcript, emulated_walk.transcript)
    assert not lines, "\n".join([*lines, *map(str, enumerate(steps))])
