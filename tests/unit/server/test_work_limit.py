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
def world() -> LimitedWorkers:
    return LimitedWorkers()


def test_requests_below_the_limit_continue_immediately(world: LimitedWorkers) -> None:
    for name in "abcd":
        world.acquire(name, MAX_CONCURRENT_BYTES // 4)
    assert world.resumed == ["a", "b", "c", "d"]


def test_requests_above_the_limit_are_queued(world: LimitedWorkers) -> None:
    world.acquire("a", MAX_CONCURRENT_BYTES)
    world.acquire("large", MAX_CONCURRENT_BYTES)
    world.acquire("small", 1)
    assert world.resumed == ["a"]
    world.limit.release("a")  # type: ignore[arg-type]
    assert world.resumed == ["a", "large"], "first come first served"
    world.limit.release("large")  # type: ignore[arg-type]
    assert world.resumed == ["a", "large", "small"]


def test_a_request_larger_than_the_limit_is_processed_alone(world: LimitedWorkers) -> None:
    world.acquire("huge", 10 * MAX_CONCURRENT_BYTES)
    world.acquire("small", 1)
    assert world.resumed == ["huge"]
    world.limit.release("huge")  # type: ignore[arg-type]
    assert world.resumed == ["huge", "small"]


def test_a_finished_request_lets_queued_ones_continue(world: LimitedWorkers) -> None:
    world.acquire("a", MAX_CONCURRENT_BYTES // 2)
    world.acquire("huge", MAX_CONCURRENT_BYTES)
    world.acquire("small", 1)
    world.limit.release("huge")  # type: ignore[arg-type]
    assert world.resumed == ["a", "small"]


def test_no_request_continues_after_the_stop(world: LimitedWorkers) -> None:
    world.acquire("a", MAX_CONCURRENT_BYTES)
    world.acquire("b", MAX_CONCURRENT_BYTES)
    world.limit.stop()
    world.limit.release("a")  # type: ignore[arg-type]
    assert world.resumed == ["a"]
