"""Data frames with the methods of PySpark's that the audits use: queries of DuckDB.

A frame is a step of a query. The steps run when rows are needed, as one query in which each step is
a common table expression. Frames that are known to be empty run no query.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafkalite.lab.spark.dataframes import LocalEngineError
from kafkalite.lab.spark.local.data_types import UNKNOWN, duckdb_name, parse_columns, quoted
from kafkalite.lab.spark.local.expressions import (
    Column,
    Scope,
    Sql,
    column,
    field_of,
    order_sql,
    template,
)
from kafkalite.lab.spark.local.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalite.lab.spark.local.session import LocalSession

_SEMI: Final = {"semi": "semi", "left_semi": "semi", "left_anti": "anti", "anti": "anti"}


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a frame."""

    name: str
    sql: str
    """Its name in the query, which is unique in the frame."""
    type: pa.DataType = UNKNOWN
    qualifier: str | None = None
    """The alias of the frame that it comes from."""
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT of one or two steps, which its SQL names by aliases: `s`, or `l` and `r`."""

    columns: tuple[str, ...]
    """SQL of the columns, in the order of the step's names."""
    rest: str
    """The clauses after the columns, with FROM."""
    sources: Mapping[str, Step]
    """Alias → the step that it stands for."""
    is_distinct: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A step of a query: the union of one or several SELECTs."""

    name: str
    columns: tuple[str, ...]
    """The names of the columns, quoted."""
    selects: tuple[Select, ...]
    keys: int = 0
    """The first columns, which are the keys of groups, and are needed for that."""
    rows: int = 0
    """The number of rows of a table that it reads."""

    @property
    def before(self) -> list[Step]:
        """The steps that this step reads."""
        return [step for select in self.selects for step in select.sources.values()]


def query(last: Step) -> str:
    """Return the SQL of a step and of all steps before it, without columns that no step needs."""
    uses = _count_uses(last)
    needed: dict[Step, set[str]] = {step: set() for step in uses}
    needed[last].update(last.columns)
    computed: dict[Step, list[int]] = {}
    for step in reversed(uses):
        computed[step] = _computed_columns(step, needed[step])
        for select in step.selects:
            texts = (select.rest, *(select.columns[number] for number in computed[step]))
            for alias, name in _REFERENCE.findall(" ".join(texts)):
                if alias in select.sources:
                    needed[select.sources[alias]].add(name)
    steps = ", ".join(
        # A step that several steps use runs once; the others are optimized together.
        f"{step.name} as {'' if count > 1 and step.before else 'not '}materialized"
        f" ({_step_sql(step, computed[step])})"
        for step, count in uses.items()
    )
    return f"with {steps} select {', '.join(last.columns)} from {last.name}"  # noqa: S608 - our names


def rows_read(last: Step) -> int:
    """Return the number of rows of tables that a query reads."""
    return sum(step.rows for step in _count_uses(last))


_REFERENCE: Final = re.compile(r'\b([slr])\.("(?:[^"]|"")+")')
"""A column of a source in the SQL of a step."""


def _count_uses(last: Step) -> dict[Step, int]:
    """Return how many steps use each step, with the steps before a step in front of it."""
    order: dict[Step, int] = {}
    uses: dict[Step, int] = {}
    stack: list[tuple[Step, bool]] = [(last, False)]
    while stack:
        step, is_done = stack.pop()
        if is_done:
            order[step] = 0
            continue
        uses[step] = uses.get(step, 0) + 1
        if uses[step] == 1:
            stack.append((step, True))
            stack += [(each, False) for each in step.before]
    return {step: uses[step] for step in order}


def _computed_columns(step: Step, needed: set[str]) -> list[int]:
    """Return the numbers of the columns to compute; those that determine the rows always are."""
    is_distinct = any(select.is_distinct for select in step.selects)
    return [
        number
        for number, name in enumerate(step.columns)
        if is_distinct
        or number < step.keys
        or name in needed
        or any("unnest(" in select.columns[number] for select in step.selects)
    ]


def _step_sql(step: Step, numbers: Sequence[int]) -> str:
    return " union all ".join(
        f"select {'distinct ' if select.is_distinct else ''}{_columns_sql(step, select, numbers)}"
        f" {select.rest}"
        for select in step.selects
    )


def _columns_sql(step: Step, select: Select, numbers: Sequence[int]) -> str:
    texts = [f"{select.columns[number]} as {step.columns[number]}" for number in numbers]
    return ", ".join(texts) or "1"


@dataclass(frozen=True, slots=True)
class _Names:
    """The columns of one or two frames, as an expression in a query names them."""

    fields: tuple[tuple[Field, Sql], ...]

    def find(self, path: Sequence[str]) -> tuple[Sql, Sequence[str]]:
        if len(path) > 1:
            of_alias = [
                sql
                for field, sql in self.fields
                if field.qualifier == path[0] and field.name == path[1]
            ]
            if of_alias:
                return of_alias[0], path[2:]
        found = [sql for field, sql in self.fields if field.name == path[0]]
        if len(found) == 1:
            return found[0], path[1:]
        reason = "is ambiguous" if found else "is no column"
        known = ", ".join(field.name for field, _ in self.fields)
        raise KeyError(f"{'.'.join(path)} {reason}; the columns are {known}")

    def columns(self, qualifier: str | None) -> list[tuple[str, Sql]]:
        return [
            (field.name, sql)
            for field, sql in self.fields
            if qualifier is None or field.qualifier == qualifier
        ]


class Row:
    """A row of a result, with the columns as attributes and by name."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any type of SQL
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        return self._values[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.values())

    def asDict(self) -> dict[str, Any]:
        return dict(self._values)


