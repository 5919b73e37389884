"""WorkLimit: how many bytes of long requests are processed at a time."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.server.work_limit import MAX_CONCURRENT_BYTES, WorkLimit


class Stage:
    """A limit, and the workers that continued; a worker represents its connection."""

    def __init__(self) -> None:
        self.went_on: list[Any] = []
        self.limit = WorkLimit(self.went_on.append)

    def enter(self, worker: Any, count: int) -> None:  # noqa: ANN401 - a name will do
        self.limit.enter(worker, count, worker)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_requests_below_the_limit_continue_immediately(stage: Stage) -> None:
    for name in "abcd":
        stage.enter(name, MAX_CONCURRENT_BYTES // 4)
    assert stage.went_on == ["a", "b", "c", "d"]


def test_requests_above_the_limit_are_queued(stage: Stage) -> None:
    stage.enter("a", MAX_CONCURRENT_BYTES)
    stage.enter("large", MAX_CONCURRENT_BYTES)
    stage.enter("small", 1)
    assert stage.went_on == ["a"]
    stage.limit.leave("a")  # type: ignore[arg-type]
    assert stage.went_on == ["a", "large"], "first come first served"
    stage.limit.leave("large")  # type: ignore[arg-type]
    assert stage.went_on == ["a", "large", "small"]


def test_a_request_larger_than_the_limit_is_processed_alone(stage: Stage) -> None:
    stage.enter("huge", 10 * MAX_CONCURRENT_BYTES)
    stage.enter("small", 1)
    assert stage.went_on == ["huge"]
    stage.limit.leave("huge")  # type: ignore[arg-type]
    assert stage.went_on == ["huge", "small"]


def test_a_finished_request_lets_queued_ones_continue(stage: Stage) -> None:
    stage.enter("a", MAX_CONCURRENT_BYTES // 2)
    stage.enter("huge", MAX_CONCURRENT_BYTES)
    stage.enter("small", 1)
    stage.limit.leave("huge")  # type: ignore[arg-type]
    assert stage.went_on == ["a", "small"]


def test_no_request_continues_after_the_stop(stage: Stage) -> None:
    stage.enter("a", MAX_CONCURRENT_BYTES)
    stage.enter("b", MAX_CONCURRENT_BYTES)
    stage.limit.stop()
    stage.limit.leave("a")  # type: ignore[arg-type]
    assert stage.went_on == ["a"]
