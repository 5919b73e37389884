"""Request hooks: what a function sees of a request, and what happens with it afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.gateway.request_hooks import MAX_ERRORS, MAX_HOOKS, HookedRequest, RequestHooks
from kafkalite.gateway.steps import DisconnectError, StepOrder
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.wire.session import PendingAnswer
from tests.unit.frames import request_frame
from tests.unit.gateway.served import BEAT, Served, alive

if TYPE_CHECKING:
    from kafkalite.gateway.request_hooks import Callback, RequestHook

ALIVE = HeartbeatResponse(throttle_time_ms=7)


class Hooked(Served):
    """A gateway for heartbeats with hooks, and the exceptions that they reported."""

    def __init__(self) -> None:
        super().__init__(alive)
        self.failures: list[tuple[str, BaseException]] = []
        self.hooks = RequestHooks(
            lambda *failure: self.failures.append(failure),
            lambda: self.gateway.set_step(StepOrder.HOOKS, self.hooks.step),
        )

    def add(self, callback: Callback, api: str | None = None) -> RequestHook:
        return self.hooks.add(callback, api)

    def beat(self) -> HeartbeatResponse:
        """Send a heartbeat that is answered at once."""
        assert isinstance(self.send(request_frame(BEAT, 4)), int)
        return self.answer(4)[1]

    def pending(self) -> PendingAnswer:
        pending = self.send(request_frame(BEAT, 4))
        assert isinstance(pending, PendingAnswer)
        return pending


@pytest.fixture
def hooked() -> Hooked:
    return Hooked()


def test_a_hook_sees_the_request_and_the_broker_handles_it(hooked: Hooked) -> None:
    seen: list[Any] = []

    def see(request: HookedRequest) -> None:
        seen.append((request.api, request.version, request.client_id, request.fields["memberId"]))
        seen.append((request.listener, request.principal, request.connection))

    hook = hooked.add(see)
    assert hooked.beat() == ALIVE
    assert seen == [
        ("Heartbeat", 4, "test", "m"),
        ("PLAINTEXT", "User:ANONYMOUS", "127.0.0.1"),
    ]
    assert hook.calls == 1
    hooked.hooks.remove(hook)
    hooked.hooks.remove(hook)
    assert hooked.gateway.steps == ()
    assert hooked.beat() == ALIVE
    assert hook.calls == 1


def test_only_the_routes_of_its_api_have_the_step_of_a_hook(hooked: Hooked) -> None:
    hooked.add(lambda _: None, "Produce")
    (step,) = hooked.gateway.steps
    assert step.wrap(hooked.api, 4, alive) is alive


def test_a_hook_answers_with_fields_or_an_error(hooked: Hooked) -> None:
    hook = hooked.add(lambda request: request.answer({"throttleTimeMs": 3, "errorCode": 25}))
    assert hooked.beat() == HeartbeatResponse(throttle_time_ms=3, error_code=25)
    hooked.hooks.remove(hook)
    hooked.add(lambda request: request.answer(error="NOT_COORDINATOR"))
    assert hooked.beat().error_code == ErrorCode.NOT_COORDINATOR
    assert hooked.requests == []
    (entry,) = hooked.history.about("g")
    assert entry.text == "Heartbeat refused by a hook (NOT_COORDINATOR)"


def test_later_hooks_see_what_an_earlier_one_changed(hooked: Hooked) -> None:
    names: list[str] = []
    hooked.add(lambda request: request.change(request.fields | {"memberId": "other"}))
    hooked.add(lambda request: names.append(request.fields["memberId"]))
    assert hooked.beat() == ALIVE
    assert names == ["other"]
    assert [each.member_id for each in hooked.requests] == ["other"]


def test_held_requests_are_handled_when_they_are_released(hooked: Hooked) -> None:
    hook = hooked.add(lambda request: request.hold())
    first, second, third = hooked.pending(), hooked.pending(), hooked.pending()
    third.waiting.abandon()  # its connection was closed
    assert len(hook.held) == 2
    hook.release(1)
    assert (first.waiting.is_resolved, second.waiting.is_resolved) == (True, False)
    hooked.hooks.remove(hook)
    assert second.waiting.value == ALIVE
    assert len(hooked.requests) == 2


def test_held_requests_are_dropped_when_the_broker_stops(hooked: Hooked) -> None:
    hook = hooked.add(lambda request: request.hold())
    hooked.pending()
    hooked.hooks.close()
    assert (hook.held, hooked.requests, hooked.gateway.steps) == ({}, [], ())


def test_a_hook_drops_a_request_with_or_without_its_connection(hooked: Hooked) -> None:
    hook = hooked.add(lambda request: request.drop())
    assert not hooked.pending().waiting.is_resolved
    hooked.hooks.remove(hook)
    hooked.add(lambda request: request.drop(disconnect=True))
    with pytest.raises(DisconnectError, match="Heartbeat dropped by a hook"):
        hooked.pending()
    assert hooked.requests == []


@pytest.mark.parametrize(
    ("callback", "text"),
    [
        (lambda _: 1 // 0, "by zero"),
        (lambda _: "drop", "returned 'drop', which is neither None nor the result of a method"),
        (lambda request: request.answer(), "an answer needs either fields or error"),
        (lambda request: request.answer(error="NOT_COORDINATR"), "similar names are NOT_COORD"),
        (lambda request: request.answer({"errorcode": 1}), "similar names are errorCode"),
        (lambda request: request.change({"generationId": "x"}), "generationId must be a whole"),
        (lambda _: pytest.fail("no heartbeat expected"), "no heartbeat expected"),
    ],
)
def test_a_failed_hook_is_reported_and_the_request_is_handled(
    hooked: Hooked, callback: Callback, text: str
) -> None:
    hook = hooked.add(callback)
    assert hooked.beat() == ALIVE
    (error,) = hook.errors
    assert text in str(error)
    assert hooked.failures == [("Heartbeat", error)]


def test_the_numbers_of_errors_and_of_hooks_are_limited(hooked: Hooked) -> None:
    hook = hooked.add(lambda _: 1 // 0)  # type: ignore[arg-type,return-value]
    for _ in range(MAX_ERRORS + 1):
        hooked.beat()
    assert len(hook.errors) == MAX_ERRORS
    for _ in range(MAX_HOOKS - 1):
        hooked.add(lambda _: None)
    with pytest.raises(ValueError, match="there are 100 hooks already: remove one first"):
        hooked.add(lambda _: None)
    with pytest.raises(ValueError, match="'Heartbet' is not an API of Kafka; similar names are He"):
        hooked.add(lambda _: None, "Heartbet")


def test_what_is_no_plain_function_is_refused(hooked: Hooked) -> None:
    async def coroutine(_: HookedRequest) -> None:
        """Never called."""

    with pytest.raises(ValueError, match="on_request needs a function, not 3"):
        hooked.add(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not a coroutine function: the broker does not await it"):
        hooked.add(coroutine)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="api must be the name of an API of Kafka, not 3"):
        hooked.add(lambda _: None, 3)  # type: ignore[arg-type]