class LocalFrame:
    """A table that DuckDB computes."""

    def __init__(
        self, session: LocalSession, step: Step, fields: Iterable[Field], *, is_empty: bool = False
    ) -> None:
        self.sparkSession = session
        self._step = step
        self._fields = tuple(fields)
        self.is_empty = is_empty
        """Whether it is known to have no rows."""

    @property
    def columns(self) -> list[str]:
        return [field.name for field in self._fields]

    @property
    def schema(self) -> pa.Schema:
        """The columns as fields of Arrow."""
        return pa.schema(
            [
                pa.field(
                    field.name,
                    field.type,
                    metadata=None if field.comment is None else {"comment": field.comment},
                )
                for field in self._fields
            ]
        )

    # --- one row for each row ---

    def alias(self, name: str) -> LocalFrame:
        fields = (replace(field, qualifier=name) for field in self._fields)
        return LocalFrame(self.sparkSession, self._step, fields, is_empty=self.is_empty)

    def select(self, *columns: str | Column) -> LocalFrame:
        return self._project(chain.from_iterable(map(self._expand, map(column, columns))))

    def _expand(self, each: Column) -> Iterator[tuple[Field, str]]:
        """Yield the columns that an argument of `select` stands for, and their SQL."""
        scope = self._scope()
        if each.star is not None:
            yield from self._expand_star(each.star)
        elif each.names:
            sql = each.resolve(scope)
            position, element = each.names
            yield Field(position, "", pa.int32()), f"unnest(range(len({sql.text})))"
            yield Field(element, "", sql.type.field(1).type), f"unnest({sql.text})"
        else:
            sql = each.resolve(scope)
            yield Field(each.name, "", sql.type, comment=each.comment), sql.text

    def _expand_star(self, path: str) -> Iterator[tuple[Field, str]]:
        fields = [field for field in self._fields if not path or field.qualifier == path]
        if fields:
            yield from ((field, _column(field)) for field in fields)
            return
        value = self._scope().path(path)
        for each in value.type:
            part = field_of(value, each.name)
            yield Field(each.name, "", part.type), part.text

    def withColumn(self, name: str, value: Column) -> LocalFrame:
        return self.withColumns({name: value})

    def withColumns(self, values: Mapping[str, Column]) -> LocalFrame:
        added = {name: next(self._expand(value.alias(name))) for name, value in values.items()}
        present = [added.pop(each.name, (each, _column(each))) for each in self._fields]
        return self._project([*present, *added.values()])

    def withColumnRenamed(self, old: str, new: str) -> LocalFrame:
        return self.withColumnsRenamed({old: new})

    def withColumnsRenamed(self, names: Mapping[str, str]) -> LocalFrame:
        fields = (replace(each, name=names.get(each.name, each.name)) for each in self._fields)
        return LocalFrame(self.sparkSession, self._step, fields, is_empty=self.is_empty)

    def drop(self, *names: str) -> LocalFrame:
        fields = (each for each in self._fields if each.name not in names)
        return LocalFrame(self.sparkSession, self._step, fields, is_empty=self.is_empty)

    def _project(self, columns: Iterable[tuple[Field, str]]) -> LocalFrame:
        fields, texts = _with_sql_names(columns)
        return self._then(f"from {self._step.name} s", fields, texts)

    def where(self, condition: str | Column) -> LocalFrame:
        parsed = parse(condition) if isinstance(condition, str) else condition
        text = parsed.resolve(self._scope()).text
        return self._then(
            f"from {self._step.name} s where {text}",
            self._fields,
            self._texts(),
            is_empty=text == "false",
        )

    def orderBy(self, *columns: str | Column) -> LocalFrame:
        order = order_sql(map(column, columns), self._scope())
        return self._then(f"from {self._step.name} s order by {order}", self._fields, self._texts())

    def limit(self, count: int) -> LocalFrame:
        return self._then(f"from {self._step.name} s limit {count}", self._fields, self._texts())

    def distinct(self) -> LocalFrame:
        return self._then(
            f"from {self._step.name} s", self._fields, self._texts(), is_distinct=True
        )

    def coalesce(self, _: int) -> LocalFrame:
        return self

    def cache(self) -> LocalFrame:
        """Compute the rows now."""
        return self.sparkSession.createDataFrame(self.toArrow())

    @property
    def na(self) -> LocalFrame:
        return self

    def fill(self, value: int) -> LocalFrame:
        """Replace nulls in columns of numbers, as `na.fill`."""
        return self.withColumns(
            {
                each.name: template("coalesce({}, {})", column(each.name), value)
                for each in self._fields
                if pa.types.is_integer(each.type) or pa.types.is_floating(each.type)
            }
        )

    # --- several frames ---

    def unionByName(
        self,
        other: LocalFrame,
        allowMissingColumns: bool = False,  # noqa: FBT001, FBT002 - as in PySpark
    ) -> LocalFrame:
        names = list(self.columns)
        theirs = {field.name: field for field in other._fields}
        missing = [name for name in other.columns if name not in names]
        if not allowMissingColumns and (missing or len(theirs) != len(names)):
            raise KeyError(f"union of {', '.join(names)} with {', '.join(theirs)}")
        names += missing
        ours = {field.name: field for field in self._fields}
        fields = [
            Field(
                name,
                quoted(name),
                _union_type(ours.get(name), theirs.get(name)),
                comment=ours[name].comment if name in ours else None,
            )
            for name in names
        ]
        selects = [
            Select(
                tuple(
                    _column(by_name[field.name]) if field.name in by_name else _null(field.type)
                    for field in fields
                ),
                f"from {step.name} s",
                {"s": step},
            )
            for step, by_name, is_empty in (
                (self._step, ours, self.is_empty),
                (other._step, theirs, other.is_empty),
            )
            if not is_empty
        ]
        nothing = Select(("null",) * len(names), "where false", {})
        step = self.sparkSession.step(fields, *(selects or [nothing]))
        return LocalFrame(self.sparkSession, step, fields, is_empty=not selects)

    def crossJoin(self, other: LocalFrame) -> LocalFrame:
        return self._join(other, "cross", None, ())

    def join(
        self, other: LocalFrame, on: str | Sequence[str] | Column, how: str = "inner"
    ) -> LocalFrame:
        if isinstance(on, Column):
            return self._join(other, how, on, ())
        return self._join(other, how, None, (on,) if isinstance(on, str) else tuple(on))

    def _join(
        self, other: LocalFrame, how: str, on: Column | None, keys: Sequence[str]
    ) -> LocalFrame:
        left = [(each, Sql(f"l.{each.sql}", each.type)) for each in self._fields]
        right = [(each, Sql(f"r.{each.sql}", each.type)) for each in other._fields]
        of_left, of_right = _Names(tuple(left)), _Names(tuple(right))
        conditions = [
            f"{of_left.find([key])[0].text} = {of_right.find([key])[0].text}" for key in keys
        ]
        if on is not None:
            conditions = [on.resolve(Scope(_Names((*left, *right)))).text]
        kind = _SEMI.get(how, how)
        output = left if kind in {"semi", "anti"} else _output(left, right, keys)
        fields, texts = _with_sql_names((each, sql.text) for each, sql in output)
        is_empty = self.is_empty or (other.is_empty and kind in {"inner", "cross", "semi"})
        clause = f" on {' and '.join(conditions)}" if conditions else ""
        rest = f"from {self._step.name} l {kind} join {other._step.name} r{clause}"
        select = Select(tuple(texts), rest, {"l": self._step, "r": other._step})
        step = self.sparkSession.step(fields, select)
        return LocalFrame(self.sparkSession, step, fields, is_empty=is_empty)

    # --- groups ---

    def groupBy(self, *keys: str | Column) -> GroupedFrame:
        return GroupedFrame(self, list(map(column, keys)))

    def agg(self, *aggregates: Column) -> LocalFrame:
        return GroupedFrame(self, []).agg(*aggregates)

    # --- results ---

    def toArrow(self) -> pa.Table:
        """Run the query; the result has the derived types, where known."""
        if self.is_empty:
            return self.schema.empty_table()
        self.sparkSession.check_size(rows_read(self._step))
        rows = self.sparkSession.run(query(self._step))
        selected = rows.select([field.sql[1:-1].replace('""', '"') for field in self._fields])
        named = selected.rename_columns(self.columns)
        schema = pa.schema(
            [
                (field.name, each.type if field.type == UNKNOWN else field.type)
                for field, each in zip(self._fields, named.schema, strict=True)
            ]
        )
        try:
            return named.cast(schema)
        except pa.ArrowInvalid as error:
            raise LocalEngineError(str(error)) from error

    def collect(self) -> list[Row]:
        return [Row(values) for values in without_zones(self.toArrow()).to_pylist()]

    def count(self) -> int:
        return int(self.toArrow().num_rows)

    def isEmpty(self) -> bool:
        return self.is_empty or self.limit(1).count() == 0

    def mapInArrow(
        self,
        function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema | str,
    ) -> LocalFrame:
        """Return the batches that a function makes of this table's; the function runs now."""
        if isinstance(schema, str):
            schema = parse_columns(schema)
        rows = self.toArrow().combine_chunks()
        batches = rows.to_batches() if rows.num_rows else []
        made = pa.Table.from_batches(list(function(batches)), schema)
        return self.sparkSession.createDataFrame(made, schema)

    @property
    def write(self) -> FrameWriter:
        return FrameWriter(self)

    # --- helpers ---

    def _scope(self) -> Scope:
        return Scope(_Names(tuple((each, Sql(_column(each), each.type)) for each in self._fields)))

    def _texts(self) -> list[str]:
        return [_column(each) for each in self._fields]

    def _then(
        self,
        rest: str,
        fields: Sequence[Field],
        texts: Sequence[str],
        *,
        is_empty: bool = False,
        is_distinct: bool = False,
    ) -> LocalFrame:
        select = Select(tuple(texts), rest, {"s": self._step}, is_distinct)
        step = self.sparkSession.step(fields, select)
        return LocalFrame(self.sparkSession, step, fields, is_empty=is_empty or self.is_empty)


