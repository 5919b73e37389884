"""Steps of a replay are in the order of the capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.capture.model import Direction
from kafkalite.lab.replay.player.steps import Await, Send, Skip, steps
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from tests.unit.lab.replay.capture_builder import CaptureBuilder, connection

if TYPE_CHECKING:
    from kafkalite.capture.model import Problem
    from kafkalite.lab.replay.player.steps import Step

ONE, TWO = connection(0), connection(1)
HEARTBEAT, HEARTBEAT_RESPONSE = HeartbeatRequest(group_id="g"), HeartbeatResponse()


def step_names(plan: list[Step]) -> list[str]:
    names = []
    for step in plan:
        on = step.exchange.connection if isinstance(step, Send | Await | Skip) else step.connection
        position = f" {step.exchange.position}" if isinstance(step, Send | Await | Skip) else ""
        names.append(f"{type(step).__name__.lower()} {on.number}{position}")
    return names


def planned(recording: CaptureBuilder, **options: int | str) -> list[str]:
    problems: list[Problem] = []
    return step_names(list(steps(recording.events, problems.append, **options)))  # type: ignore[arg-type]


def test_steps_are_in_recorded_order() -> None:
    recording = CaptureBuilder()
    recording.open(ONE)
    first = recording.send(ONE, HEARTBEAT, 4)
    recording.open(TWO)
    second = recording.send(TWO, HEARTBEAT, 4)
    recording.answer(TWO, second, HEARTBEAT_RESPONSE, 4)
    third = recording.send(ONE, HEARTBEAT, 4)
    recording.answer(ONE, first, HEARTBEAT_RESPONSE, 4)
    recording.answer(ONE, third, HEARTBEAT_RESPONSE, 4)
    recording.close(TWO)
    assert planned(recording) == [
        "open 0", "send 0 0", "open 1", "send 1 0", "await 1 0", "send 0 1", "await 0 0",
        "await 0 1", "close 1",
    ]  # fmt: skip


def test_request_without_response_is_sent() -> None:
    recording = CaptureBuilder()
    recording.open(ONE)
    recording.send(ONE, HEARTBEAT, 4)
    recording.send(ONE, ProduceRequest(acks=0), 9)
    recording.call(TWO, HEARTBEAT, HEARTBEAT_RESPONSE, 4)
    recording.close(ONE)
    assert planned(recording) == [
        "open 0", "send 0 0", "send 0 1", "send 1 0", "await 1 0", "close 0",
    ]  # fmt: skip


def test_frame_that_is_not_a_request_is_omitted() -> None:
    recording = CaptureBuilder()
    recording.open(ONE)
    recording.add_frame(ONE, Direction.REQUEST, b"token")
    recording.call(ONE, HEARTBEAT, HEARTBEAT_RESPONSE, 4)
    ordered = steps(recording.events, lambda _: None)
    assert step_names(list(ordered)) == ["open 0", "send 0 0", "await 0 0"]


def test_other_clients_and_their_connections_are_omitted() -> None:
    recording = CaptureBuilder()
    recording.open(ONE)
    recording.call(ONE, HEARTBEAT, HEARTBEAT_RESPONSE, 4)
    recording.close(ONE)
    assert planned(recording, clients="ap*") == ["open 0", "send 0 0", "await 0 0", "close 0"]
    assert planned(recording, clients="web*") == []


def test_request_with_response_beyond_the_look_ahead_is_skipped() -> None:
    recording = CaptureBuilder()
    recording.open(ONE)
    late = recording.send(ONE, HEARTBEAT, 4)
    recording.open(TWO)
    for _ in range(3):
        recording.call(TWO, HEARTBEAT, HEARTBEAT_RESPONSE, 4)
    recording.answer(ONE, late, HEARTBEAT_RESPONSE, 4)
    recording.call(ONE, HEARTBEAT, HEARTBEAT_RESPONSE, 4)
    recording.close(ONE)
    assert planned(recording, max_steps=4) == [
        "open 0", "open 1", "send 1 0", "await 1 0", "send 1 1", "await 1 1", "send 1 2",
        "await 1 2", "skip 0 0", "send 0 1", "await 0 1", "close 0",
    ]  # fmt: skip


def test_every_request_is_sent_or_skipped_with_any_look_ahead() -> None:
    recording = CaptureBuilder()
    for connection_ in (ONE, TWO):
        recording.open(connection_)
        recording.add_frame(connection_, Direction.REQUEST, b"token")
        for _ in range(5):
            recording.call(connection_, HEARTBEAT, HEARTBEAT_RESPONSE, 4)
        recording.send(connection_, HEARTBEAT, 4)
    recording.close(ONE)
    for max_steps in range(5):
        plan = planned(recording, max_steps=max_steps)
        sent = [step[5:] for step in plan if step.startswith("send ")]
        skipped = [step[5:] for step in plan if step.startswith("skip ")]
        awaited = [step[6:] for step in plan if step.startswith("await ")]
        assert sorted(sent + skipped) == [f"{number} {at}" for number in (0, 1) for at in range(6)]
        assert set(awaited) == {each for each in sent if not each.endswith(" 5")}
