"""Settings by size: small and large, and what somebody else has set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.spark.sizing import SHUFFLE, SMALL_BYTES, is_one_process, settings, sized

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODEGEN = "spark.sql.codegen.wholeStage"


@pytest.mark.parametrize(
    ("size", "partitions"),
    [
        (0, 2),
        (SMALL_BYTES - 1, 2),
        (SMALL_BYTES, 200),
        (10 << 30, 320),
        (10 << 40, 20_000),
    ],
)
def test_a_shuffle_has_tasks_by_how_much_there_is(size: int, partitions: int) -> None:
    assert int(settings(size)[SHUFFLE]) == partitions


def test_large_inputs_are_worth_compiling_for() -> None:
    assert settings(0)[CODEGEN] == "false"
    assert CODEGEN not in settings(SMALL_BYTES)


@pytest.mark.spark
def test_what_somebody_set_stays(spark: SparkSession) -> None:
    assert spark.conf.get(SHUFFLE) == "2"
    with sized(spark, SMALL_BYTES):
        assert spark.conf.get(SHUFFLE) == "2"


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
