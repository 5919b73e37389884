"""Clients of a classic group do what they like; a real Kafka and kafkalite answer all of it alike.

A walk is made up while kafkalite plays it, since only then is known which answers come and which
have to wait for others. Then the same steps are played to a real Kafka, which must give the same
answers after the same steps.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.offset_delete import OffsetDeleteRequest
from tests.conformance.compare import differences
from tests.conformance.normal import Normaliser
from tests.conformance.scenarios.classic_groups import Classic
from tests.conformance.scenarios.commits import commit, fetch
from tests.conformance.setup import create_topic, ready_group
from tests.conformance.world import Entry, World
from tests.unit.apis.group_wire import GroupWire, Late

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from kafkalite.protocol.message import Message
    from tests.oracle.target import Target

    class Stage(Protocol):
        """Where a walk is played."""

        def send(self, slot: int, request: Message, version: int) -> None:
            """Send a join or a sync, whose answer may come later."""

        def ask(self, request: Message, version: int) -> Any:  # noqa: ANN401
            """Ask what is answered at once."""

        def arrived(self, slots: Sequence[int]) -> dict[int, Any]:
            """Return the answers to these slots, waiting for them."""


pytestmark = pytest.mark.oracle

WALKS = 200 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 6
STEPS = 60
_PARKING_S = 0.02
"""What a join or sync has to arrive in, when nothing shows that it did."""
_ZEAL = 0.5
"""How often a client does what the state of its group asks for."""
_SLOTS = (None, None, None, "i-1", "i-2")
"""The clients, by their instance ids."""
_PROTOCOLS = (("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",), ("own",))
_VERSIONS = {"heartbeat": 4, "leave": 5, "forget": 0, "delete": 2, "fetch": 8, "describe": 6}
_LEFT_OUT = frozenset(("client_id", "client_host", "assignment", "member_assignment"))
"""Who asks, and who was assigned what, for that depends on the order of ids, which are random."""


@dataclass(slots=True)
class Client:
    """What a client knows of itself."""

    instance: str | None
    member_id: str = ""
    generation: int = -1
    members: tuple[str, ...] = ()
    names: int = 0
    """How many ids it was given so far."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request, by what can be said of it on any broker."""

    slot: int
    action: str
    version: int = 0
    protocols: tuple[str, ...] = ()
    off_by: int = 0
    """How far the generation it claims is from the one it knows."""
    is_anonymous: bool = False
    answered: tuple[int, ...] = ()
    """The clients whose joins and syncs are answered by what this step brings about."""
    shown: tuple[str, int] = ("Dead", 0)
    """The state of the group after the step, and how many members it has."""


class Kafkalite:
    """Kafkalite in this process, which never makes anybody wait longer than it must."""

    def __init__(self, group: str) -> None:
        config = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
        self.wire = GroupWire(config=config)
        self.wire.ask(FindCoordinatorRequest(key=group), 3)
        self.wire.create("t", 2)
        self.wire.create("u", 2)
        self._group = group
        self._late: dict[int, Late] = {}
        self._there: dict[int, Any] = {}

    def send(self, slot: int, request: Message, version: int) -> None:
        answer = self.wire.ask(request, version)
        if isinstance(answer, Late):
            self._late[slot] = answer
        else:
            self._there[slot] = answer

    def ask(self, request: Message, version: int) -> Any:  # noqa: ANN401 - any response class
        answer = self.wire.ask(request, version)
        assert not isinstance(answer, Late)
        return answer

    def settle(self) -> tuple[int, ...]:
        """Let everything happen that does not wait; the clients that have an answer now."""
        self.wire.clock.advance(0)
        for slot, late in list(self._late.items()):
            if late.is_there:
                self._there[slot] = self._late.pop(slot).response
        return tuple(sorted(self._there))

    def arrived(self, slots: Sequence[int]) -> dict[int, Any]:
        assert sorted(self._there) == list(slots)
        there, self._there = self._there, {}
        return there

    def is_waiting(self, slot: int) -> bool:
        return slot in self._late

    def shown(self) -> tuple[str, int]:
        group = self.wire.groups.shards()[0].machine.classic_group(self._group)
        return ("Dead", 0) if group is None else (group.state_name(), len(group.soft.members))

    def may_leave(self, member_id: str) -> bool:
        """Whether it is sure who leads when this member has left; Kafka leaves it to a hash."""
        group = self.wire.groups.shards()[0].machine.classic_group(self._group)
        return group is None or group.soft.leader_id != member_id or len(group.soft.members) <= 2


