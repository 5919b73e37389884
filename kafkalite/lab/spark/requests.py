"""The requests of a capture as Spark tables, one table per API.

An API without requests is an empty table with the same columns, so that audits need no special
case.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import is_local, to_schema
from kafkalite.lab.spark.inputs import REPORT_COLUMNS
from kafkalite.lab.spark.locations import find, location
from kafkalite.lab.spark.manifest import split_evenly
from kafkalite.lab.spark.stages.decoding import attempt_id, report_rows
from kafkalite.lab.spark.stages.plain_requests import PLAIN
from kafkalite.lab.spark.stages.reducing import reduce_files, writers_of
from kafkalite.lab.spark.stages.stitching import CONNECTION_IDS
from kafkalite.lab.spark.stages.writing import write_batches
from kafkalite.lab.spark.state.tables import empty_table, in_memory_table
from kafkalite.lab.spark.state.timing import time_columns
from kafkalite.lab.spark.tuning import DRIVER_BYTES, TASKS_PER_CORE, cores, is_one_process
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkalite.lab.spark.locations import InputFile, Location
    from kafkalite.lab.spark.stages.projection import Projection
    from kafkalite.lab.spark.stages.reducing import Reductions

REQUESTS: Final = "requests"
PROBLEMS: Final = "problems"
CONNECTIONS: Final = "connections"
"""Folders below the output folder."""

EVIDENCE: Final = "-evidence.parquet"
PLAIN_EVIDENCE: Final = f"-evidence{PLAIN}"
"""Ends of the names of files with requests before the audited time, which audits use as evidence.
"""

_DATE: Final = pa.field("date", pa.date32(), nullable=False)
_TASK_ROWS: Final = (1 << 14, 1 << 18)
"""Limits of the number of requests per task that reads them: as many as give each core several
tasks. Files are compressed to between 1 and 100 % of the capture, so
their size does not show how long reading takes or how much memory it needs."""
_TASK_BYTES: Final = 32 << 20
"""Limit of the bytes of Parquet files per task of a projection: of requests with large records."""
_FEW_ROWS: Final = 50_000
"""Number of requests that one task, and tables in Java's heap, can hold."""
_SAMPLED_FILES: Final = 4
"""Number of files of a table from which the number of requests per byte is estimated."""


@dataclass(frozen=True, slots=True)
class _Listing:
    """The files to read below an output folder."""

    out: Location
    committed: Collection[str] | None
    """Paths of the files to read; None for all."""

    def names(self, folder: str) -> list[str]:
        """Return the paths of the files in a folder, relative to it."""
        return [
            name
            for name in (self.out / folder).walk()
            if self.committed is None or f"{folder}/{name}" in self.committed
        ]

    def window(self) -> set[str]:
        """Return the paths of the files that are not evidence from before the audited time."""
        return {
            f"{folder}/{name}"
            for folder in (REQUESTS, PROBLEMS, CONNECTIONS)
            for name in self.names(folder)
            if not _is_evidence(name)
        }

    def api_folders(self) -> dict[int, Location]:
        """Return the folders of requests by API."""
        names = {name.split("/")[0] for name in self.names(REQUESTS) if name.startswith("api=")}
        return {api_key(name.removeprefix("api=")): self.out / REQUESTS / name for name in names}

    def files(self, folder: Location) -> list[InputFile]:
        """Return the files in a folder, with their sizes."""
        listed = find([folder.url])
        if self.committed is None:
            return listed
        urls = {(self.out / name).url for name in self.committed}
        return [file for file in listed if file.url in urls]

    def explicit(self, urls: Sequence[str]) -> Sequence[str] | None:
        """Return the URLs that Spark must read instead of a folder, which it lists faster."""
        return None if self.committed is None else urls


