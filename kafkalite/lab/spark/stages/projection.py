"""Projections: typed requests reduced to few columns and rows by the task that reads them.

Most requests of members change nothing. A task that drops these passes a few percent of the rows to
Spark. A compiled query in Java would decode every row first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from kafkalite.lab.columnar import tables
from kafkalite.lab.columnar.records.record_batches import HEADER_FIELDS, header_bytes
from kafkalite.lab.spark.locations import location
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


_TIME_COLUMNS: Final = {
    "start_us": "ts",
    "end_us": "response_ts",
    "connection": "connection",
    "position": "offset",
}
"""Column → path in a request, for the columns of the time of a request and its response."""
_NARROW: Final = 1 << 16
_TIMESTAMPS: Final = ("ts", "response_ts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The columns to read of one API's requests, and a function that reduces the rows."""

    api_key: int
    fields: Mapping[str, str]
    """Column → path in a request, such as `client` or `request.group_id`."""
    reduce_rows: Callable[[pa.Table], pa.Table]
    """Receives the columns of `column_types` of any requests in any order; returns `schema`."""
    schema: pa.Schema
    name: str = ""
    """Name by which tasks that write requests may reduce them; empty for a projection that needs
    to know the state of the whole capture."""
    is_of_all_apis: bool = False
    """Whether it reduces the requests of all APIs, by columns that all have."""

    def reduce_requests(
        self, rows: pa.Table, columns: dict[str, pa.Array] | None = None
    ) -> pa.Table:
        """Reduce typed requests; columns that are not needed may be missing.

        `columns` has the columns that other projections have read from the same requests.
        """
        known = {} if columns is None else columns
        return self._reduce(
            pa.table({name: self._known(rows, path, known) for name, path in self.paths.items()})
        )

    def reduce_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reduce batches of the columns of `column_types`, each by itself."""
        for batch in batches:
            yield from self._reduce(pa.table(batch.columns, names=batch.schema.names)).to_batches()

    def reduce_files(self, urls: Iterable[str]) -> pa.Table:
        """Reduce all requests of some files together."""
        groups = [group for url in urls for group in self._read(url)]
        if not groups:
            return self.schema.empty_table()
        return self.reduce_requests(pa.concat_tables(groups, promote_options="permissive"))

    def reduce_splits(
        self, batches: Iterable[pa.RecordBatch], splits: Sequence[Sequence[str]]
    ) -> Iterator[pa.RecordBatch]:
        """Reduce the files of the splits whose indexes are in the first column, by row group."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for url in splits[number]:
                    for group in self._read(url):
                        yield from self.reduce_requests(group).to_batches()

    def _reduce(self, columns: pa.Table) -> pa.Table:
        return self.reduce_rows(columns).select(self.schema.names).cast(self.schema)

    def _read(self, url: str) -> Iterator[pa.Table]:
        where = location(url)
        with where.files.open_input_file(where.path) as stream:
            file = parquet.ParquetFile(stream)
            for group in range(file.num_row_groups):
                yield file.read_row_group(
                    group, columns=list(self.paths.values()), use_threads=False
                )

    @property
    def paths(self) -> Mapping[str, str]:
        """Column → path in a request, with the columns of the time."""
        return {**_TIME_COLUMNS, **self.fields}

    def _known(self, rows: pa.Table, path: str, known: dict[str, pa.Array]) -> pa.Array:
        if path not in known:
            column = self._column(rows, path)
            known[path] = _to_us(column) if path in _TIMESTAMPS else column
        return known[path]

    def _column(self, rows: pa.Table, path: str) -> pa.Array:
        first, *names = path.split(".")
        type_ = type_at(self.api_key, path)
        if first not in rows.column_names:
            return pa.nulls(rows.num_rows, type_)
        column = rows[first]
        for name in names:
            if column.type.get_field_index(name) < 0:
                return pa.nulls(rows.num_rows, type_)
            column = pc.struct_field(column, name)
        # Only here, because the chunks of a whole request would have to be copied.
        return column.combine_chunks().cast(type_)


def type_at(api_key: int, path: str) -> pa.DataType:
    """Return the type of the field at a path of an API's typed requests."""
    first, *names = path.split(".")
    type_ = tables.requests(api_key).field(first).type
    return reduce(lambda struct, name: struct.field(name).type, names, type_)


def column_types(api_key: int, fields: Mapping[str, str]) -> dict[str, pa.DataType]:
    """Return the columns that `reduce_rows` receives: the columns of the time, and `fields`."""
    return {
        **dict.fromkeys(_TIME_COLUMNS, pa.int64()),
        **{name: type_at(api_key, path) for name, path in fields.items()},
    }


def _to_us(times: pa.Array) -> pa.Array:
    return times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())


