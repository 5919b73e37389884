"""A session's settings; that it starts and that its workers have our libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.spark.session import is_here, settings, start

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("master", "here"),
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
def test_a_master_is_on_this_machine_or_not(master: str, *, here: bool) -> None:
    assert is_here(master) is here


def test_what_the_user_sets_outweighs_what_we_chose() -> None:
    ours = settings("local[2]", {})
    theirs = settings("local[2]", {"spark.sql.session.timeZone": "CET", "spark.foo": "bar"})
    assert ours["spark.sql.session.timeZone"] == "UTC"
    assert theirs == {**ours, "spark.sql.session.timeZone": "CET", "spark.foo": "bar"}


def test_a_cluster_elsewhere_is_not_told_to_talk_to_loopback() -> None:
    assert "spark.driver.host" not in settings("spark://spark.example:7077", {})


def test_only_workers_beside_the_driver_come_from_our_daemon() -> None:
    daemon = "spark.python.daemon.module"
    assert settings("local[2]", {})[daemon] == "kafkalite.spark.daemon"
    assert daemon not in settings("spark://localhost:7077", {})


def test_arrow_in_java_trusts_our_workers_wherever_it_runs() -> None:
    for master in ("local[2]", "yarn"):
        for quick in (False, True):
            found = settings(master, {}, quick=quick)
            for process in ("driver", "executor"):
                options = found[f"spark.{process}.defaultJavaOptions"]
                assert "-Darrow.enable_unsafe_memory_access=true" in options


@pytest.mark.spark
def test_a_worker_runs_the_python_and_the_libraries_of_the_driver(spark: SparkSession) -> None:
    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys  # noqa: PLC0415 - what the worker has

        import pyarrow as pa  # noqa: PLC0415

        import kafkalite  # noqa: PLC0415

        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"python": [sys.executable], "home": [kafkalite.__file__]}
            )

    import sys  # noqa: PLC0415

    import kafkalite  # noqa: PLC0415

    [row] = spark.range(1, numPartitions=1).mapInArrow(tell, "python string, home string").collect()
    assert (row.python, row.home) == (sys.executable, kafkalite.__file__)


@pytest.mark.spark
def test_a_second_start_is_the_first_session(spark: SparkSession) -> None:
    assert start("local[2]", quick=True) is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