class GroupedFrame:
    """A frame whose rows are grouped."""

    def __init__(self, frame: LocalFrame, keys: list[Column]) -> None:
        self._frame = frame
        self._keys = keys

    def agg(self, *aggregates: Column) -> LocalFrame:
        """Return one row per group; without keys, one row."""
        frame = self._frame
        columns = chain.from_iterable(map(frame._expand, (*self._keys, *aggregates)))  # noqa: SLF001
        fields, texts = _with_sql_names(columns)
        keys = ", ".join(map(str, range(1, len(self._keys) + 1)))
        grouping = f" group by {keys}" if keys else ""
        if frame.is_empty and not keys:
            # One row, although its frame has none.
            empty = frame.sparkSession.createDataFrame(_typed(frame.schema).empty_table())
            if empty.is_empty:
                empty = LocalFrame(empty.sparkSession, empty._step, empty._fields)  # noqa: SLF001
            return GroupedFrame(_renamed(empty, frame), []).agg(*aggregates)
        before = frame._step  # noqa: SLF001
        select = Select(tuple(texts), f"from {before.name} s{grouping}", {"s": before})
        step = frame.sparkSession.step(fields, select, keys=max(1, len(self._keys)))
        return LocalFrame(frame.sparkSession, step, fields, is_empty=frame.is_empty)

    def applyInArrow(
        self, function: Callable[[pa.Table], pa.Table], schema: pa.Schema
    ) -> LocalFrame:
        """Return the rows that a function makes of each group; the function runs now.

        The groups have one key, and are in memory one at a time.
        """
        frame = self._frame.cache()
        (key,) = self._keys
        values = frame.select(key.alias("key")).distinct().orderBy("key").collect()
        made = [
            schema.empty_table(),
            *(function(frame.where(key == row.key).toArrow()).cast(schema) for row in values),
        ]
        return frame.sparkSession.createDataFrame(pa.concat_tables(made), schema)


