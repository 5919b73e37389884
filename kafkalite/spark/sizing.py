"""Settings by how much there is to do: what a small capture and a large one want is opposed.

A small one is over sooner than Spark has compiled its queries, so they are interpreted, in few
tasks. A large one wants compiled queries, and as many tasks in a shuffle as it has data for.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

SMALL_BYTES: Final = 64 << 20
"""Below this, planning and compiling take longer than the work."""
HERE_BYTES: Final = 4 << 20
"""Below this, the first worker's start alone takes longer than the work."""

SHUFFLE: Final = "spark.sql.shuffle.partitions"

_SPARKS: Final[Mapping[str, str]] = {
    SHUFFLE: "200",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "32",
    "spark.sql.maxPlanStringLength": "2147483632",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "10485760b",
}
"""What these settings are by default: what differs was chosen by somebody, and stays."""

_SMALL: Final[Mapping[str, str]] = {
    # A task takes longer to be started than its share of the work; other audits keep cores busy.
    SHUFFLE: "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Folders are listed here: a job for it takes longer.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # Each query and each of its stages is described in full to a page that nobody looks at.
    "spark.sql.maxPlanStringLength": "1000",
}

_BY_ONE_TASK: Final[Mapping[str, str]] = {
    # There are no stages from which the next ones could be planned better,
    "spark.sql.adaptive.enabled": "false",
    # and nothing to be sent around: a job of its own for each side of a join.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""For queries of which each is one task from end to end."""

_SHUFFLED_BYTES: Final = 32 << 20
"""How much of a capture there is for each task of a shuffle; less of it arrives there."""
_FEWEST: Final = 200
"""For a cluster, of which nobody says how many cores it has when it is busy."""
_FEWEST_A_CORE: Final = 2
"""For one machine: each task more sorts its rows into another part, and asks for every part."""
_MOST: Final = 20_000


def settings(size: int, cores: int | None = None) -> dict[str, str]:
    """Return settings for an input of so many bytes; `cores` are those of a single machine."""
    if size < SMALL_BYTES:
        return dict(_SMALL)
    fewest = _FEWEST if cores is None else _FEWEST_A_CORE * cores
    return {SHUFFLE: str(min(_MOST, max(fewest, size // _SHUFFLED_BYTES)))}


@contextmanager
def sized(spark: SparkSession, size: int) -> Iterator[None]:
    """Have what suits an input of so many bytes, but for what somebody else has set."""
    cores = spark.sparkContext.defaultParallelism if is_one_process(spark) else None
    with having(spark, _left_open(spark, settings(size, cores))):
        yield


@contextmanager
def by_one_task(spark: SparkSession) -> Iterator[None]:
    """Have what suits queries of one task each, but for what somebody else has set."""
    with having(spark, _left_open(spark, _BY_ONE_TASK)):
        yield


def _left_open(spark: SparkSession, chosen: Mapping[str, str]) -> dict[str, str]:
    return {name: each for name, each in chosen.items() if spark.conf.get(name) == _SPARKS[name]}


@contextmanager
def having(spark: SparkSession, chosen: Mapping[str, str]) -> Iterator[None]:
    """Have these settings as long as this lasts."""
    before = {name: str(spark.conf.get(name)) for name in chosen}
    try:
        for name, value in chosen.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def is_one_process(spark: SparkSession) -> bool:
    """Whether all tasks run beside the driver: what it does itself, no other could do sooner."""
    context = getattr(spark, "sparkContext", None)
    return context is not None and str(context.master).startswith("local")
