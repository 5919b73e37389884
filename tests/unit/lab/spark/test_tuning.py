"""Spark settings by input size, and settings that the user chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.spark.tuning import (
    SHUFFLE,
    SMALL_BYTES,
    TASKS_PER_CORE,
    cores,
    is_one_process,
    scan_settings,
    settings,
    settings_for_size,
)

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
def test_shuffle_partitions_depend_on_size_and_cores(
    size: int, cores: int | None, partitions: int
) -> None:
    assert int(settings(size, cores)[SHUFFLE]) == partitions


def test_large_inputs_use_compiled_queries() -> None:
    assert settings(0)[CODEGEN] == "false"
    assert CODEGEN not in settings(SMALL_BYTES)


@pytest.mark.spark
def test_settings_of_the_user_stay(spark: SparkSession) -> None:
    assert spark.conf.get(SHUFFLE) == "1"
    with settings_for_size(spark, SMALL_BYTES):
        assert spark.conf.get(SHUFFLE) == "1"


@pytest.mark.spark
def test_single_machine_has_shuffle_partitions_by_cores(spark: SparkSession) -> None:
    by_default = spark.newSession()
    by_default.conf.set(SHUFFLE, "200")
    with settings_for_size(by_default, SMALL_BYTES):
        assert by_default.conf.get(SHUFFLE) == str(2 * spark.sparkContext.defaultParallelism)


@pytest.mark.spark
def test_scans_have_several_tasks_per_core_unless_the_user_chose_otherwise(
    spark: SparkSession,
) -> None:
    by_default = spark.newSession()
    minimum, size = "spark.sql.files.minPartitionNum", "spark.sql.files.maxPartitionBytes"
    with scan_settings(by_default, 1 << 20):
        assert by_default.conf.get(minimum) == str(TASKS_PER_CORE * cores(spark))
        assert by_default.conf.get(size) == str(1 << 20)
        assert by_default.conf.get("spark.sql.files.openCostInBytes") == str(1 << 16)
    assert by_default.conf.get(minimum, None) is None
    by_default.conf.set(size, "1g")
    with scan_settings(by_default, 1 << 20):
        assert by_default.conf.get(size) == "1g"


@pytest.mark.spark
def test_settings_are_restored_after_the_block(spark: SparkSession) -> None:
    by_default = spark.newSession()
    by_default.conf.set(CODEGEN, "true")
    with settings_for_size(by_default, 0):
        assert by_default.conf.get(CODEGEN) == "false"
    assert by_default.conf.get(CODEGEN) == "true"


@pytest.mark.spark
def test_local_session_is_one_process(spark: SparkSession) -> None:
    assert is_one_process(spark)
