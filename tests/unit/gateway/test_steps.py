"""Steps: installed and removed between requests, in their order, with their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.gateway.steps import DisconnectError, StepOrder
from kafkalite.ports import turns
from kafkalite.ports.waiting import Waiting
from kafkalite.ports.workers import Worker
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.wire.session import PendingAnswer
from tests.unit.frames import request_frame
from tests.unit.gateway.served import BEAT, Served, alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.steps import Handler


class RecordingStep:
    """A step that notes its name before and after each request of certain versions."""

    def __init__(self, name: str, notes: list[str], versions: range = range(5)) -> None:
        self._name = name
        self._notes = notes
        self._versions = versions

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        assert api.name == "Heartbeat"
        if version not in self._versions:
            return handler

        def recording_handler(call: Call, request: object) -> object:
            self._notes.append(f"{self._name}(")
            answer = handler(call, request)
            self._notes.append(f"){self._name}")
            return answer

        return recording_handler


class AnsweringStep:
    """A step that answers instead of the handler."""

    def __init__(self, answer: Callable[[], object]) -> None:
        self._answer = answer

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        del api, version, handler
        return lambda _call, _request: self._answer()


def raising_step(error: Exception) -> AnsweringStep:
    def answer() -> object:
        raise error

    return AnsweringStep(answer)


def test_the_next_request_passes_an_installed_step() -> None:
    served = Served(alive)
    notes: list[str] = []
    step = RecordingStep("a", notes)
    served.send(request_frame(BEAT, 4))
    served.gateway.install(step)
    served.send(request_frame(BEAT, 4))
    served.gateway.remove(step)
    served.send(request_frame(BEAT, 4))
    assert notes == ["a(", ")a"]
    assert len(served.requests) == 3


def test_a_step_may_ignore_versions() -> None:
    served = Served(alive)
    notes: list[str] = []
    served.gateway.install(RecordingStep("a", notes, range(2, 3)))
    for version in range(5):
        served.send(request_frame(BEAT, version))
    assert notes == ["a(", ")a"]


def test_steps_run_by_order_and_then_by_installation() -> None:
    served = Served(alive)
    notes: list[str] = []
    steps = {
        name: (RecordingStep(name, notes), place)
        for name, place in (
            ("profile", StepOrder.POLICY),
            ("faults", StepOrder.FAULTS),
            ("acl", StepOrder.AUTHORIZE),
            ("quota", StepOrder.THROTTLE),
            ("more faults", StepOrder.FAULTS),
        )
    }
    for step, place in steps.values():
        served.gateway.install(step, place)
    served.send(request_frame(BEAT, 4))
    before = ["faults(", "more faults(", "quota(", "acl(", "profile("]
    assert notes == [*before, ")profile", ")acl", ")quota", ")more faults", ")faults"]

    notes.clear()
    served.gateway.remove(steps["faults"][0])
    served.send(request_frame(BEAT, 4))
    assert notes[:3] == ["more faults(", "quota(", "acl("]


def test_a_step_is_installed_once_and_removed_once() -> None:
    served = Served(alive)
    notes: list[str] = []
    step = RecordingStep("a", notes)
    served.gateway.install(step)
    served.gateway.install(step)
    served.send(request_frame(BEAT, 4))
    assert notes == ["a(", ")a"]
    served.gateway.remove(step)
    served.gateway.remove(step)
    assert served.gateway.steps == ()


def test_a_step_sees_the_lifted_request_and_the_answer_before_it_is_lowered() -> None:
    seen: list[tuple[int, int]] = []

    class Looking:
        def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
            del api, version

            def observing_handler(call: Call, request: Any) -> Any:  # noqa: ANN401 - as handlers
                answer = handler(call, request)
                seen.append((request.generation_id, answer.error_code))
                return answer

            return observing_handler

    def lift(request: HeartbeatRequest, version: int) -> HeartbeatRequest:
        request.generation_id += version
        return request

    def lower(response: HeartbeatResponse, version: int) -> HeartbeatResponse:
        response.error_code = version
        return response

    served = Served(alive, lift=lift, lower=lower)
    served.gateway.install(Looking())
    served.send(request_frame(BEAT, 2))
    assert seen == [(5, 0)]
    assert served.answer(2)[1].error_code == 2


def test_a_step_refuses_in_the_fields_of_the_api() -> None:
    served = Served(alive)
    served.gateway.install(raising_step(KafkaError(ErrorCode.NOT_COORDINATOR)))
    served.send(request_frame(BEAT, 4))
    assert served.answer(4)[1].error_code == ErrorCode.NOT_COORDINATOR
    assert served.requests == []
    assert served.faults == []
    (noted,) = served.history.about("g")
    assert noted.facts["error"] == "NOT_COORDINATOR"


def test_an_exception_in_a_step_is_reported() -> None:
    served = Served(alive)
    fault = ZeroDivisionError()
    served.gateway.install(raising_step(fault))
    served.send(request_frame(BEAT, 4))
    assert served.answer(4)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert served.faults == [fault]


def test_a_step_closes_a_connection_without_an_answer() -> None:
    served = Served(alive)
    served.gateway.install(raising_step(DisconnectError("by rule 1")))
    with pytest.raises(DisconnectError, match="by rule 1"):
        served.send(request_frame(BEAT, 4))
    assert served.out == []
    assert served.faults == []


def test_a_step_may_leave_a_request_without_an_answer() -> None:
    served = Served(alive)
    served.gateway.install(AnsweringStep(lambda: None))
    assert served.send(request_frame(BEAT, 4)) == 0
    assert served.out == []


def pending_answer(answer: object) -> tuple[Served, PendingAnswer]:
    """Return a gateway and the pending answer of a step that answers later."""
    served = Served(alive)
    waiting: Waiting[Any] = Waiting()
    served.gateway.install(AnsweringStep(lambda: waiting))
    pending = served.send(request_frame(BEAT, 4))
    waiting.resolve(answer)
    assert isinstance(pending, PendingAnswer)
    return served, pending


def test_a_step_may_answer_later() -> None:
    served, pending = pending_answer(HeartbeatResponse(error_code=7))
    pending.encode(pending.waiting.value, served.out)
    assert served.answer(4)[1].error_code == 7


def test_a_step_may_close_the_connection_later() -> None:
    served, pending = pending_answer(DisconnectError("by rule 2"))
    with pytest.raises(DisconnectError, match="by rule 2"):
        pending.encode(pending.waiting.value, served.out)
    assert served.out == []
    assert served.faults == []


def test_a_later_exception_is_reported() -> None:
    fault = ZeroDivisionError()
    served, pending = pending_answer(fault)
    pending.encode(pending.waiting.value, served.out)
    assert served.answer(4)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert served.faults == [fault]


@pytest.mark.parametrize("inline_bytes", [1024, 0])
def test_a_repeated_request_is_decoded_while_a_step_is_installed(inline_bytes: int) -> None:
    """With 0, the connection caches the variant of the route for short lists."""
    constant = HeartbeatResponse(throttle_time_ms=1)
    served = Served(
        lambda *_: constant,
        is_repeated=True,
        inline_bytes=inline_bytes,
        is_inline_with_short_lists=True,
    )
    notes: list[str] = []
    step = RecordingStep("a", notes)

    def beat(times: int) -> list[HeartbeatRequest]:
        served.requests.clear()
        for _ in range(times):
            served.send(request_frame(BEAT, 4))
            assert served.answer(4)[1].throttle_time_ms == 1
        return served.requests[:]

    first, second = beat(2)
    assert first is second

    served.gateway.install(step)
    third, fourth = beat(2)
    assert third is not first
    assert third is not fourth
    assert notes == ["a(", ")a"] * 2

    served.gateway.remove(step)
    fifth, sixth = beat(2)
    assert fifth is sixth
    assert notes == ["a(", ")a"] * 2


def test_a_repeated_request_gets_the_new_answer_of_a_step() -> None:
    served = Served(alive, is_repeated=True)
    for _ in range(2):
        served.send(request_frame(BEAT, 4))
        assert served.answer(4)[1].error_code == 0
    served.gateway.install(raising_step(KafkaError(ErrorCode.FENCED_INSTANCE_ID)))
    served.send(request_frame(BEAT, 4))
    assert served.answer(4)[1].error_code == ErrorCode.FENCED_INSTANCE_ID


def worker_for(served: Served, frame: bytes) -> Worker:
    """Return a worker whose task is to serve a request."""

    def send() -> None:
        served.send(frame)

    worker = Worker()
    worker.task = send
    return worker


def test_requests_in_progress_end_with_the_steps_they_began_with() -> None:
    notes: list[str] = []
    step = RecordingStep("a", notes)
    pauses = 0

    def handler(*_: object) -> HeartbeatResponse:
        nonlocal pauses
        if not pauses:
            pauses += 1
            turns.pause()
        return HeartbeatResponse(throttle_time_ms=len(notes))

    def always(*_: object) -> bool:
        return True

    served = Served(handler, may_take_long=always)
    worker = worker_for(served, request_frame(BEAT, 4))
    assert worker.take_turn(0.0) is worker, "the handler has paused"
    served.gateway.install(step)
    assert worker.take_turn(0.0) is None
    assert notes == []
    assert served.answer(4)[1].throttle_time_ms == 0

    assert worker_for(served, request_frame(BEAT, 4)).take_turn(0.0) is None
    assert notes == ["a(", ")a"]


def test_a_step_applies_to_a_long_request_that_is_still_read() -> None:
    """Its route is the variant whose codec pauses."""
    served = Served(alive)
    notes: list[str] = []
    long_beat = request_frame(HeartbeatRequest(group_id="g" * 20_000, member_id="m" * 20_000), 0)
    worker = worker_for(served, long_beat)
    state = worker.take_turn(0.0)
    while isinstance(state, turns.MemoryRequest):
        served.gateway.install(RecordingStep("a", notes))
        state = worker.take_turn(0.0)
    assert state is None
    assert notes == ["a(", ")a"]
