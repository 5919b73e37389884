"""The session of the local engine: DuckDB in this process, with the part of PySpark's session."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
from pyarrow import parquet

from kafkalite.lab.spark.dataframes import LocalEngineError
from kafkalite.lab.spark.local.data_types import duckdb_name, quoted, spark_json
from kafkalite.lab.spark.local.frames import Field, LocalFrame, Select, Step, without_zones
from kafkalite.lab.spark.locations import find, location

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.lab.spark.locations import Location

_SCHEMA_KEY: Final = "org.apache.spark.sql.parquet.row.metadata"
"""The key of Parquet files under which Spark stores its schema, with comments of columns."""
_STORE_REQUESTS: Final = 16
"""Number of files whose columns are read at once."""
_DATE: Final = "date"
"""The column that is in the names of folders, not in the files."""


class LocalSession:
    """Computes the data frames of the audits in this process."""

    sparkContext: Final = None  # noqa: N815 - as in PySpark

    def __init__(self, memory_bytes: int | None = None, max_rows: int | None = None) -> None:
        self._max_rows = max_rows
        limit = {} if memory_bytes is None else {"memory_limit": f"{memory_bytes}B"}
        self._connection = duckdb.connect(
            config={
                **limit,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                # Large results are stored there; by default it is in the working directory.
                "temp_directory": gettempdir(),
            }
        )
        self._numbers = count(1)
        self._of_thread = threading.local()
        self._cursors: list[duckdb.DuckDBPyConnection] = []
        self._lock = threading.Lock()
        self._stores: dict[str, str] = {}
        """URL of a store → the scheme of its files in queries."""
        self.conf = LocalSettings()

    def close(self) -> None:
        """Free the memory of all frames."""
        self._connection.close()

    stop = close

    def interruptAll(self) -> None:
        """Let the queries that run now fail; called by another thread."""
        for cursor in [*self._cursors]:
            with suppress(duckdb.Error):  # a closed one
                cursor.interrupt()

    def step(self, fields: Iterable[Field], *selects: Select, keys: int = 0, rows: int = 0) -> Step:
        """Return a new step of queries."""
        columns = tuple(field.sql for field in fields)
        return Step(f"t{next(self._numbers)}", columns, selects, keys, rows)

    def check_size(self, rows: int) -> None:
        """Raise LocalEngineError if a query reads too many rows."""
        if self._max_rows is not None and rows > self._max_rows:
            raise LocalEngineError(f"a query reads {rows:,} rows")

    def run(self, sql: str) -> pa.Table:
        """Run a query."""
        # With `sql`, DuckDB would bind the query twice: to know its columns, and to run it.
        cursor = self._cursor()
        try:
            cursor.execute(f"create or replace temp table result as {sql}")
            return cursor.table("result").to_arrow_table()
        except duckdb.Error as error:
            raise LocalEngineError(str(error).partition("\n")[0]) from error

    def execute(self, sql: str) -> None:
        """Run a statement that creates a temporary table, for queries of this thread."""
        try:
            self._cursor().execute(sql)
        except duckdb.Error as error:
            raise LocalEngineError(str(error).partition("\n")[0]) from error

    def range(
        self,
        start: int,
        end: int | None = None,
        step: int = 1,
        numPartitions: int = 1,
    ) -> LocalFrame:
        """Return a table of numbers, in this order; those below `start` if there is no `end`."""
        del numPartitions
        first, last = (0, start) if end is None else (start, end)
        fields = [Field("id", quoted("id"), pa.int64())]
        return self._source(fields, ["range"], f"from range({first}, {last}, {step})", last - first)

    def _source(
        self, fields: list[Field], columns: Iterable[str], rest: str, row_count: int
    ) -> LocalFrame:
        step = self.step(fields, Select(tuple(columns), rest, {}), rows=row_count)
        return LocalFrame(self, step, fields, is_empty=not row_count)

    def createDataFrame(self, rows: pa.Table, schema: pa.Schema | None = None) -> LocalFrame:
        """Return a table with these rows."""
        if schema is not None:
            rows = rows.cast(schema)
        name = f"rows{next(self._numbers)}"
        fields = [
            Field(each.name, quoted(each.name), each.type, comment=_comment(each))
            for each in rows.schema
        ]
        if not rows.num_rows:
            nulls = [f"null::{duckdb_name(field.type)}" for field in fields]
            return self._source(fields, nulls, "where false", 0)
        cursor = self._cursor()
        cursor.register("arrow_rows", without_zones(rows))
        try:
            cursor.execute(f"create table {name} as select * from arrow_rows")  # noqa: S608 - our names
        except duckdb.Error as error:
            raise LocalEngineError(str(error).partition("\n")[0]) from error
        finally:
            cursor.unregister("arrow_rows")
        return self._source(fields, (field.sql for field in fields), f"from {name}", rows.num_rows)

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        """Return this thread's connection to the database."""
        cursor = getattr(self._of_thread, "cursor", None)
        if cursor is None:
            cursor = self._of_thread.cursor = self._connection.cursor()
            self._cursors.append(cursor)
        return cursor

    @property
    def read(self) -> LocalReader:
        return LocalReader(self)

    def write_parquet(self, frame: LocalFrame, url: str) -> None:
        """Write a frame to a file, with a schema as Spark writes it."""
        table = frame.toArrow()
        fields = [
            {
                "name": field.name,
                "type": spark_json(field.type),
                "nullable": True,
                "metadata": {"comment": comment} if (comment := _comment(field)) else {},
            }
            for field in frame.schema
        ]
        schema = json.dumps({"type": "struct", "fields": fields})
        with location(url).create() as stream:
            parquet.write_table(
                table.replace_schema_metadata({_SCHEMA_KEY: schema}), stream, compression="snappy"
            )

    def read_parquet(self, urls: Sequence[str], schema: pa.Schema) -> LocalFrame:
        """Return the rows of Parquet files; columns and fields that a file lacks are null."""
        files = [location(each.url) for each in find(urls) if each.url.endswith(".parquet")]
        with ThreadPoolExecutor(_STORE_REQUESTS) as pool:
            stored = list(pool.map(_stored_schema, files))
        row_count = sum(rows for _, rows in stored)
        if not row_count:
            return self.createDataFrame(schema.empty_table())
        if not all(_is_stored(schema, file_schema) for file_schema, _ in stored):
            self.check_size(row_count)
            return self.createDataFrame(pa.concat_tables(_read_as(file, schema) for file in files))
        fields = [
            Field(each.name, quoted(each.name), each.type, comment=_comment(each))
            for each in schema
        ]
        columns = [_read_sql(field, stored[0][0]) for field in fields]
        paths = ", ".join(_quoted_text(self.file_name(file)) for file in files)
        return self._source(fields, columns, f"from read_parquet([{paths}])", row_count)

    def rows_of(self, files: Iterable[Location]) -> str:
        """Return SQL for the rows of files as stored, with `filename` and `file_row_number`."""
        paths = ", ".join(_quoted_text(self.file_name(file)) for file in files)
        return (
            f"read_parquet([{paths}], filename = true, file_row_number = true,"
            " hive_partitioning = false, union_by_name = true)"
        )

    def file_name(self, file: Location) -> str:
        """Return the name of a file in queries."""
        if not file.root:
            return file.path
        with self._lock:
            scheme = self._stores.get(file.root)
            if scheme is None:
                from kafkalite.lab.spark.local.stores import StoreFiles  # noqa: PLC0415 - imports fsspec

                scheme = self._stores[file.root] = f"store{len(self._stores)}"
                self._connection.register_filesystem(StoreFiles(file.files, scheme))
        return f"{scheme}://{file.path}"


