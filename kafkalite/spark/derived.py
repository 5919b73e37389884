"""States and audits: tables made of requests, each written once and then read by the others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet

from kafkalite.spark.audits import AUDITS, STATES, TABLES
from kafkalite.spark.state.tables import a_few

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkalite.spark.audits import AuditOptions
    from kafkalite.spark.places import Place
    from kafkalite.spark.requests import Requests
    from kafkalite.spark.telling import Teller

STATE: Final = "state"
AUDIT: Final = "audits"
FOLDERS: Final = (
    *(f"{STATE}/{name}" for name in STATES),
    *(f"{AUDIT}/{name}" for name in TABLES),
)
"""Every table that there may be, by its path below where a run writes."""

_AT_ONCE: Final = 4
"""How many audits are made at once; a core is idle while one waits for a state of another's."""


class Derived:
    """The tables of one run, below a folder of its own."""

    def __init__(self, staged: Place, options: AuditOptions, tell: Teller) -> None:
        self._staged = staged
        self._options = options
        self._tell = tell
        self.folders: list[str] = []
        """What was written: tables, by their paths below the folder."""

    def state(self, requests: Requests, name: str) -> DataFrame:
        """Make a state, and return it as it was written."""
        self._tell.step(f"state: {name}")
        made = STATES[name](requests, self._options)
        where = self._write(f"{STATE}/{name}", made)
        if requests.are_few:
            return at_hand(requests.spark, where, made.schema)
        return requests.spark.read.schema(made.schema).parquet(where.url)

    def audit(self, requests: Requests, names: Iterable[str]) -> None:
        """Make the tables of audits, several at a time: planning a query keeps one core busy."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for done in [pool.submit(self._audit, requests, name) for name in names]:
                done.result()

    def _audit(self, requests: Requests, name: str) -> None:
        audit = AUDITS[name]
        self._tell.step(f"audit: {name}: {audit.summary}")
        for table, frame in audit.tables(requests, self._options).items():
            self._write(f"{AUDIT}/{table}", frame)

    def moves(self) -> Iterator[tuple[str, str]]:
        """Yield the files that were written: where below the folder, and where they belong."""
        for folder in self.folders:
            for name in (self._staged / folder).walk():
                if name.endswith(".parquet"):
                    yield f"{folder}/{name}", f"{folder}/{name}"

    def _write(self, folder: str, frame: DataFrame) -> Place:
        where = self._staged / folder
        frame.write.parquet(where.url)
        self.folders.append(folder)
        return where


def at_hand(spark: SparkSession, where: Place, schema: StructType) -> DataFrame:
    """Return a small table that was written as rows that Spark knows while it plans.

    What it makes empty is left out of a plan, and it is read once.
    """
    parts = []
    for name in where.walk():
        if name.endswith(".parquet"):
            with where.files.open_input_file((where / name).path) as stream:
                parts.append(parquet.read_table(stream))
    return a_few(spark, pa.concat_tables(parts), schema)
