"""Requests that are handled later: their answers, the three kinds of errors, and their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.waiting_budget import WaitingBudget
from kafkalite.gateway.deferred_request import DeferredRequest
from kafkalite.gateway.steps import DisconnectError
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable

BYTES = 100


class Deferred:
    """A deferred request with all the memory of a budget."""

    def __init__(self, handle: Callable[[DeferredRequest[str]], str | Waiting[str]]) -> None:
        self.budget = WaitingBudget(BYTES)
        self.cancelled = 0
        self.request = DeferredRequest(handle)
        self.waiting = self.request.waiting
        assert self.request.take_memory(self.budget, BYTES)
        self.request.wait(self._cancel)

    def _cancel(self) -> None:
        self.cancelled += 1


def refuse(error: Exception) -> Callable[[object], str]:
    def handle(_: object) -> str:
        raise error

    return handle


def test_the_answer_arrives_when_the_request_is_handled() -> None:
    deferred = Deferred(lambda _: "answer")
    assert (deferred.waiting.is_resolved, deferred.budget.free_bytes) == (False, 0)
    deferred.request.resume()
    assert (deferred.waiting.value, deferred.budget.free_bytes) == ("answer", BYTES)


def test_an_answer_that_arrives_later_needs_no_memory_of_the_request() -> None:
    answer: Waiting[str] = Waiting()
    deferred = Deferred(lambda _: answer)
    deferred.request.resume()
    assert (deferred.waiting.is_resolved, deferred.budget.free_bytes) == (False, BYTES)
    answer.resolve("answer")
    assert deferred.waiting.value == "answer"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KafkaError(ErrorCode.NOT_CONTROLLER), KafkaError),
        (ProtocolViolation("a reason"), DisconnectError),
        (LookupError("a bug"), LookupError),
    ],
)
def test_an_exception_is_delivered_by_its_kind(error: Exception, expected: type[Exception]) -> None:
    deferred = Deferred(refuse(error))
    deferred.request.resume()
    delivered: object = deferred.waiting.value
    assert (type(delivered), str(delivered)) == (expected, str(error))
    assert deferred.budget.free_bytes == BYTES


def test_a_wait_that_fails_refuses_the_request() -> None:
    deferred = Deferred(refuse(AssertionError("the request was handled")))
    error = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    deferred.request.refuse(error)
    delivered: object = deferred.waiting.value
    assert delivered is error
    assert deferred.budget.free_bytes == BYTES


def test_a_request_can_wait_again() -> None:
    attempts: list[int] = []

    def handle(request: DeferredRequest[str]) -> str | Waiting[str]:
        attempts.append(deferred.budget.free_bytes)
        if len(attempts) < 3:
            request.wait()
            return request.waiting
        return "answer"

    deferred = Deferred(handle)
    for _ in range(3):
        assert not deferred.waiting.is_resolved
        deferred.request.resume()
    assert (deferred.waiting.value, attempts) == ("answer", [0, 0, 0])


def test_a_connection_that_closes_cancels_the_wait() -> None:
    deferred = Deferred(lambda _: "answer")
    deferred.waiting.abandon()
    assert (deferred.cancelled, deferred.budget.free_bytes) == (1, BYTES)


def test_a_wait_that_cannot_be_cancelled_ends_after_the_connection() -> None:
    deferred = Deferred(lambda _: "answer")
    deferred.request.wait()
    deferred.waiting.abandon()
    assert deferred.budget.free_bytes == 0
    deferred.request.resume()
    assert (deferred.waiting.value, deferred.budget.free_bytes) == ("answer", BYTES)


def test_a_connection_that_closes_abandons_the_answer() -> None:
    answer: Waiting[str] = Waiting()
    deferred = Deferred(lambda _: answer)
    deferred.request.resume()
    deferred.waiting.abandon()
    assert answer.is_abandoned
    assert deferred.cancelled == 0


def test_without_memory_nothing_is_reserved() -> None:
    deferred = Deferred(lambda _: "answer")
    assert not DeferredRequest(lambda _: "").take_memory(deferred.budget, 1)
    assert deferred.budget.free_bytes == 0
