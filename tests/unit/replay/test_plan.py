"""The order of a replay: that of the capture, whatever is answered when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.capture.model import Direction
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.replay.plan import Await, Close, Open, Send, steps
from tests.unit.replay.made import Made, connection

if TYPE_CHECKING:
    from kafkalite.capture.model import Problem
    from kafkalite.replay.plan import Step

ONE, TWO = connection(0), connection(1)
BEAT, BEATEN = HeartbeatRequest(group_id="g"), HeartbeatResponse()


def told(plan: list[Step]) -> list[str]:
    words = []
    for step in plan:
        on = step.exchange.connection if isinstance(step, Send | Await) else step.connection
        position = f" {step.exchange.position}" if isinstance(step, Send | Await) else ""
        words.append(f"{type(step).__name__.lower()} {on.number}{position}")
    return words


def planned(recording: Made, **options: int | str) -> list[str]:
    problems: list[Problem] = []
    return told(list(steps(recording.events, problems.append, **options)))  # type: ignore[arg-type]


def test_steps_come_as_they_were_recorded_and_not_as_they_were_answered() -> None:
    recording = Made()
    recording.open(ONE)
    first = recording.send(ONE, BEAT, 4)
    recording.open(TWO)
    second = recording.send(TWO, BEAT, 4)
    recording.answer(TWO, second, BEATEN, 4)
    third = recording.send(ONE, BEAT, 4)
    recording.answer(ONE, first, BEATEN, 4)
    recording.answer(ONE, third, BEATEN, 4)
    recording.close(TWO)
    assert planned(recording) == [
        "open 0", "send 0 0", "open 1", "send 1 0", "await 1 0", "send 0 1", "await 0 0",
        "await 0 1", "close 1",
    ]  # fmt: skip


def test_what_nobody_answered_is_sent_all_the_same() -> None:
    recording = Made()
    recording.open(ONE)
    recording.send(ONE, BEAT, 4)
    recording.send(ONE, ProduceRequest(acks=0), 9)
    recording.call(TWO, BEAT, BEATEN, 4)
    recording.close(ONE)
    assert planned(recording) == [
        "open 0", "send 0 0", "send 0 1", "send 1 0", "await 1 0", "close 0",
    ]  # fmt: skip


def test_a_frame_that_is_no_request_is_left_out_and_holds_nothing_up() -> None:
    recording = Made()
    recording.open(ONE)
    recording.raw(ONE, Direction.REQUEST, b"token")
    recording.call(ONE, BEAT, BEATEN, 4)
    ordered = steps(recording.events, lambda _: None)
    assert told(list(ordered)) == ["open 0", "send 0 0", "await 0 0"]


def test_other_clients_are_left_out_with_their_connections() -> None:
    recording = Made()
    recording.open(ONE)
    recording.call(ONE, BEAT, BEATEN, 4)
    recording.close(ONE)
    assert planned(recording, clients="ap*") == ["open 0", "send 0 0", "await 0 0", "close 0"]
    assert planned(recording, clients="web*") == []


def test_an_answer_that_is_too_far_ahead_is_not_looked_for() -> None:
    recording = Made()
    recording.open(ONE)
    late = recording.send(ONE, BEAT, 4)
    recording.open(TWO)
    for _ in range(3):
        recording.call(TWO, BEAT, BEATEN, 4)
    recording.answer(ONE, late, BEATEN, 4)
    plan = list(steps(recording.events, lambda _: None, most_steps=4))
    assert told(plan)[:3] == ["open 0", "open 1", "send 1 0"]
    assert [type(step) for step in plan].count(Await) == 4
    assert not any(isinstance(step, Close) for step in plan)
    assert sum(isinstance(step, Open) for step in plan) == 2
