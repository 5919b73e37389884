"""What was said on a stage as an auditor has it: requests in files, states made once and in files.

Read from files, a state is a plan of one step; kept in memory it would be planned anew, with all
that it is made of, by whoever asks for it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import dataset

from kafkalite.spark.audits import STATES
from kafkalite.spark.places import place
from kafkalite.spark.requests import Requests
from tests.spark.truth.stage import typed_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.spark.audits import AuditOptions
    from tests.spark.truth.stage import Said

_INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.maxPlanStringLength": "1000",
}
"""Queries of a few thousand rows are over sooner than they are compiled."""


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Have queries interpreted as long as this lasts."""
    before = {name: str(spark.conf.get(name)) for name in _INTERPRETED}
    for name, value in _INTERPRETED.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def laid_out(
    spark: SparkSession, said: Iterable[Said], folder: Path, options: AuditOptions
) -> Requests:
    """Write all that was said to files, and return the requests read from there."""
    for api, table in typed_tables(said).items():
        dates = table["ts"].cast(pa.timestamp("us")).cast(pa.date32()).cast(pa.string())
        dataset.write_dataset(
            table.append_column("date", dates),
            folder / "requests" / f"api={api}",
            format="parquet",
            partitioning=["date"],
            partitioning_flavor="hive",
        )

    def derive(requests: Requests, name: str) -> DataFrame:
        url = str(folder / "state" / name)
        made = STATES[name](requests, options)
        made.write.parquet(url)
        return spark.read.schema(made.schema).parquet(url)

    return Requests.read(spark, place(str(folder)), derive)
