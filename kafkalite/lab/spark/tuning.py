"""Spark settings by input size: small and large captures need opposite settings.

Small captures are processed faster than Spark compiles queries, so queries are interpreted, in few
tasks. Large captures need compiled queries, and shuffle partitions in proportion to the data.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.dataframes import is_local

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

SMALL_BYTES: Final = 64 << 20
"""Below this size, planning and compiling take longer than the work."""
FIRST_COMPILER_BYTES: Final = 1 << 30
"""Below this size, Java's second JIT compiler takes longer than it saves: a third of the run."""
DRIVER_BYTES: Final = 4 << 20
"""Below this size, starting the first worker process takes longer than the work."""

SHUFFLE: Final = "spark.sql.shuffle.partitions"
_FILE_BYTES: Final = "spark.sql.files.maxPartitionBytes"
_OPEN_COST: Final = "spark.sql.files.openCostInBytes"
_MIN_TASKS: Final = "spark.sql.files.minPartitionNum"

_SPARK_DEFAULTS: Final[Mapping[str, str | None]] = {
    SHUFFLE: "200",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "32",
    "spark.sql.maxPlanStringLength": "2147483632",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "10485760b",
    _FILE_BYTES: "134217728b",
    _OPEN_COST: "4194304b",
    _MIN_TASKS: None,
}
"""Spark's defaults; None for a setting without one. A setting with another value was chosen by the
user and is not changed."""

_SMALL_INPUT_SETTINGS: Final[Mapping[str, str]] = {
    # Starting a task takes longer than its share of the work; other audits use the other cores.
    SHUFFLE: "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # The driver lists folders, because a job for that takes longer.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # Spark would describe each query and stage in full for its web page, which is off.
    "spark.sql.maxPlanStringLength": "1000",
}

_SINGLE_TASK_SETTINGS: Final[Mapping[str, str]] = {
    # Without stages there is nothing to replan adaptively.
    "spark.sql.adaptive.enabled": "false",
    # Broadcasts would need a job for each side of a join.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""For queries that are a single task each."""

_SHUFFLED_BYTES: Final = 32 << 20
"""Bytes of the capture per task of a shuffle; less than that is shuffled."""
_MIN_PARTITIONS: Final = 200
"""For clusters, whose number of cores is unknown."""
_MIN_PARTITIONS_PER_CORE: Final = 2
"""For a single machine: every further task adds one part per sorted file."""
_MAX_PARTITIONS: Final = 20_000
TASKS_PER_CORE: Final = 4
"""Number of tasks of a stage per core, so that no core is idle for long at the end."""
_MAX_SCANNED_BYTES: Final = 128 << 20
_OPEN_BYTES: Final = 64 << 10
"""Bytes of a file that cost as much as opening it. With Spark's 4 MB, one task reads all files."""


def settings(size: int, cores: int | None = None) -> dict[str, str]:
    """Return settings for an input size; `cores` is the number of cores of a single machine."""
    if size < SMALL_BYTES:
        return dict(_SMALL_INPUT_SETTINGS)
    min_partitions = _MIN_PARTITIONS if cores is None else _MIN_PARTITIONS_PER_CORE * cores
    return {SHUFFLE: str(min(_MAX_PARTITIONS, max(min_partitions, size // _SHUFFLED_BYTES)))}


@contextmanager
def settings_for_size(spark: SparkSession, size: int) -> Iterator[None]:
    """Use the settings for an input size inside this block, unless the user chose others."""
    if is_local(spark):
        yield
        return
    cores = spark.sparkContext.defaultParallelism if is_one_process(spark) else None
    with temporary_settings(spark, _not_chosen_by_user(spark, settings(size, cores))):
        yield


@contextmanager
def scan_settings(spark: SparkSession, task_bytes: int) -> Iterator[None]:
    """Let a task read this many bytes of files inside this block, unless the user chose others.

    A small table still has several tasks per core.
    """
    size = max(_OPEN_BYTES, min(_MAX_SCANNED_BYTES, task_bytes))
    chosen = {
        _FILE_BYTES: str(size),
        _OPEN_COST: str(_OPEN_BYTES),
        _MIN_TASKS: str(TASKS_PER_CORE * cores(spark)),
    }
    with temporary_settings(spark, _not_chosen_by_user(spark, chosen)):
        yield


def cores(spark: SparkSession) -> int:
    """Return the number of parallel tasks; 2 if the session does not know it."""
    context = getattr(spark, "sparkContext", None)
    return 2 if context is None else max(1, int(context.defaultParallelism))


@contextmanager
def single_task_settings(spark: SparkSession) -> Iterator[None]:
    """Use the settings for single-task queries inside this block, unless the user chose others."""
    if is_local(spark):
        yield
        return
    with temporary_settings(spark, _not_chosen_by_user(spark, _SINGLE_TASK_SETTINGS)):
        yield


def _not_chosen_by_user(spark: SparkSession, settings_: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in settings_.items()
        if _current(spark, name) == _SPARK_DEFAULTS[name]
    }


@contextmanager
def temporary_settings(spark: SparkSession, settings_: Mapping[str, str]) -> Iterator[None]:
    """Use these settings inside this block."""
    previous = {name: _current(spark, name) for name in settings_}
    try:
        for name, value in settings_.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, former in previous.items():
            if former is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, former)


def _current(spark: SparkSession, name: str) -> str | None:
    # The default of a setting without a value must be given: otherwise Spark raises an error.
    if _SPARK_DEFAULTS.get(name, "") is None:
        return spark.conf.get(name, None)
    return str(spark.conf.get(name))


def fits_in_driver(spark: SparkSession, size: int) -> bool:
    """Whether the driver does work on an input of this size itself, without tasks."""
    return is_local(spark) or (is_one_process(spark) and size <= DRIVER_BYTES)


def is_one_process(spark: SparkSession) -> bool:
    """Whether all tasks run in the driver's process, so that the driver can do their work."""
    context = getattr(spark, "sparkContext", None)
    return is_local(spark) or (context is not None and str(context.master).startswith("local"))
