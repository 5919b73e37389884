"""The step that applies faults: its installation, and the end of delayed requests."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.gateway.api import Eras
from kafkalite.gateway.call import ConnectionContext
from kafkalite.gateway.fault_rules import FaultError, UnknownFaultError, parse_rule
from kafkalite.gateway.faults import LATE_REQUEST_BYTES, Faults
from kafkalite.gateway.gateway import Gateway
from kafkalite.gateway.steps import DisconnectError, StepOrder
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.wire.session import PendingAnswer
from tests.unit.frames import request_frame
from tests.unit.gateway.served import BEAT, Served, alive

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.fault_rules import FaultState
    from kafkalite.gateway.steps import Step
    from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest

DELAY_MS = 500


class ServedWithFaults(Served):
    """A gateway for heartbeats with faults, and the lines that they log."""

    def __init__(self, handler: Any = alive, **row: Any) -> None:  # noqa: ANN401 - as Served
        super().__init__(handler, **row)
        self.lines: list[tuple[str, str]] = []
        self.injected = Faults(
            (0, 1),
            {"PLAINTEXT": self.gateway},
            SeededEntropy(),
            report=self.report,
            report_bug=lambda _, bug: self.faults.append(bug),
            install=partial(self.gateway.set_step, StepOrder.FAULTS),
        )
        self.clock: Any = self.context.node.clock

    def report(self, event: str, fault: str, rule: str) -> None:
        assert rule
        self.lines.append((event, fault))

    def add(self, *, match: object = None, **action: object) -> FaultState:
        return self.injected.add(parse_rule({"match": match or {}, "action": action}))

    def delayed(self, **action: object) -> PendingAnswer:
        """Send a heartbeat that a fault delays."""
        self.add(delay_ms=DELAY_MS, **action)
        pending = self.send(request_frame(BEAT, 4))
        assert isinstance(pending, PendingAnswer)
        return pending

    def code_of(self, pending: PendingAnswer) -> int:
        pending.encode(pending.waiting.value, self.out)
        code: int = self.answer(4)[1].error_code
        return code


def report_no_bug(api_name: str, error: Exception) -> None:
    raise AssertionError(f"{api_name} has a bug") from error


def test_the_first_fault_installs_the_step_and_the_last_removes_it() -> None:
    faulty = ServedWithFaults()
    assert faulty.gateway.steps == ()
    first = faulty.add(error="NOT_COORDINATOR")
    second = faulty.add(disconnect=True)
    assert len(faulty.gateway.steps) == 1
    faulty.injected.remove(first.id)
    assert len(faulty.gateway.steps) == 1
    faulty.injected.remove(second.id)
    assert faulty.gateway.steps == ()
    assert faulty.lines == [
        ("fault added", "f1"),
        ("fault added", "f2"),
        ("fault removed", "f1"),
        ("fault removed", "f2"),
    ]


@pytest.mark.parametrize(
    ("match", "is_wrapped"),
    [
        ({}, True),
        ({"api": "Heartbeat"}, True),
        ({"group": "other"}, True),
        ({"api": "Produce"}, False),
        ({"topic": "orders"}, False),
        ({"transactional_id": "t"}, False),
    ],
)
def test_only_the_apis_that_a_fault_may_select_are_wrapped(
    match: dict[str, str], *, is_wrapped: bool
) -> None:
    faulty = ServedWithFaults()
    if match.get("api") == "Produce":
        faulty.gateway._find_api = lambda _: faulty.api
    faulty.add(match=match, error="UNKNOWN_SERVER_ERROR")
    (step,) = faulty.gateway.steps
    assert (step.wrap(faulty.api, 4, alive) is not alive) is is_wrapped


def test_ids_are_not_reused() -> None:
    faulty = ServedWithFaults()
    faulty.injected.remove(faulty.add(disconnect=True).id)
    assert faulty.add(disconnect=True).id == "f2"
    with pytest.raises(UnknownFaultError):
        faulty.injected.remove("f1")
    assert [each.id for each in faulty.injected.clear()] == ["f2"]
    assert faulty.injected.states() == []


def test_a_fault_selects_the_requests_of_a_listener() -> None:
    faulty = ServedWithFaults()
    faulty.add(match={"listener": "plaintext"}, error="NOT_COORDINATOR")
    faulty.send(request_frame(BEAT, 4))
    assert faulty.answer(4)[1].error_code == ErrorCode.NOT_COORDINATOR
    faulty.context = ConnectionContext(
        node=faulty.context.node, listener="OTHER", client_host="/127.0.0.1"
    )
    faulty.send(request_frame(BEAT, 4))
    assert faulty.answer(4)[1].error_code == ErrorCode.NONE
    unknown = r"^match\.listener: there is no listener 'OTHER'; the listeners are PLAINTEXT$"
    with pytest.raises(FaultError, match=unknown):
        faulty.add(match={"listener": "other"}, error="NOT_COORDINATOR")


def test_a_fault_affects_the_requests_of_all_gateways() -> None:
    first, second = ServedWithFaults(), ServedWithFaults()
    gateways = {"PLAINTEXT": first.gateway, "CONTROLLER": second.gateway}

    def install(step: Step | None) -> None:
        for gateway in gateways.values():
            gateway.set_step(StepOrder.FAULTS, step)

    faults = Faults(
        (1,),
        gateways,
        SeededEntropy(),
        report=first.report,
        report_bug=report_no_bug,
        install=install,
    )
    fault = faults.add(parse_rule({"action": {"error": "NOT_COORDINATOR"}}))
    for each in (first, second):
        each.send(request_frame(BEAT, 4))
        assert each.answer(4)[1].error_code == ErrorCode.NOT_COORDINATOR
    assert faults.remove(fault.id).firings == 2
    assert first.gateway.steps == second.gateway.steps == ()


def test_an_api_that_is_not_served_is_rejected() -> None:
    faulty = ServedWithFaults()
    with pytest.raises(FaultError, match="SyncGroup is not served by this broker"):
        faulty.add(match={"api": "SyncGroup"}, error="NOT_COORDINATOR")
    assert faulty.gateway.steps == ()


@pytest.mark.parametrize(
    ("match", "reason"),
    [
        ({"api": "Heartbeat", "min_version": 5}, "min_version 5 selects no request: the versions"),
        ({"topic": "orders-*"}, "match.topic selects no request, as no topic has this name"),
        ({"principal": "alice"}, "must be a type and a name, such as User:alice, not 'alice'"),
    ],
)
def test_a_match_that_selects_no_request_is_refused(match: object, reason: str) -> None:
    faulty = ServedWithFaults()
    with pytest.raises(FaultError, match=reason):
        faulty.add(match=match, twice=True)
    assert not faulty.injected.states()


def test_an_api_that_a_listener_does_not_serve_is_rejected() -> None:
    faulty = ServedWithFaults()
    other = Gateway(lambda _: None, report_no_bug)
    faults = Faults(
        (1,),
        {"PLAINTEXT": faulty.gateway, "CONTROLLER": other},
        SeededEntropy(),
        report=faulty.report,
        report_bug=report_no_bug,
        install=lambda _: None,
    )
    match = {"api": "Heartbeat", "listener": "controller"}
    with pytest.raises(FaultError, match=r"^match\.api Heartbeat is not served by listener CONT"):
        faults.add(parse_rule({"match": match, "action": {"disconnect": True}}))
    match["listener"] = "plaintext"
    assert faults.add(parse_rule({"match": match, "action": {"disconnect": True}})).id == "f1"


def test_a_delayed_request_is_refused_after_the_delay() -> None:
    faulty = ServedWithFaults()
    pending = faulty.delayed(error="NOT_COORDINATOR")
    assert faulty.history.about("g") == ()
    faulty.clock.advance(DELAY_MS)
    assert faulty.code_of(pending) == ErrorCode.NOT_COORDINATOR
    assert faulty.requests == []
    assert faulty.faults == []


def test_a_disconnect_ends_the_delay() -> None:
    faulty = ServedWithFaults()
    pending = faulty.delayed()
    pending.waiting.abandon()
    assert faulty.clock.next_deadline_ms is None
    faulty.clock.advance(DELAY_MS)
    faulty.injected.clear()
    assert faulty.requests == []


def test_a_disconnect_after_the_delay_abandons_the_handlers_answer() -> None:
    inner: Waiting[HeartbeatResponse] = Waiting()
    faulty = ServedWithFaults(lambda _, __: inner)
    pending = faulty.delayed()
    faulty.clock.advance(DELAY_MS)
    pending.waiting.abandon()
    assert inner.is_abandoned


def test_removing_a_fault_ends_only_its_own_delays() -> None:
    faulty = ServedWithFaults()
    removed = faulty.delayed()
    faulty.injected.add(parse_rule({"action": {"delay_ms": 9}}))
    faulty.injected.remove("f1")
    assert faulty.code_of(removed) == ErrorCode.NONE
    pending = faulty.send(request_frame(BEAT, 4))
    assert isinstance(pending, PendingAnswer)
    assert not pending.waiting.is_resolved


def test_a_stop_drops_delayed_requests() -> None:
    faulty = ServedWithFaults()
    pending = faulty.delayed()
    faulty.injected.close()
    assert pending.waiting.is_abandoned
    assert faulty.clock.next_deadline_ms is None
    assert (faulty.requests, faulty.injected.states(), faulty.gateway.steps) == ([], [], ())


def test_an_exception_after_a_delay_is_reported() -> None:
    def fail(_: object, __: object) -> None:
        raise LookupError

    faulty = ServedWithFaults(fail)
    pending = faulty.delayed()
    faulty.clock.advance(DELAY_MS)
    assert faulty.code_of(pending) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [type(fault) for fault in faulty.faults] == [LookupError]


def test_a_violation_after_a_delay_closes_the_connection() -> None:
    def raise_violation(_: object, __: object) -> None:
        raise ProtocolViolation("acks=0 failed")

    faulty = ServedWithFaults(raise_violation)
    pending = faulty.delayed()
    faulty.clock.advance(DELAY_MS)
    with pytest.raises(DisconnectError, match="acks=0 failed"):
        pending.encode(pending.waiting.value, faulty.out)
    assert faulty.faults == []


def test_a_disconnect_fault_fires_before_or_after_the_handler() -> None:
    faulty = ServedWithFaults()
    fault = faulty.add(disconnect=True)
    with pytest.raises(DisconnectError, match="fault f1 closed the connection before"):
        faulty.send(request_frame(BEAT, 4))
    assert faulty.requests == []
    faulty.injected.remove(fault.id)
    faulty.add(disconnect="after")
    with pytest.raises(DisconnectError, match="fault f2 closed the connection after"):
        faulty.send(request_frame(BEAT, 4))
    assert faulty.requests == [BEAT]
    assert [entry.facts["fault"] for entry in faulty.history.about("g")] == ["f1", "f2"]


def test_a_delayed_request_is_handled_with_its_own_facts() -> None:
    seen: list[tuple[object, ...]] = []

    def handle(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
        seen.append((call.era, call.api_version, call.client_id, call.request_bytes))
        return alive(call, request)

    faulty = ServedWithFaults(handle, eras=Eras((0, "old"), (4, "new")))
    faulty.add(match={"client_id": "first"}, delay_ms=DELAY_MS)
    delayed = request_frame(BEAT, 0, client_id=b"first")
    other = request_frame(BEAT, 4, client_id=b"second")
    assert isinstance(faulty.send(delayed), PendingAnswer)
    faulty.send(other)
    faulty.clock.advance(DELAY_MS)
    assert seen == [("new", 4, "second", len(other) - 4), ("old", 0, "first", len(delayed) - 4)]


def counted() -> tuple[list[int], Any]:
    """Return a list that grows with each handled request, and the handler."""
    handled: list[int] = []

    def handle(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
        handled.append(len(handled))
        return alive(call, request)

    return handled, handle


def held(faulty: ServedWithFaults, **action: object) -> tuple[FaultState, PendingAnswer]:
    state = faulty.add(hold=True, **action)
    pending = faulty.send(request_frame(BEAT, 4))
    assert isinstance(pending, PendingAnswer)
    return state, pending


def test_held_requests_are_handled_in_order_when_they_are_released() -> None:
    handled, handle = counted()
    faulty = ServedWithFaults(handle)
    fault, first = held(faulty)
    second, third = (faulty.send(request_frame(BEAT, 4)) for _ in range(2))
    assert isinstance(second, PendingAnswer)
    assert isinstance(third, PendingAnswer)
    faulty.clock.advance(10**9)
    assert handled == []
    assert faulty.injected.release(fault.id, 2).waiting == 1
    answers = (first, second, third)
    assert [each.waiting.is_resolved for each in answers] == [True, True, False]
    assert faulty.injected.release(fault.id).waiting == 0
    assert faulty.code_of(third) == ErrorCode.NONE
    with pytest.raises(UnknownFaultError):
        faulty.injected.release("f9")


def test_removing_a_fault_releases_the_requests_that_it_holds() -> None:
    faulty = ServedWithFaults()
    fault, pending = held(faulty, error="NOT_COORDINATOR")
    faulty.injected.remove(fault.id)
    assert faulty.code_of(pending) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("is_late", [True, False])
def test_only_a_late_request_is_handled_after_its_connection_was_closed(*, is_late: bool) -> None:
    handled, handle = counted()
    faulty = ServedWithFaults(handle)
    fault, pending = held(faulty, **({"late": True} if is_late else {}))
    pending.waiting.abandon()
    assert faulty.injected.states()[0].waiting == is_late
    faulty.injected.release(fault.id)
    assert len(handled) == is_late


def test_a_late_request_can_lose_its_connection_at_once() -> None:
    handled, handle = counted()
    faulty = ServedWithFaults(handle)
    faulty.add(delay_ms=DELAY_MS, late=True, disconnect="before")
    with pytest.raises(
        DisconnectError, match="f1 closed the connection; Heartbeat is handled later"
    ):
        faulty.send(request_frame(BEAT, 4))
    assert handled == []
    faulty.clock.advance(DELAY_MS)
    assert handled == [0]


@pytest.mark.parametrize(
    "action",
    [
        {"hold": True, "late": True, "disconnect": "before"},
        {"disconnect": "after"},
        {"lost": "answer"},
        {"twice": True},
    ],
)
def test_a_bug_in_an_answer_that_no_client_gets_is_reported(action: dict[str, object]) -> None:
    later: list[Waiting[HeartbeatResponse]] = []

    def handle(_: object, __: object) -> Any:  # noqa: ANN401 - as every handler
        later.append(Waiting())
        return later[-1]

    faulty = ServedWithFaults(handle)
    fault = faulty.add(**action)
    with suppress(DisconnectError):
        faulty.send(request_frame(BEAT, 4))
    faulty.injected.release(fault.id)
    if "twice" in action:
        later[0].resolve(HeartbeatResponse())
    later[-1].refuse(LookupError("a bug"))
    assert [str(each) for each in faulty.faults] == ["a bug"]


def test_late_requests_have_limited_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request above the limit is dropped with its connection; its memory is that of others."""
    size = len(request_frame(BEAT, 4)) - 4
    size += LATE_REQUEST_BYTES
    monkeypatch.setattr("kafkalite.gateway.faults.MAX_LATE_BYTES", 2 * size)
    handled, handle = counted()
    faulty = ServedWithFaults(handle)
    fault, first = held(faulty, late=True)
    others = [faulty.send(request_frame(BEAT, 4)) for _ in range(2)]
    for each in (first, *others):
        assert isinstance(each, PendingAnswer)
        each.waiting.abandon()
    assert faulty.injected.release(fault.id).waiting == 0
    assert len(handled) == 2
    again = faulty.send(request_frame(BEAT, 4))
    assert isinstance(again, PendingAnswer)
    again.waiting.abandon()
    faulty.injected.release(fault.id)
    assert len(handled) == 3


