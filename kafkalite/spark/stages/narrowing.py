"""Typed requests, as a task reads them from their files: fewer rows and columns than there are.

Nearly all that members say says that all is as it was. A task that leaves this out hands on a few
rows in a hundred; Java would make a row of each first, and compile what does it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from kafkalite.columnar import tables
from kafkalite.spark.places import place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


_SPAN: Final = {
    "start_us": "ts",
    "end_us": "answered",
    "connection": "connection",
    "position": "offset",
}
"""Where in a request are the columns that every event of state begins with."""
_TIMES: Final = ("start_us", "end_us")


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """What is read of one API's requests, and what is left of that."""

    api_key: int
    fields: Mapping[str, str]
    """Names of columns, and where in a request each is: `client`, `request.group_id`."""
    narrow: Callable[[pa.Table], pa.Table]
    """Takes the columns `types` of some or all requests, in any order; returns `schema`."""
    schema: pa.Schema

    def of_requests(self, rows: pa.Table) -> pa.Table:
        """Narrow typed requests, of which columns that nobody asks for may be missing."""
        columns = {name: self._column(rows, path) for name, path in self._paths.items()}
        for name in _TIMES:
            columns[name] = _micros(columns[name])
        return self._left(pa.table(columns))

    def of_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Narrow batches of the columns `types`, each by itself."""
        for batch in batches:
            yield from self._left(pa.table(batch.columns, names=batch.schema.names)).to_batches()

    def of_files(self, urls: Iterable[str]) -> pa.Table:
        """Narrow all requests of some files, together."""
        groups = [group for url in urls for group in self._read(url)]
        if not groups:
            return self.schema.empty_table()
        return self.of_requests(pa.concat_tables(groups, promote_options="permissive"))

    def by_file(
        self, batches: Iterable[pa.RecordBatch], lots: Sequence[Sequence[str]]
    ) -> Iterator[pa.RecordBatch]:
        """Narrow, for each number in a column of them, the files of that lot group by group."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for url in lots[number]:
                    for group in self._read(url):
                        yield from self.of_requests(group).to_batches()

    def _left(self, columns: pa.Table) -> pa.Table:
        return self.narrow(columns).select(self.schema.names).cast(self.schema)

    def _read(self, url: str) -> Iterator[pa.Table]:
        where = place(url)
        with where.files.open_input_file(where.path) as stream:
            file = parquet.ParquetFile(stream)
            for group in range(file.num_row_groups):
                yield file.read_row_group(
                    group, columns=list(self._paths.values()), use_threads=False
                )

    @property
    def _paths(self) -> Mapping[str, str]:
        return {**_SPAN, **self.fields}

    def _column(self, rows: pa.Table, path: str) -> pa.Array:
        first, *rest = path.split(".")
        kind = type_at(self.api_key, path)
        if first not in rows.column_names:
            return pa.nulls(rows.num_rows, kind)
        column = rows[first].combine_chunks()
        for each in rest:
            if column.type.get_field_index(each) < 0:
                return pa.nulls(rows.num_rows, kind)
            column = pc.struct_field(column, each)
        return column.cast(kind)


def type_at(api_key: int, path: str) -> pa.DataType:
    """Return the type of what stands at a path of an API's typed requests."""
    first, *rest = path.split(".")
    kind = tables.requests(api_key).field(first).type
    return reduce(lambda struct, name: struct.field(name).type, rest, kind)


def types(api_key: int, fields: Mapping[str, str]) -> dict[str, pa.DataType]:
    """Return the columns that there are to narrow: those of a span of time, and `fields`."""
    return {
        **dict.fromkeys(_SPAN, pa.int64()),
        **{name: type_at(api_key, path) for name, path in fields.items()},
    }


def _micros(times: pa.Array) -> pa.Array:
    return times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())


def repeats(
    rows: pa.Table,
    member: Sequence[str],
    order: Sequence[str],
    *,
    is_plain: Bools,
    alike: Sequence[str],
    timeout_us: int,
) -> tuple[Ints, Ints]:
    """Return which rows say something new, and for each the last of those that repeat it.

    A plain row repeats the plain one before it of its member, in this order, if both have the same
    in `alike` and it comes no more than `timeout_us` later, by the first column of the order.
    """
    who = codes(rows, member)
    columns = [np.asarray(rows[name].combine_chunks()) for name in order]
    turn = np.lexsort((*reversed(columns), who))
    same = codes(rows, alike)[turn]
    goes_on = (
        (np.diff(who[turn]) == 0)
        & (np.diff(same) == 0)
        & is_plain[turn][1:]
        & is_plain[turn][:-1]
        & (np.diff(columns[0][turn]) <= timeout_us)
    )
    is_first, is_last = np.ones(len(turn), np.bool_), np.ones(len(turn), np.bool_)
    is_first[1:], is_last[:-1] = ~goes_on, ~goes_on
    return turn[is_first], turn[is_last]


def codes(rows: pa.Table, names: Sequence[str]) -> Ints:
    """Return a number for each row, the same where these columns are; null is a value, too."""
    whole = np.zeros(rows.num_rows, np.int64)
    for name in names:
        encoded = pc.dictionary_encode(rows[name].combine_chunks(), null_encoding="encode")
        # Numbered anew each time, so that they never are more than there are rows.
        pairs = whole * max(1, len(encoded.dictionary)) + np.asarray(encoded.indices)
        whole = np.asarray(pc.dictionary_encode(pa.array(pairs)).indices).astype(np.int64)
    return whole


def is_there(column: Any) -> Bools:  # noqa: ANN401 - an array or chunks of one
    """Return where there is a value."""
    return np.asarray(pc.is_valid(column))
