"""Settings of the Spark session, its start, and its workers' libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import ArithmeticException

from kafkalite.lab.spark.memory import heap_mib
from kafkalite.lab.spark.session import is_local_machine, settings, start
from kafkalite.ports.system import machine_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("master", "is_local"),
    [
        ("local", True),
        ("local[2]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077,localhost:7078", True),
        ("spark://spark.example:7077", False),
        ("k8s://https://kubernetes.example:6443", False),
        ("yarn", False),
    ],
)
def test_local_masters_are_recognized(master: str, *, is_local: bool) -> None:
    assert is_local_machine(master) is is_local


def test_settings_of_the_user_override_ours() -> None:
    ours = settings("local[2]", {})
    theirs = settings("local[2]", {"spark.sql.session.timeZone": "CET", "spark.foo": "bar"})
    assert ours["spark.sql.session.timeZone"] == "UTC"
    assert theirs == {**ours, "spark.sql.session.timeZone": "CET", "spark.foo": "bar"}


def test_remote_cluster_does_not_use_loopback() -> None:
    assert "spark.driver.host" not in settings("spark://spark.example:7077", {})


def test_only_local_workers_use_our_daemon() -> None:
    daemon = "spark.python.daemon.module"
    assert settings("local[2]", {})[daemon] == "kafkalite.lab.spark.daemon"
    assert daemon not in settings("spark://localhost:7077", {})


def test_arrow_checks_are_off_with_every_master() -> None:
    for master in ("local[2]", "yarn"):
        for quick in (False, True):
            found = settings(master, {}, quick=quick)
            for process in ("driver", "executor"):
                options = found[f"spark.{process}.defaultJavaOptions"]
                assert "-Darrow.enable_unsafe_memory_access=true" in options


@pytest.mark.parametrize(
    ("size", "has_first_compiler_only"), [(0, True), (1 << 29, True), (1 << 30, False)]
)
def test_java_uses_its_first_compiler_only_for_short_runs(
    size: int, *, has_first_compiler_only: bool
) -> None:
    options = settings("local[2]", {}, size=size)["spark.driver.defaultJavaOptions"]
    assert ("-XX:TieredStopAtLevel=1 " in options) is has_first_compiler_only
    assert "-XX:+UseParallelGC" in options


def test_heap_is_chosen_by_the_memory_unless_the_user_chose_it() -> None:
    heap = "spark.driver.memory"
    assert settings("local[2]", {})[heap] == f"{heap_mib(machine_bytes())}m"
    assert settings("local[2]", {heap: "3g"})[heap] == "3g"
    assert heap not in settings("yarn", {})


@pytest.mark.spark
def test_worker_uses_the_python_and_the_libraries_of_the_driver(spark: SparkSession) -> None:
    def inspect(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys  # noqa: PLC0415 - runs in the worker

        import pyarrow as pa  # noqa: PLC0415

        import kafkalite  # noqa: PLC0415

        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"python": [sys.executable], "home": [kafkalite.__file__]}
            )

    import sys  # noqa: PLC0415

    import kafkalite  # noqa: PLC0415

    rows = spark.range(1, numPartitions=1).mapInArrow(inspect, "python string, home string")
    [row] = rows.collect()
    assert (row.python, row.home) == (sys.executable, kafkalite.__file__)


@pytest.mark.spark
def test_failed_query_prints_nothing(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ArithmeticException, match="ARITHMETIC_OVERFLOW"):
        spark.range(1).selectExpr(f"id + 1 + {2**63 - 1}").collect()
    assert capfd.readouterr().err == ""


@pytest.mark.spark
def test_second_start_returns_the_first_session(spark: SparkSession) -> None:
    assert start("local[2]", quick=True) is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