def _renamed(empty: LocalFrame, frame: LocalFrame) -> LocalFrame:
    """Return an empty table with the aliases of a frame."""
    fields = (
        replace(field, qualifier=like.qualifier)
        for field, like in zip(empty._fields, frame._fields, strict=True)
    )
    return LocalFrame(empty.sparkSession, empty._step, fields)  # noqa: SLF001


def _typed(schema: pa.Schema) -> pa.Schema:
    """Return columns with a type for those whose type is unknown."""
    return pa.schema(
        [field.with_type(pa.int32()) if field.type == UNKNOWN else field for field in schema]
    )


class FrameWriter:
    """Writes a frame, as PySpark's `DataFrameWriter`."""

    def __init__(self, frame: LocalFrame) -> None:
        self._frame = frame

    def parquet(self, url: str) -> None:
        """Write the rows to one file, not to files in a folder."""
        self._frame.sparkSession.write_parquet(self._frame, url)


def _column(field: Field) -> str:
    return f"s.{field.sql}"


def _with_sql_names(columns: Iterable[tuple[Field, str]]) -> tuple[list[Field], list[str]]:
    """Give each column a unique name in the query; returns them, and the terms of SELECT."""
    fields: list[Field] = []
    texts: list[str] = []
    used: set[str] = set()
    for field, text in columns:
        name, number = field.name, 1
        while name.lower() in used:
            number += 1
            name = f"{field.name}_{number}"
        used.add(name.lower())
        fields.append(replace(field, sql=quoted(name)))
        texts.append(text)
    return fields, texts


