"""Requests of a simulation as files, and state tables written to files once.

Reading a state table from a file gives a short plan. Otherwise every query would be planned with
all the table's sources.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import dataset

from kafkalite.lab.spark.audits import STATES
from kafkalite.lab.spark.locations import location
from kafkalite.lab.spark.requests import Requests
from tests.spark.truth.simulation import typed_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.lab.spark.audits import AuditOptions
    from tests.spark.truth.simulation import Exchange

_INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.maxPlanStringLength": "1000",
}
"""Interpreting queries of a few thousand rows is faster than compiling them."""


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Interpret queries inside this block."""
    before = {name: str(spark.conf.get(name)) for name in _INTERPRETED}
    for name, value in _INTERPRETED.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def laid_out(
    session: SparkSession, exchanges: Iterable[Exchange], folder: Path, options: AuditOptions
) -> Requests:
    """Write exchanges to files, and return the requests read from there."""
    for api, table in typed_tables(exchanges).items():
        dates = table["ts"].cast(pa.timestamp("us")).cast(pa.date32()).cast(pa.string())
        dataset.write_dataset(
            table.append_column("date", dates),
            folder / "requests" / f"api={api}",
            format="parquet",
            partitioning=["date"],
            partitioning_flavor="hive",
        )

    def derive(requests: Requests, name: str) -> DataFrame:
        url = str(folder / "state" / f"{name}.parquet")
        made = STATES[name].compute(requests, options)
        made.write.parquet(url)
        return session.read.schema(made.schema).parquet(url)

    return Requests.read(session, location(str(folder)), derive)
