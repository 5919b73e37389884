"""The choice of what computes audits: the local engine, and Spark if that fails."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.lab.spark import pipeline
from kafkalite.lab.spark.dataframes import LocalEngineError
from kafkalite.lab.spark.pipeline import MAX_LOCAL_REQUESTS, AuditEngine
from kafkalite.lab.spark.progress import SilentReporter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LOCAL = cast("SparkSession", SimpleNamespace(interruptAll=lambda: None))


class Lines(SilentReporter):
    """Collects the lines of a run."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, description: str) -> None:
        self.lines.append(description)


class _Spark(SimpleNamespace):
    """A session with settings."""


_Spark.__module__ = "pyspark"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Replace the local engine; returns the memory of each one that was started."""
    started: list[int] = []

    @contextmanager
    def local_engine(memory_bytes: int, _: int) -> Iterator[SparkSession]:
        started.append(memory_bytes)
        yield LOCAL

    monkeypatch.setattr(pipeline, "local_engine", local_engine)
    return started


def spark(**conf: str) -> Any:  # noqa: ANN401 - a part of a session
    return _Spark(conf=SimpleNamespace(get=conf.get))


def test_failed_local_engine_is_reported_once_and_not_tried_again(memory: list[int]) -> None:
    session, reporter = spark(), Lines()
    engine = AuditEngine(session, reporter)
    used = []

    def compute(by: SparkSession) -> int:
        used.append(by)
        if by is LOCAL:
            raise LocalEngineError("out of memory")
        return 7

    assert [engine.compute("the tables", 1, compute) for _ in range(3)] == [7, 7, 7]
    assert used == [LOCAL, session, session, session]
    assert len(memory) == 1
    (line,) = reporter.lines
    assert line == "Spark computes the tables, because the local engine failed: out of memory"


def test_interrupted_local_engine_is_not_replaced(memory: list[int]) -> None:
    reporter = Lines()
    engine = AuditEngine(spark(), reporter)

    def compute(_: SparkSession) -> None:
        interrupted.append(True)
        engine.interrupt()
        raise LocalEngineError("interrupted")

    interrupted: list[bool] = []
    with pytest.raises(LocalEngineError):
        engine.compute("the tables", 1, compute)
    assert len(interrupted) == len(memory) == 1
    assert not reporter.lines


def test_local_engine_gets_half_of_the_heap_that_the_user_set(memory: list[int]) -> None:
    engine = AuditEngine(spark(**{"spark.driver.memory": "2g"}), Lines())
    assert engine.compute("the tables", MAX_LOCAL_REQUESTS, lambda by: by) is LOCAL
    assert memory == [1 << 30]


def test_spark_computes_many_requests(memory: list[int]) -> None:
    session = spark()
    engine = AuditEngine(session, Lines())
    assert engine.compute("the tables", MAX_LOCAL_REQUESTS + 1, lambda by: by) is session
    assert not memory
