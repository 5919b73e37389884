"""WorkLimit: how many bytes of long requests are processed at a time."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.server.work_limit import MAX_CONCURRENT_BYTES, WorkLimit


class LimitedWorkers:
    """A limit, and the workers that continued; a worker represents its connection."""

    def __init__(self) -> None:
        self.resumed: list[Any] = []
        self.limit = WorkLimit(self.resumed.append)

    def acquire(self, worker: Any, count: int) -> None:  # noqa: ANN401 - a name will do
        self.limit.acquire(worker, count, worker)


@pytest.fixture
def workers() -> LimitedWorkers:
    return LimitedWorkers()


def test_requests_below_the_limit_continue_immediately(workers: LimitedWorkers) -> None:
    for name in "abcd":
        workers.acquire(name, MAX_CONCURRENT_BYTES // 4)
    assert workers.resumed == ["a", "b", "c", "d"]


def test_requests_above_the_limit_are_queued(workers: LimitedWorkers) -> None:
    workers.acquire("a", MAX_CONCURRENT_BYTES)
    workers.acquire("large", MAX_CONCURRENT_BYTES)
    workers.acquire("small", 1)
    assert workers.resumed == ["a"]
    workers.limit.release("a")  # type: ignore[arg-type]
    assert workers.resumed == ["a", "large"], "first come first served"
    workers.limit.release("large")  # type: ignore[arg-type]
    assert workers.resumed == ["a", "large", "small"]


def test_a_request_larger_than_the_limit_is_processed_alone(workers: LimitedWorkers) -> None:
    workers.acquire("huge", 10 * MAX_CONCURRENT_BYTES)
    workers.acquire("small", 1)
    assert workers.resumed == ["huge"]
    workers.limit.release("huge")  # type: ignore[arg-type]
    assert workers.resumed == ["huge", "small"]


def test_a_finished_request_lets_queued_ones_continue(workers: LimitedWorkers) -> None:
    workers.acquire("a", MAX_CONCURRENT_BYTES // 2)
    workers.acquire("huge", MAX_CONCURRENT_BYTES)
    workers.acquire("small", 1)
    workers.limit.release("huge")  # type: ignore[arg-type]
    assert workers.resumed == ["a", "small"]


def test_no_request_continues_after_the_stop(workers: LimitedWorkers) -> None:
    workers.acquire("a", MAX_CONCURRENT_BYTES)
    workers.acquire("b", MAX_CONCURRENT_BYTES)
    workers.limit.stop()
    workers.limit.release("a")  # type: ignore[arg-type]
    assert workers.resumed == ["a"]