def find_repeats(
    rows: pa.Table,
    member: Sequence[str],
    order: Sequence[str],
    *,
    is_mergeable: Bools,
    equal_columns: Sequence[str],
    timeout_us: int,
) -> tuple[Ints, Ints]:
    """Return the indexes of rows that start a run of repetitions, and of the last row of each run.

    A mergeable row repeats the row before it of the same member, in the given order, if that row is
    mergeable too, and both are equal in `equal_columns` and at most `timeout_us` apart by the first
    column of the order.
    """
    member_codes = row_codes(rows, member)
    columns = [np.asarray(rows[name].combine_chunks()) for name in order]
    row_order = np.lexsort((*reversed(columns), _narrow(member_codes)))
    value_codes = row_codes(rows, equal_columns)[row_order]
    is_repeat = (
        (np.diff(member_codes[row_order]) == 0)
        & (np.diff(value_codes) == 0)
        & is_mergeable[row_order][1:]
        & is_mergeable[row_order][:-1]
        & (np.diff(columns[0][row_order]) <= timeout_us)
    )
    is_first, is_last = np.ones(len(row_order), np.bool_), np.ones(len(row_order), np.bool_)
    is_first[1:], is_last[:-1] = ~is_repeat, ~is_repeat
    return row_order[is_first], row_order[is_last]


def row_codes(rows: pa.Table, names: Sequence[str]) -> Ints:
    """Return a number per row; rows with equal columns have equal numbers; null equals null."""
    return combine_codes([encode(rows[name].combine_chunks()) for name in names])


def encode(column: pa.Array) -> tuple[Ints, int]:
    """Return a number per value, and the number of different values; null is a value."""
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return np.asarray(encoded.indices).astype(np.int64), len(encoded.dictionary)


def combine_codes(columns: Sequence[tuple[Ints, int]]) -> Ints:
    """Return a number per row from numbers per value, and the number of values, of some columns."""
    numbers, _ = columns[0]
    for values, value_count in columns[1:]:
        if value_count > 1:
            # Numbered again for each column, so that numbers stay below the number of rows.
            numbers, _ = encode(pa.array(numbers * value_count + values))
    return numbers


def _narrow(numbers: Ints) -> npt.NDArray[Any]:
    """Return numbers in a type of 16 bits if they fit, which numpy sorts several times faster."""
    return numbers.astype(np.uint16) if numbers.max(initial=0) < _NARROW else numbers


class Partitions(NamedTuple):
    """The partitions of all topics of some rows."""

    row: Ints
    """Of each partition: the index of its row."""
    number: Ints
    """Of each partition: the position of its topic in the row."""
    topic: Ints
    """Of each partition: the index of its topic."""
    topics: Any
    """The topics, structs."""
    partition: Any
    """The partitions, structs."""

    def of_topic(self, name: str) -> pa.Array:
        """Return a field of each partition's topic."""
        return pc.struct_field(self.topics, name).take(pa.array(self.topic))


def header_numbers(records: pa.BinaryArray, field: str) -> tuple[Ints, Bools]:
    """Return a field in the headers of record batches, and a mask of the batches that have it.

    The number of the other batches is 0.
    """
    position, code = header_bytes(field), np.dtype(HEADER_FIELDS[field][0])
    has_field = np.asarray(pc.fill_null(pc.binary_length(records), 0)) >= position.stop
    numbers = np.zeros(len(records), np.int64)
    _, offsets, data = records.buffers()
    if data is None or not has_field.any():
        return numbers, has_field
    starts = np.frombuffer(offsets, np.int32)[records.offset : records.offset + len(records)]
    at = starts[has_field, None] + np.arange(position.start, position.stop)
    numbers[has_field] = np.frombuffer(data, np.uint8)[at].view(code)[:, 0]
    return numbers, has_field


def flatten_partitions(topic_lists: pa.ChunkedArray, partitions_field: str) -> Partitions:
    """Return the partitions of all topics in a column of lists of topics."""
    lists = topic_lists.combine_chunks()
    row_of_topic = np.asarray(pc.list_parent_indices(lists))
    first_topic = np.searchsorted(row_of_topic, row_of_topic)
    topics = pc.list_flatten(lists)
    partition_lists = pc.struct_field(topics, partitions_field)
    topic = np.asarray(pc.list_parent_indices(partition_lists))
    number = np.arange(len(topics)) - first_topic
    return Partitions(
        row_of_topic[topic],
        number[topic],
        topic,
        topics,
        pc.list_flatten(partition_lists),
    )


def first_elements(lists: Any) -> pa.Array:  # noqa: ANN401 - an array or chunks of one
    """Return the first element of each list; null for an empty list and for null."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    is_empty = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)) == 0
    starts = np.asarray(lists.offsets)[: len(lists)]
    return lists.values.take(pa.array(starts, mask=is_empty))


def is_valid(column: Any) -> Bools:  # noqa: ANN401 - an array or chunks of one
    """Return a mask of values that are not null."""
    return np.asarray(pc.is_valid(column))