def _output(
    left: Sequence[tuple[Field, Sql]], right: Sequence[tuple[Field, Sql]], keys: Sequence[str]
) -> list[tuple[Field, Sql]]:
    """Return the columns of a join, with the keys once, and first."""
    by_name = {each.name: (each, sql) for each, sql in left}
    return [
        *(by_name[key] for key in keys),
        *((each, sql) for each, sql in left if each.name not in keys),
        *((each, sql) for each, sql in right if each.name not in keys),
    ]


def _null(kind: pa.DataType) -> str:
    """Return SQL for null, of this type if it is known: the other frame may be empty."""
    return "null" if kind == UNKNOWN else f"null::{duckdb_name(kind)}"


def _union_type(ours: Field | None, theirs: Field | None) -> pa.DataType:
    kinds = [each.type for each in (ours, theirs) if each is not None and each.type != UNKNOWN]
    if len(kinds) == 2 and all(map(pa.types.is_integer, kinds)):  # noqa: PLR2004 - both sides
        return max(kinds, key=lambda kind: kind.bit_width)
    return kinds[0] if kinds else UNKNOWN


def without_zones(table: pa.Table) -> pa.Table:
    """Return a table whose timestamps have no time zone, as in PySpark's rows."""
    schema = pa.schema(
        [
            field.with_type(pa.timestamp("us")) if pa.types.is_timestamp(field.type) else field
            for field in table.schema
        ]
    )
    return table.cast(schema)
