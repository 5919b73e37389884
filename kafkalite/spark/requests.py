"""All that the pipeline knows of a capture: requests by API, as Spark's tables.

An API that never came is an empty table of its own columns, so that no audit asks first whether
there is anything to look at.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from kafkalite.columnar import tables
from kafkalite.protocol import codec
from kafkalite.spark.places import find
from kafkalite.spark.sizing import HERE_BYTES, is_one_process
from kafkalite.spark.stages.stitching import NAMES
from kafkalite.spark.state.spans import span
from kafkalite.spark.state.tables import a_few, nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkalite.spark.places import InputFile, Place
    from kafkalite.spark.stages.narrowing import Narrowing

REQUESTS: Final = "requests"
PROBLEMS: Final = "problems"
CONNECTIONS: Final = "connections"
"""Numbers that connections have in one file, and those that they have over all."""

_DATE: Final = pa.field("date", pa.date32(), nullable=False)
_TASK_BYTES: Final = 32 << 20
"""How much of Parquet a task narrows: less than what a task decodes comes to."""


class Requests:
    """The requests of a capture, API by API, and what is derived from them once for all."""

    def __init__(
        self,
        spark: SparkSession,
        by_api: Mapping[int, DataFrame],
        problems: DataFrame | None = None,
        derive: Callable[[Requests, str], DataFrame] | None = None,
        envelopes: DataFrame | None = None,
    ) -> None:
        """Have `by_api` for what came; `derive` makes the states that are asked for by name.

        `envelopes` is for where one query finds them all sooner than one an API.
        """
        self.spark = spark
        self._by_api = by_api
        self._problems = problems
        self._derive = derive
        self._envelopes = envelopes
        self._files: Mapping[int, Sequence[InputFile]] = {}
        self._names: DataFrame | None = None
        self._states: dict[str, DataFrame] = {}
        # A lock a state, for states are made of each other; never in a circle.
        self._making: dict[str, threading.Lock] = {}

    @classmethod
    def of_tables(
        cls,
        spark: SparkSession,
        by_api: Mapping[str, pa.Table],
        derive: Callable[[Requests, str], DataFrame] | None = None,
    ) -> Requests:
        """Return requests that are at hand, each table with the columns of `tables.requests`."""
        frames = {
            api_key(name): spark.createDataFrame(_dated(table.cast(tables.requests(api_key(name)))))
            for name, table in by_api.items()
        }
        return cls(spark, frames, derive=derive)

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        out: Place,
        derive: Callable[[Requests, str], DataFrame] | None = None,
    ) -> Requests:
        """Return the requests that a run of the pipeline left in `out`."""
        seen = {name.split("/")[0] for name in (out / REQUESTS).walk() if name.startswith("api=")}
        folders = {api_key(name.removeprefix("api=")): out / REQUESTS / name for name in seen}
        files = {key: find([folder.url]) for key, folder in folders.items()}
        are_few = _are_few(spark, files)

        def table(schema: StructType, where: Place) -> DataFrame:
            rows = spark.read.schema(schema).parquet(where.url)
            # In a single part: who groups or orders the rows need not bring them together.
            return rows.coalesce(1) if are_few else rows

        names = None
        if any((out / CONNECTIONS).walk()):
            names = table(from_arrow_schema(NAMES), out / CONNECTIONS)
            names = f.broadcast(names)

        def rows_of(key: int) -> DataFrame:
            rows = table(spark_schema(key), folders[key])
            return rows if names is None else _named(rows, names)

        problems = None
        if any((out / PROBLEMS).walk()):
            problems = table(from_arrow_schema(tables.PROBLEMS), out / PROBLEMS)
        envelopes = None
        if folders:
            # One scan of all files for the columns that they share: a union of as many tables as
            # there are APIs takes Spark longer to plan than most captures take to read.
            whole = table(_envelope_schema(), out / REQUESTS)
            envelopes = (whole if names is None else _named(whole, names)).drop("api")
        read = cls(spark, _Asked(folders, rows_of), problems, derive, envelopes)
        read._files = files
        read._names = names
        return read

    def of(self, api: str | int) -> DataFrame:
        """Return one API's requests: the columns of `tables.requests`, and `date`."""
        key = api_key(api)
        if key not in self._by_api:
            return nothing(self.spark, spark_schema(key))
        return self._by_api[key]

    @property
    def are_few(self) -> bool:
        """Whether they are narrowed right here, and their tables are a single part each."""
        return _are_few(self.spark, self._files)

    def narrowed(self, narrowing: Narrowing) -> DataFrame:
        """Return what is left of one API's requests when Python's tasks have read them.

        Each task narrows by itself what it reads, unless they `are_few`.
        """
        schema = from_arrow_schema(narrowing.schema)
        if narrowing.api_key not in self._by_api:
            return nothing(self.spark, schema)
        if not self._files:
            rows = self._by_api[narrowing.api_key].select(
                *span(), *(f.col(path).alias(name) for name, path in narrowing.fields.items())
            )
            return rows.mapInArrow(narrowing.of_rows, schema)
        files = self._files[narrowing.api_key]
        if self.are_few:
            here = narrowing.of_files(each.url for each in files)
            rows = a_few(self.spark, here, schema)
        else:
            lots = _lots(files)
            numbers = self.spark.range(0, len(lots), 1, numPartitions=len(lots))
            rows = numbers.mapInArrow(partial(narrowing.by_file, lots=lots), schema)
        return rows if self._names is None else _named(rows, self._names)

    def __contains__(self, api: str) -> bool:
        """Whether requests of that API came."""
        return api_key(api) in self._by_api

    def apis(self) -> tuple[int, ...]:
        """Return the keys of the APIs that came."""
        return tuple(sorted(self._by_api))

    def envelopes(self) -> DataFrame:
        """Return what all requests have, whatever their API, and `date`."""
        if self._envelopes is not None:
            return self._envelopes
        columns = [*tables.ENVELOPE.names, _DATE.name]
        frames = [frame.select(*columns) for frame in self._by_api.values()]
        if not frames:
            schema = from_arrow_schema(tables.ENVELOPE.append(_DATE))
            return nothing(self.spark, schema)
        return reduce(lambda left, right: left.unionByName(right), frames)

    def problems(self) -> DataFrame:
        """Return what is wrong with the capture."""
        if self._problems is None:
            return nothing(self.spark, from_arrow_schema(tables.PROBLEMS))
        return self._problems

    def state(self, name: str) -> DataFrame:
        """Return what is derived from requests under this name; made once, whoever asks first."""
        with self._making.setdefault(name, threading.Lock()):
            if name not in self._states:
                if self._derive is None:
                    raise KeyError(name)
                self._states[name] = self._derive(self, name)
            return self._states[name]


