"""Settings by size: small and large, and what somebody else has set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.spark.sizing import SHUFFLE, SMALL_BYTES, is_one_process, settings, sized

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODEGEN = "spark.sql.codegen.wholeStage"


@pytest.mark.parametrize(
    ("size", "cores", "partitions"),
    [
        (0, None, 1),
        (0, 8, 1),
        (SMALL_BYTES - 1, None, 1),
        (SMALL_BYTES, None, 200),
        (SMALL_BYTES, 2, 4),
        (SMALL_BYTES, 64, 128),
        (10 << 30, None, 320),
        (10 << 30, 2, 320),
        (10 << 40, None, 20_000),
    ],
)
def test_a_shuffle_has_tasks_by_how_much_there_is(
    size: int, cores: int | None, partitions: int
) -> None:
    assert int(settings(size, cores)[SHUFFLE]) == partitions


def test_large_inputs_are_worth_compiling_for() -> None:
    assert settings(0)[CODEGEN] == "false"
    assert CODEGEN not in settings(SMALL_BYTES)


@pytest.mark.spark
def test_what_somebody_set_stays(spark: SparkSession) -> None:
    assert spark.conf.get(SHUFFLE) == "1"
    with sized(spark, SMALL_BYTES):
        assert spark.conf.get(SHUFFLE) == "1"


@pytest.mark.spark
def test_one_machine_has_tasks_by_its_cores(spark: SparkSession) -> None:
    by_default = spark.newSession()
    by_default.conf.set(SHUFFLE, "200")
    with sized(by_default, SMALL_BYTES):
        assert by_default.conf.get(SHUFFLE) == str(2 * spark.sparkContext.defaultParallelism)


@pytest.mark.spark
def test_settings_last_as_long_as_the_work(spark: SparkSession) -> None:
    by_default = spark.newSession()
    by_default.conf.set(CODEGEN, "true")
    with sized(by_default, 0):
        assert by_default.conf.get(CODEGEN) == "false"
    assert by_default.conf.get(CODEGEN) == "true"


@pytest.mark.spark
def test_one_process_does_all(spark: SparkSession) -> None:
    assert is_one_process(spark)