class LocalReader:
    """Reads Parquet files, as PySpark's `DataFrameReader`."""

    def __init__(self, session: LocalSession, schema: pa.Schema | None = None) -> None:
        self._session = session
        self._schema = schema

    def schema(self, schema: pa.Schema) -> LocalReader:
        return LocalReader(self._session, schema)

    def option(self, *_: str) -> LocalReader:
        """Return this reader, which needs none of Spark's options."""
        return self

    def parquet(self, *urls: str) -> LocalFrame:
        assert self._schema is not None
        return self._session.read_parquet(urls, self._schema)


class LocalSettings:
    """Settings of a session; the local engine needs none."""

    def get(self, _: str, default: Any = "") -> Any:  # noqa: ANN401 - as in PySpark
        return default


def _stored_schema(where: Location) -> tuple[pa.Schema, int]:
    """Return the columns of a file, and its number of rows."""
    with where.files.open_input_file(where.path) as stream:
        file = parquet.ParquetFile(stream)
        return file.schema_arrow, file.metadata.num_rows


def _is_stored(schema: pa.Schema, stored: pa.Schema) -> bool:
    """Whether the columns that a file has are of the expected types."""
    return all(
        stored.get_field_index(field.name) < 0
        or _is_same(field.type, stored.field(field.name).type)
        for field in schema
    )


def _is_same(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types are equal, apart from the names of lists' elements."""
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _is_same(one.value_type, other.value_type)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return [each.name for each in one] == [each.name for each in other] and all(
            _is_same(left.type, right.type) for left, right in zip(one, other, strict=True)
        )
    return bool(one == other)


def _read_sql(field: Field, stored: pa.Schema) -> str:
    if field.name == _DATE and pa.types.is_date(field.type):
        return "cast(make_timestamp(epoch_us(ts)) as DATE)"
    if stored.get_field_index(field.name) < 0:
        return f"null::{duckdb_name(field.type)}"
    if pa.types.is_timestamp(field.type):
        # Without a time zone: comparisons would need DuckDB's data of time zones.
        return f"make_timestamp(epoch_us({field.sql}))"
    return field.sql


def _read_as(where: Location, schema: pa.Schema) -> pa.Table:
    """Read a file whose columns or fields are others, with null for those that it lacks."""
    with where.files.open_input_file(where.path) as stream:
        rows = parquet.ParquetFile(stream).read()
    columns = []
    for field in schema:
        if field.name in rows.column_names:
            columns.append(rows[field.name].cast(field.type))
        elif field.name == _DATE:
            columns.append(rows["ts"].cast(pa.timestamp("us")).cast(pa.date32()))
        else:
            columns.append(pa.nulls(rows.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _comment(field: pa.Field) -> str | None:
    comment = (field.metadata or {}).get(b"comment")
    return None if comment is None else comment.decode()


def _quoted_text(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