@dataclass(frozen=True, slots=True)
class SparkTasks:
    """Tasks of Spark that reduce requests for the local engine, and write them to files."""

    spark: SparkSession
    reductions: Reductions
    reduced: Collection[str] = ()
    """Paths below the output folder of the files whose requests have been reduced already."""

    def write(
        self,
        indexes: DataFrame,
        read: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    ) -> list[Location]:
        """Write the rows that `read` returns for each partition; returns the files."""
        work = partial(
            _write_in_task,
            read=read,
            folder=self.reductions.folder,
            name=SystemEntropy().uuid4_text(),
        )
        reports = indexes.mapInArrow(work, REPORT_COLUMNS).collect()
        return [self.reductions.folder / row.report for row in reports]

    def reduce(
        self, out: Location, files: Mapping[int, Sequence[InputFile]]
    ) -> dict[tuple[str, int], list[Location]]:
        """Reduce the files of each API that have not been reduced, in one job.

        Returns the files of each projection, by its name and API.
        """
        reduced_urls = {(out / name).url for name in self.reduced}
        rest = {
            key: [file for file in of_api if file.url not in reduced_urls]
            for key, of_api in files.items()
        }
        splits = [
            [(key, url) for url in urls]
            for key, of_api in rest.items()
            if of_api
            for urls in _splits(of_api, cores(self.spark))
        ]
        writers = writers_of(self.reduced)
        if splits:
            indexes = self.spark.range(0, len(splits), 1, numPartitions=len(splits))
            name = SystemEntropy().uuid4_text()
            work = partial(_reduce_in_task, reductions=self.reductions, name=name, splits=splits)
            writers |= {row.report for row in indexes.mapInArrow(work, REPORT_COLUMNS).collect()}
        return self.reductions.files(writers)