def test_late_requests_whose_connections_were_closed_have_limited_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = len(request_frame(BEAT, 4)) - 4
    size += LATE_REQUEST_BYTES
    monkeypatch.setattr("kafkalite.gateway.faults.MAX_LATE_BYTES", size)
    handled, handle = counted()
    faulty = ServedWithFaults(handle)
    fault = faulty.add(hold=True, late=True, disconnect="before")
    for reason in (
        "Heartbeat is handled later",
        "those that wait without a connection have no memory",
    ):
        with pytest.raises(DisconnectError, match=reason):
            faulty.send(request_frame(BEAT, 4))
    assert faulty.injected.states()[0].waiting == 1
    faulty.injected.release(fault.id)
    assert len(handled) == 1


def test_a_stop_drops_late_requests() -> None:
    handled, handle = counted()
    faulty = ServedWithFaults(handle)
    faulty.add(delay_ms=DELAY_MS, late=True)
    faulty.send(request_frame(BEAT, 4))
    faulty.injected.close()
    faulty.clock.advance(DELAY_MS)
    assert handled == []


@pytest.mark.parametrize(("lost", "count"), [("request", 0), ("answer", 1)])
def test_a_lost_message_leaves_the_client_without_answer(lost: str, count: int) -> None:
    handled, handle = counted()
    faulty = ServedWithFaults(handle)
    faulty.add(lost=lost)
    pending = faulty.send(request_frame(BEAT, 4))
    assert isinstance(pending, PendingAnswer)
    assert len(handled) == count
    faulty.injected.clear()
    assert not pending.waiting.is_resolved
    pending.waiting.abandon()