class RealKafka:
    """A broker at the other end of connections, one for each client and one for everything else."""

    def __init__(self, world: World) -> None:
        self._world = world

    def send(self, slot: int, request: Message, version: int) -> None:
        self._world.connection(f"client {slot}").send(request, version)

    def ask(self, request: Message, version: int) -> Any:  # noqa: ANN401 - any response class
        return self._world.probe(request, version)

    def await_effect(self, step: Step, group: str) -> None:
        """Wait until a step has had its effect: what is sent on another connection may overtake."""
        described = DescribeGroupsRequest(groups=[group])

        def is_shown(found: Any) -> bool:  # noqa: ANN401 - any response class
            (row,) = found.groups
            return (row.group_state, len(row.members)) == step.shown

        self._world.settle(described, 5, is_shown, note=False)
        if step.action in {"join", "sync"} and step.slot not in step.answered:
            time.sleep(_PARKING_S)

    def arrived(self, slots: Sequence[int]) -> dict[int, Any]:
        return {slot: self._world.connection(f"client {slot}").receive() for slot in slots}


@dataclass(slots=True)
class Walk:
    """A walk on one stage: its clients, and what was answered."""

    stage: Stage
    group: Classic
    topics: tuple[str, str]
    clients: list[Client] = field(default_factory=lambda: [Client(name) for name in _SLOTS])
    transcript: list[Entry] = field(default_factory=list)
    normaliser: Normaliser = field(default_factory=lambda: Normaliser(_LEFT_OUT))

    def begin(self, step: Step) -> None:
        """Send what the step says, and note what is answered at once."""
        client = self.clients[step.slot]
        generation = client.generation + step.off_by
        if step.action == "join":
            instance = client.instance if step.version >= 5 else None
            join = self.group.join(client.member_id, *step.protocols, instance=instance)
            self.stage.send(step.slot, join, step.version)
        elif step.action == "sync":
            sync = self.group.sync(
                client.member_id, generation, *client.members, instance=client.instance
            )
            self.stage.send(step.slot, sync, step.version)
        else:
            self._note(step, self.stage.ask(self._asked(step, client, generation), step.version))

    def _asked(self, step: Step, client: Client, generation: int) -> Message:
        name, topic = self.group.group, self.topics[step.off_by % 2]
        row = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
        named = OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic, partitions=[row])
        by_member = commit(name, topic, 0, 1, member_id=client.member_id, epoch=generation)
        by_member.group_instance_id = client.instance if step.version >= 7 else None
        requests: dict[str, Message] = {
            "heartbeat": self.group.heartbeat(client.member_id, generation, client.instance),
            "leave": self.group.leave(client.member_id, instance=client.instance),
            "commit": commit(name, topic, 0, 1) if step.is_anonymous else by_member,
            "forget": OffsetDeleteRequest(group_id=name, topics=[named]),
            "delete": DeleteGroupsRequest(groups_names=[name]),
            "fetch": fetch(name, topic, 0, 1),
            "describe": DescribeGroupsRequest(groups=[name]),
        }
        return requests[step.action]

    def end(self, step: Step) -> None:
        """Take the answers to joins and syncs that have come."""
        arrived = self.stage.arrived(step.answered)
        for slot, answer in arrived.items():
            given = getattr(answer, "member_id", "")
            client = self.clients[slot]
            if given and given != client.member_id:
                client.names += 1
                self.normaliser.name("member_id", given, f"client {slot}, id {client.names}")
        for slot in step.answered:
            self._note(step, arrived[slot], f" to client {slot}")
            self._learn(self.clients[slot], arrived[slot])

    def _learn(self, client: Client, answer: Any) -> None:  # noqa: ANN401 - any response class
        if hasattr(answer, "generation_id"):
            client.member_id = answer.member_id or client.member_id
            if answer.error_code == 0:
                client.generation = answer.generation_id
                client.members = tuple(sorted(member.member_id for member in answer.members))
        if answer.error_code in {25, 82}:
            client.member_id, client.generation, client.members = "", -1, ()

    def _note(self, step: Step, answer: Message, to: str = "") -> None:
        asked = f"{step.action} v{step.version} of client {step.slot}{to}"
        tree = self.normaliser.tree(answer)
        if step.action == "describe":
            # Who waits in a first join is a member already, but nobody was told its id yet.
            described: list[str] = []
            for row in answer.groups:  # type: ignore[attr-defined]
                described += [row.group_state, row.protocol_type, row.protocol_data]
                described += sorted(
                    f"{each.group_instance_id} {bytes(each.member_metadata).hex()}"
                    for each in row.members
                )
            tree = {"described": [*described]}
        self.transcript.append(Entry(asked, tree))


