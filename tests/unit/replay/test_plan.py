"""The order of a replay: that of the capture, whatever is answered when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.capture.model import Direction
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.replay.plan import Await, LeftOut, Send, steps
from tests.unit.replay.made import Made, connection

if TYPE_CHECKING:
    from kafkalite.capture.model import Problem
    from kafkalite.replay.plan import Step

ONE, TWO = connection(0), connection(1)
BEAT, BEATEN = HeartbeatRequest(group_id="g"), HeartbeatResponse()


def told(plan: list[Step]) -> list[str]:
    words = []
    for step in plan:
        on = (
            step.exchange.connection
            if isinstance(step, Send | Await | LeftOut)
            else step.connection
        )
        position = f" {step.exchange.position}" if isinstance(step, Send | Await | LeftOut) else ""
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


def test_a_request_whose_answer_is_too_far_ahead_is_left_out_and_told() -> None:
    recording = Made()
    recording.open(ONE)
    late = recording.send(ONE, BEAT, 4)
    recording.open(TWO)
    for _ in range(3):
        recording.call(TWO, BEAT, BEATEN, 4)
    recording.answer(ONE, late, BEATEN, 4)
    recording.call(ONE, BEAT, BEATEN, 4)
    recording.close(ONE)
    assert planned(recording, most_steps=4) == [
        "open 0", "open 1", "send 1 0", "await 1 0", "send 1 1", "await 1 1", "send 1 2",
        "await 1 2", "leftout 0 0", "send 0 1", "await 0 1", "close 0",
    ]  # fmt: skip


def test_no_request_is_lost_however_little_is_looked_ahead() -> None:
    recording = Made()
    for connection_ in (ONE, TWO):
        recording.open(connection_)
        recording.raw(connection_, Direction.REQUEST, b"token")
        for _ in range(5):
            recording.call(connection_, BEAT, BEATEN, 4)
        recording.send(connection_, BEAT, 4)
    recording.close(ONE)
    for most_steps in range(5):
        plan = planned(recording, most_steps=most_steps)
        sent = [step[5:] for step in plan if step.startswith("send ")]
        left_out = [step[8:] for step in plan if step.startswith("leftout ")]
        awaited = [step[6:] for step in plan if step.startswith("await ")]
        assert sorted(sent + left_out) == [f"{number} {at}" for number in (0, 1) for at in range(6)]
        assert set(awaited) == {each for each in sent if not each.endswith(" 5")}