def test_a_refusal_can_be_lost() -> None:
    def refuse(_: Call, __: HeartbeatRequest) -> HeartbeatResponse:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    faulty = ServedWithFaults(refuse)
    faulty.add(lost="answer")
    pending = faulty.send(request_frame(BEAT, 4))
    assert isinstance(pending, PendingAnswer)
    assert not pending.waiting.is_resolved


def test_a_fault_of_another_group_lets_requests_be_repeated() -> None:
    answer = HeartbeatResponse()
    faulty = ServedWithFaults(lambda *_: answer, is_repeated=True)
    frame = request_frame(BEAT, 4)
    fault = faulty.add(match={"group": "other"}, error="NOT_COORDINATOR")
    for _ in range(3):
        faulty.send(frame)
    assert faulty.requests[0] is faulty.requests[2]  # decoded once
    faulty.injected.remove(fault.id)
    own = faulty.add(match={"group": "g"}, error="NOT_COORDINATOR")
    faulty.send(frame)
    assert len(faulty.requests) == 3
    assert faulty.injected.state(own.id).firings == 1


def test_the_answer_to_a_repeated_request_is_the_first_one() -> None:
    answers: list[Waiting[HeartbeatResponse]] = []

    def wait(_: Call, __: HeartbeatRequest) -> Waiting[HeartbeatResponse]:
        answers.append(Waiting())
        return answers[-1]

    faulty = ServedWithFaults(wait)
    faulty.add(twice=True)
    pending = faulty.send(request_frame(BEAT, 4))
    assert isinstance(pending, PendingAnswer)
    assert len(answers) == 1  # the second is sent after the answer, as by a client that retries
    answers[0].resolve(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
    assert len(answers) == 2
    assert faulty.code_of(pending) == ErrorCode.ILLEGAL_GENERATION


def test_the_repetition_may_be_refused() -> None:
    handled: list[HeartbeatRequest] = []

    def once(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
        handled.append(request)
        if len(handled) == 2:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return alive(call, request)

    faulty = ServedWithFaults(once)
    faulty.add(twice=True)
    faulty.send(request_frame(BEAT, 4))
    assert faulty.answer(4)[1].error_code == ErrorCode.NONE
    first, second = handled
    assert first is not second
    assert first == second