_ACTIONS = (
    ("join", 8), ("sync", 8), ("heartbeat", 4), ("leave", 2), ("commit", 4), ("forget", 1),
    ("fetch", 1), ("describe", 2), ("delete", 1),
)  # fmt: skip


_WANTED = {"PreparingRebalance": "join", "CompletingRebalance": "sync"}
"""state → what members do to get on."""


def _may(action: str, slot: int, client: Client, ours: Kafkalite) -> bool:
    """Whether a step has one outcome that does not depend on chance, and an answer."""
    if action in {"join", "sync"}:
        return not ours.is_waiting(slot)
    if action == "leave":
        # Kafka leaves the sync of a member that goes meanwhile without any answer.
        is_syncing = ours.is_waiting(slot) and ours.shown()[0] == "CompletingRebalance"
        return bool(client.member_id) and ours.may_leave(client.member_id) and not is_syncing
    return True


def _next_step(dice: Random, ours: Kafkalite, walk: Walk) -> Step | None:
    names, weights = zip(*_ACTIONS, strict=True)
    slot = dice.randrange(len(_SLOTS))
    client = walk.clients[slot]
    (action,) = dice.choices(names, weights)
    if client.member_id and dice.random() < _ZEAL:
        action = _WANTED.get(ours.shown()[0], action)
    off_by = dice.choice((0,) * 12 + (1, -1))
    if not _may(action, slot, client, ours):
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


def _walk(seed: int, group: str) -> tuple[list[Step], Walk]:
    """Make up a walk on kafkalite."""
    dice = Random(seed)  # noqa: S311 - it draws test data
    ours = Kafkalite(group)
    walk = Walk(ours, Classic(group, "t"), ("t", "u"))
    steps: list[Step] = []
    while len(steps) < STEPS:
        drawn = _next_step(dice, ours, walk)
        if drawn is None:
            continue
        walk.begin(drawn)
        step = Step(
            drawn.slot, drawn.action, drawn.version, drawn.protocols, drawn.off_by,
            drawn.is_anonymous, ours.settle(), ours.shown(),
        )  # fmt: skip
        walk.end(step)
        steps.append(step)
    return steps, walk


@pytest.mark.parametrize("seed", range(WALKS))
def test_a_walk_is_answered_alike(seed: int, real_kafka: Target) -> None:
    group = f"walk-{seed}"
    steps, ours = _walk(seed, group)
    world = World(real_kafka.port, group)
    try:
        for topic in ("t", "u"):
            create_topic(world, topic, 2)
        ready_group(world, group)
        kafka = RealKafka(world)
        theirs = Walk(kafka, Classic(group, "t"), ("t", "u"))
        for number, step in enumerate(steps):
            theirs.begin(step)
            try:
                theirs.end(step)
                kafka.await_effect(step, group)
            except TimeoutError:
                played = "\n".join(map(str, steps[: number + 1]))
                pytest.fail(f"no answer to step {number}:\n{played}")
    finally:
        world.close()
    found = differences(theirs.transcript, ours.transcript)
    assert not found, "\n".join([*found, *map(str, enumerate(steps))])