def _reduce_in_task(
    batches: Iterable[pa.RecordBatch],
    reductions: Reductions,
    name: str,
    splits: Sequence[Sequence[tuple[int, str]]],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            writer = f"{name}-{number}-{attempt_id()}"
            reduce_files(reductions, writer, splits[number])
            yield report_rows([writer])


def _write_in_task(
    batches: Iterable[pa.RecordBatch],
    read: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    folder: Location,
    name: str,
) -> Iterator[pa.RecordBatch]:
    file = f"{name}-{attempt_id()}.parquet"
    if write_batches(read(batches), folder / file):
        yield report_rows([file])


class Requests:
    """The requests of a capture by API, and state tables derived from them."""

    def __init__(
        self,
        spark: SparkSession,
        by_api: Mapping[int, DataFrame],
        problems: DataFrame | None = None,
        derive: Callable[[Requests, str], DataFrame] | None = None,
        envelopes: DataFrame | None = None,
    ) -> None:
        """Use `by_api` as tables; `derive` computes a state table by name.

        `envelopes` may be given if a single query is faster than a union of all tables.
        """
        self.spark = spark
        self._by_api = by_api
        self._problems = problems
        self._derive = derive
        self._envelopes = envelopes
        self._files: Mapping[int, Sequence[InputFile]] = {}
        self._read_files: Callable[[int, Sequence[str]], DataFrame] = lambda key, _: self.of(key)
        self._tasks: SparkTasks | None = None
        self._reduced: Mapping[tuple[str, int], Sequence[Location]] = {}
        self.are_few = False
        """Whether the requests are few enough to process in this process, in one partition."""
        self._connection_ids: DataFrame | None = None
        self.window = self
        """The requests of the audited time, without evidence from before."""
        self._states: dict[str, DataFrame] = {}
        # One lock per state table, because state tables use other state tables (without cycles).
        self._locks: dict[str, threading.Lock] = {}

    @classmethod
    def of_tables(
        cls,
        spark: SparkSession,
        by_api: Mapping[str, pa.Table],
        derive: Callable[[Requests, str], DataFrame] | None = None,
    ) -> Requests:
        """Return requests from Arrow tables with the columns of `tables.requests`."""
        frames = {
            api_key(name): spark.createDataFrame(
                _with_date(table.cast(tables.requests(api_key(name))))
            )
            for name, table in by_api.items()
        }
        return cls(spark, frames, derive=derive)

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        out: Location,
        derive: Callable[[Requests, str], DataFrame] | None = None,
        committed: Collection[str] | None = None,
        tasks: SparkTasks | None = None,
    ) -> Requests:
        """Return the requests that a run of the pipeline wrote to `out`.

        `committed` are the paths below `out` of the files to read; None reads all files. It matters
        in an object store only, where a task of an interrupted run may write to the folders.
        `tasks` reduce many requests for the local engine.
        """
        return cls._read(spark, out, derive, committed if out.is_object else None, tasks)

    @classmethod
    def _read(
        cls,
        spark: SparkSession,
        out: Location,
        derive: Callable[[Requests, str], DataFrame] | None,
        committed: Collection[str] | None,
        tasks: SparkTasks | None,
    ) -> Requests:
        listing = _Listing(out, committed)
        folders = listing.api_folders()
        files = {key: listing.files(folder) for key, folder in folders.items()}
        are_few = _are_few(spark if tasks is None else tasks.spark, files)

        def table(
            schema: StructType, where: Location, urls: Sequence[str] | None = None
        ) -> DataFrame:
            # Without the base path, Spark would not find the columns in the names of folders.
            reader = spark.read.schema(schema).option("basePath", where.url)
            rows = reader.parquet(*(urls or [where.url]))
            # A single partition: grouping and sorting need no shuffle.
            return rows.coalesce(1) if are_few else rows

        def whole_table(schema: StructType, folder: str) -> DataFrame | None:
            urls = [(out / folder / name).url for name in listing.names(folder)]
            return table(schema, out / folder, listing.explicit(urls)) if urls else None

        connection_ids = whole_table(to_schema(CONNECTION_IDS), CONNECTIONS)

        def rows_of(key: int, urls: Sequence[str] | None = None) -> DataFrame:
            urls = urls or listing.explicit([file.url for file in files[key]])
            rows = table(spark_schema(key), folders[key], urls)
            return _with_connection_ids(rows, connection_ids)

        problems = whole_table(to_schema(tables.PROBLEMS), PROBLEMS)
        # One scan of all files for the shared columns. Planning a union of one table per API takes
        # Spark longer than reading most captures.
        envelopes = whole_table(_envelope_schema(), REQUESTS) if folders else None
        if envelopes is not None:
            envelopes = _with_connection_ids(envelopes, connection_ids).drop("api")
        requests = cls(spark, _LazyTables(folders, rows_of), problems, derive, envelopes)
        requests._files, requests.are_few, requests._tasks = files, are_few, tasks
        requests._connection_ids, requests._read_files = connection_ids, rows_of
        requests._reduced = {} if tasks is None or are_few else tasks.reduce(out, files)
        if any(_is_evidence(file.url) for api_files in files.values() for file in api_files):
            requests.window = cls._read(spark, out, derive, listing.window(), tasks)
        return requests

    def of(self, api: str | int) -> DataFrame:
        """Return one API's requests: the columns of `tables.requests`, and `date`."""
        key = api_key(api)
        if key not in self._by_api:
            return empty_table(self.spark, spark_schema(key))
        return self._by_api[key]

    def not_plain(self, api: str | int) -> DataFrame:
        """Return at least the requests of one API with errors or with partition epochs.

        The columns are those of `of`.
        """
        key = api_key(api)
        if not self._files:
            return self.of(key)
        urls = [file.url for file in self._files.get(key, ()) if not file.url.endswith(PLAIN)]
        if not urls:
            return empty_table(self.spark, spark_schema(key))
        return self._read_files(key, urls)

    @property
    def parquet_bytes_per_task(self) -> int:
        """Size of the Parquet files that one task should read, by the mean over all APIs."""
        files = [file for api_files in self._files.values() for file in api_files]
        rows = sum(_estimate_rows(api_files) for api_files in self._files.values())
        return sum(file.size for file in files) // _task_count(rows, cores(self.spark))

    def project(self, projection: Projection) -> DataFrame:
        """Return one API's or all requests, reduced by a projection, which runs in Python.

        Each task reduces the files that it reads, unless the tasks that wrote the files have done
        so. If `are_few`, this process reduces all files.
        """
        key = projection.api_key
        if not projection.is_of_all_apis and key not in self._by_api:
            return empty_table(self.spark, to_schema(projection.schema))
        if not self._files:
            return _map_rows(
                self.envelopes() if projection.is_of_all_apis else self._by_api[key], projection
            )
        rows = self.reduced(projection)
        if rows is None:
            files = self._all_files() if projection.is_of_all_apis else self._files[key]
            rows = self._reduce_files(files, projection)
        return _with_connection_ids(rows, self._connection_ids)

    def reduced(self, projection: Projection) -> DataFrame | None:
        """Return the rows that tasks have reduced already, with numbers of connections by file."""
        files = self._reduced.get((projection.name, projection.api_key))
        if files is None:
            return None
        schema = to_schema(projection.schema)
        if not files:
            return empty_table(self.spark, schema)
        return self.spark.read.schema(schema).parquet(*(each.url for each in files))

    def map_files(
        self, schema: pa.Schema, read: Callable[[Iterable[str]], pa.Table]
    ) -> DataFrame | None:
        """Return the rows that a function returns for URLs of files; None if there are no files."""
        if not self._files:
            return None
        return self._map_files(
            self._all_files(), schema, read, partial(_map_splits, read=read, schema=schema)
        )

    def _all_files(self) -> list[InputFile]:
        return [file for api_files in self._files.values() for file in api_files]

    def _map_files(
        self,
        files: Sequence[InputFile],
        schema: pa.Schema,
        read: Callable[[Iterable[str]], pa.Table],
        read_splits: Callable[..., Iterator[pa.RecordBatch]],
    ) -> DataFrame:
        """Read files in this process if requests are few, otherwise in tasks."""
        spark_schema_ = to_schema(schema)
        if self.are_few:
            rows = read(file.url for file in files)
            return in_memory_table(self.spark, rows, spark_schema_)
        tasks_session = self.spark if self._tasks is None else self._tasks.spark
        splits = _splits(files, cores(tasks_session))
        indexes = tasks_session.range(0, len(splits), 1, numPartitions=len(splits))
        read_in_task = partial(read_splits, splits=splits)
        if self._tasks is None:
            return indexes.mapInArrow(read_in_task, spark_schema_)
        written = self._tasks.write(indexes, read_in_task)
        return self.spark.read.schema(spark_schema_).parquet(*(each.url for each in written))

    def _reduce_files(self, files: Sequence[InputFile], projection: Projection) -> DataFrame:
        return self._map_files(
            files, projection.schema, projection.reduce_files, projection.reduce_splits
        )

    def __contains__(self, api: str) -> bool:
        """Whether the capture has requests of that API."""
        return api_key(api) in self._by_api

    def apis(self) -> tuple[int, ...]:
        """Return the keys of APIs with requests."""
        return tuple(sorted(self._by_api))

    def envelopes(self) -> DataFrame:
        """Return the columns that all APIs share, and `date`, of all requests."""
        if self._envelopes is not None:
            return self._envelopes
        columns = [*tables.ENVELOPE.names, _DATE.name]
        frames = [frame.select(*columns) for frame in self._by_api.values()]
        if not frames:
            schema = to_schema(tables.ENVELOPE.append(_DATE))
            return empty_table(self.spark, schema)
        return reduce(lambda left, common_id: left.unionByName(common_id), frames)

    def problems(self) -> DataFrame:
        """Return the problems of the captures."""
        if self._problems is None:
            return empty_table(self.spark, to_schema(tables.PROBLEMS))
        return self._problems

    def state(self, name: str) -> DataFrame:
        """Return a state table by name; computed at the first call."""
        with self._locks.setdefault(name, threading.Lock()):
            if name not in self._states:
                if self._derive is None:
                    raise KeyError(name)
                self._states[name] = self._derive(self, name)
            return self._states[name]