class _Asked(Mapping[int, "DataFrame"]):
    """Tables by API, each made when it is first asked for, which most are not."""

    def __init__(self, keys: Iterable[int], make: Callable[[int], DataFrame]) -> None:
        self._keys = frozenset(keys)
        self._make = cache(make)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __getitem__(self, key: int) -> DataFrame:
        if key not in self._keys:
            raise KeyError(key)
        return self._make(key)

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def api_key(api: str | int) -> int:
    """Return the key of an API by its name, or the key; KeyError for none of Kafka's."""
    if isinstance(api, int):
        codec.api_name(api)
        return api
    return _keys()[api]


def spark_schema(key: int) -> StructType:
    """Return the columns of one API's requests, and `date`, as Spark names types."""
    return from_arrow_schema(tables.requests(key).append(_DATE))


def _are_few(spark: SparkSession, files: Mapping[int, Sequence[InputFile]]) -> bool:
    size = sum(each.size for of_api in files.values() for each in of_api)
    return bool(files) and size <= HERE_BYTES and is_one_process(spark)


def _lots(files: Sequence[InputFile]) -> list[list[str]]:
    """Share out files, in the order of their names, such that a task has enough of them."""
    lots: list[list[str]] = []
    room = 0
    for each in files:
        if room < each.size or not lots:
            lots.append([])
            room = _TASK_BYTES
        lots[-1].append(each.url)
        room -= each.size
    return lots


def _envelope_schema() -> StructType:
    # The folders' names are columns, too; `api` stands before `date` in them.
    return from_arrow_schema(tables.ENVELOPE.append(pa.field("api", pa.string())).append(_DATE))


def _named(rows: DataFrame, names: DataFrame) -> DataFrame:
    """Give connections their one number where files have several for them."""
    if "connection" not in rows.columns:
        return rows  # they were reduced to what no connection matters for
    right = f.coalesce("id", "connection").alias("connection")
    columns = [right if name == "connection" else f.col(name) for name in rows.columns]
    return rows.join(names, "connection", "left").select(*columns)


def _dated(table: pa.Table) -> pa.Table:
    return table.append_column(_DATE, table["ts"].cast(pa.timestamp("us")).cast(pa.date32()))


@cache
def _keys() -> Mapping[str, int]:
    return {codec.api_name(key): key for key in codec.api_keys()}