class _LazyTables(Mapping[int, "DataFrame"]):
    """Tables by API, each created on first access; most are never accessed."""

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
    """Return the key of an API by name or key; raises KeyError for an unknown one."""
    if isinstance(api, int):
        codec.api_name(api)
        return api
    return _keys()[api]


def spark_schema(key: int) -> StructType:
    """Return the columns of one API's requests, and `date`, as a Spark schema."""
    return to_schema(tables.requests(key).append(_DATE))


def _map_splits(
    batches: Iterable[pa.RecordBatch],
    read: Callable[[Iterable[str]], pa.Table],
    schema: pa.Schema,
    splits: Sequence[Sequence[str]],
) -> Iterator[pa.RecordBatch]:
    """Read the files of the splits whose indexes are in the first column."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from read(splits[number]).cast(schema).to_batches()


def _map_rows(rows: DataFrame, projection: Projection) -> DataFrame:
    columns = (f.col(path).alias(name) for name, path in projection.fields.items())
    return rows.select(*time_columns(), *columns).mapInArrow(
        projection.reduce_batches, to_schema(projection.schema)
    )


def _is_evidence(name: str) -> bool:
    return name.endswith((EVIDENCE, PLAIN_EVIDENCE))


def _are_few(spark: SparkSession, files: Mapping[int, Sequence[InputFile]]) -> bool:
    all_files = [file for api_files in files.values() for file in api_files]
    return is_local(spark) or (
        bool(files)
        and is_one_process(spark)
        and sum(file.size for file in all_files) <= DRIVER_BYTES
        and sum(map(_row_count, all_files)) <= _FEW_ROWS
    )


def _row_count(file: InputFile) -> int:
    where = location(file.url)
    with where.files.open_input_file(where.path) as stream:
        return int(parquet.read_metadata(stream).num_rows)


def _estimate_rows(files: Sequence[InputFile]) -> int:
    """Return the number of rows in files of one table, by that of some of them."""
    sampled = files[:: max(1, len(files) // _SAMPLED_FILES)]
    rows = sum(map(_row_count, sampled))
    return rows * sum(file.size for file in files) // max(1, sum(file.size for file in sampled))


def _splits(files: Sequence[InputFile], core_count: int) -> list[list[str]]:
    """Divide files, in the order of their names, into splits for tasks of about equal work."""
    tasks = _task_count(_estimate_rows(files), core_count)
    return [[file.url for file in group] for group in split_evenly(files, tasks, _TASK_BYTES)]


def _task_count(rows: int, core_count: int) -> int:
    smallest, largest = _TASK_ROWS
    task_rows = max(smallest, min(largest, rows // (TASKS_PER_CORE * core_count)))
    return max(1, -(-rows // task_rows))


def _envelope_schema() -> StructType:
    # Spark appends the partition columns, in the order of the folders: `api`, then `date`.
    return to_schema(tables.ENVELOPE.append(pa.field("api", pa.string())).append(_DATE))


def _with_connection_ids(rows: DataFrame, connection_ids: DataFrame | None) -> DataFrame:
    """Replace connection numbers by one number per connection; some connections have several."""
    if connection_ids is None or "connection" not in rows.columns:
        return rows  # a projection may drop the column
    connection_ids = f.broadcast(connection_ids)
    common_id = f.coalesce("id", "connection").alias("connection")
    columns = [common_id if name == "connection" else f.col(name) for name in rows.columns]
    return rows.join(connection_ids, "connection", "left").select(*columns)


def _with_date(table: pa.Table) -> pa.Table:
    return table.append_column(_DATE, table["ts"].cast(pa.timestamp("us")).cast(pa.date32()))


@cache
def _keys() -> Mapping[str, int]:
    return {codec.api_name(key): key for key in codec.api_keys()}
