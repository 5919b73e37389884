"""PySpark's functions that the audits use, as expressions of DuckDB with the results of Spark."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkalite.lab.spark.local.data_types import UNKNOWN, is_integer, quoted
from kafkalite.lab.spark.local.expressions import (
    Column,
    Scope,
    Sql,
    case,
    column,
    common_type,
    element_of,
    field_of,
    literal,
    template,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ColumnOrName = Column | str


def col(name: str) -> Column:
    return column(name)


def lit(value: object) -> Column:
    return literal(value)


def expr(text: str) -> Column:
    from kafkalite.lab.spark.local.parser import parse  # noqa: PLC0415 - uses these functions

    return parse(text)


def when(condition: Column, value: object) -> Column:
    return case([(condition, literal(value))])


def broadcast(frame: Any) -> Any:  # noqa: ANN401 - a frame
    return frame


def desc(name: ColumnOrName) -> Column:
    return column(name).desc()


# --- scalars ---


def coalesce(*columns: ColumnOrName) -> Column:
    return _of("coalesce", *columns)


def greatest(*columns: ColumnOrName) -> Column:
    return _of("greatest", *columns)


def least(*columns: ColumnOrName) -> Column:
    return _of("least", *columns)


def nullif(first: ColumnOrName, second: ColumnOrName) -> Column:
    return _of("nullif", first, second)


def negative(value: ColumnOrName) -> Column:
    return -column(value)


def try_divide(left: ColumnOrName, right: ColumnOrName) -> Column:
    return template("({} / nullif({}, 0))", column(left), column(right), kind=pa.float64())


def unix_micros(value: ColumnOrName) -> Column:
    return template("epoch_us({})", column(value), kind=pa.int64())


def timestamp_micros(value: ColumnOrName) -> Column:
    return template("make_timestamp({})", column(value), kind=pa.timestamp("us", tz="UTC"))


def hex(value: ColumnOrName) -> Column:
    return template("hex({})", column(value), kind=pa.string())


def length(value: ColumnOrName) -> Column:
    def resolve(scope: Scope) -> Sql:
        sql = column(value).resolve(scope)
        function = "octet_length" if pa.types.is_binary(sql.type) else "length"
        return Sql(f"{function}({sql.text})", pa.int32())

    return Column(resolve)


def substring(value: ColumnOrName, position: object, size: object = None) -> Column:
    def resolve(scope: Scope) -> Sql:
        sql = column(value).resolve(scope)
        start = literal(position).resolve(scope).text
        count = literal(size).resolve(scope).text
        if pa.types.is_binary(sql.type):
            return Sql(f"array_slice({sql.text}, {start}, {start} + {count} - 1)", sql.type)
        arguments = f"{sql.text}, {start}" if size is None else f"{sql.text}, {start}, {count}"
        return Sql(f"substring({arguments})", pa.string())

    return Column(resolve)


def left(value: ColumnOrName, size: object) -> Column:
    return template("left({}, {})", column(value), size, kind=pa.string())


def substring_index(value: ColumnOrName, delimiter: object, count: object) -> Column:
    """Return the text after the last delimiter; only `count` -1 is used."""
    return template("split_part({}, {}, {})", column(value), delimiter, count, kind=pa.string())


def regexp_extract(value: ColumnOrName, pattern: object, group: object) -> Column:
    return template("regexp_extract({}, {}, {})", column(value), pattern, group, kind=pa.string())


def startswith(value: ColumnOrName, prefix: ColumnOrName) -> Column:
    return column(value).startswith(column(prefix))


def concat(*columns: ColumnOrName) -> Column:
    """Join texts or lists; null if one of them is null."""
    return template(f"({' || '.join(['{}'] * len(columns))})", *map(column, columns))


# --- structs, lists and maps ---


def struct(*columns: ColumnOrName) -> Column:
    return _struct([column(each) for each in columns])


def _struct(columns: Sequence[Column]) -> Column:
    def resolve(scope: Scope) -> Sql:
        fields: list[tuple[str, Sql]] = []
        for each in columns:
            if each.star is None:
                fields.append((each.name, each.resolve(scope)))
            else:
                fields += scope.names.columns(each.star or None)
        packed = ", ".join(f"{quoted(name)} := {sql.text}" for name, sql in fields)
        return Sql(
            f"struct_pack({packed})", pa.struct([pa.field(name, sql.type) for name, sql in fields])
        )

    return Column(resolve, "struct")


def named_struct(*names_and_values: Column) -> Column:
    names = [each.name.strip("'") for each in names_and_values[::2]]
    values = names_and_values[1::2]
    return _struct([value.alias(name) for name, value in zip(names, values, strict=True)])


def array(*columns: ColumnOrName) -> Column:
    def resolve(scope: Scope) -> Sql:
        values = [column(each).resolve(scope) for each in columns]
        return Sql(f"[{', '.join(value.text for value in values)}]", pa.list_(common_type(values)))

    return Column(resolve)


def create_map(*keys_and_values: Column) -> Column:
    """Return a map of constants; only `map[key]` is used."""

    @cache
    def render() -> str:
        scope = Scope(_NoNames())
        texts = [each.resolve(scope).text for each in keys_and_values]
        return f"map([{', '.join(texts[::2])}], [{', '.join(texts[1::2])}])"

    return Column(lambda _: Sql(render()))


class _NoNames:
    def find(self, path: Sequence[str]) -> tuple[Sql, Sequence[str]]:
        raise KeyError(".".join(path))

    def columns(self, qualifier: str | None) -> list[tuple[str, Sql]]:
        raise KeyError(qualifier)


def size(value: ColumnOrName) -> Column:
    return template("len({})", column(value), kind=pa.int32())


def flatten(value: ColumnOrName) -> Column:
    """Join the lists in a list; null if one of them is null."""

    def resolve(scope: Scope) -> Sql:
        sql = column(value).resolve(scope)
        kind = sql.type.value_type if pa.types.is_list(sql.type) else UNKNOWN
        text = sql.text
        return Sql(f"case when list_count({text}) = len({text}) then flatten({text}) end", kind)

    return Column(resolve)


def get(value: ColumnOrName, index: ColumnOrName) -> Column:
    def resolve(scope: Scope) -> Sql:
        position = column(index).resolve(scope).text
        return element_of(column(value).resolve(scope), f"{position} + 1")

    return Column(resolve)


def array_max(value: ColumnOrName) -> Column:
    return _of_elements("list_max", value)


def array_min(value: ColumnOrName) -> Column:
    return _of_elements("list_min", value)


def _of_elements(function: str, value: ColumnOrName) -> Column:
    def resolve(scope: Scope) -> Sql:
        sql = column(value).resolve(scope)
        kind = sql.type.value_type if pa.types.is_list(sql.type) else UNKNOWN
        return Sql(f"{function}({sql.text})", kind)

    return Column(resolve)


def array_distinct(value: ColumnOrName) -> Column:
    return template("list_filter({0}, lambda e, i: list_position({0}, e) = i)", column(value))


def array_except(first: ColumnOrName, second: ColumnOrName) -> Column:
    return template(
        "case when {1} is not null then list_filter({0}, lambda e, i:"
        " not list_contains({1}, e) and list_position({0}, e) = i) end",
        column(first),
        column(second),
    )


def array_compact(value: ColumnOrName) -> Column:
    return template("list_filter({}, lambda e: e is not null)", column(value))


def array_contains(value: ColumnOrName, element: object) -> Column:
    return template("list_contains({}, {})", column(value), element, kind=pa.bool_())


def arrays_overlap(first: ColumnOrName, second: ColumnOrName) -> Column:
    return template("list_has_any({}, {})", column(first), column(second), kind=pa.bool_())


Lambda = "tuple[str, Column]"


def filter(value: Column, condition: tuple[str, Column]) -> Column:
    def resolve(scope: Scope) -> Sql:
        sql = value.resolve(scope)
        return Sql(f"list_filter({sql.text}, {_lambda(scope, sql, condition)[0]})", sql.type)

    return Column(resolve)


def transform(value: Column, function: tuple[str, Column]) -> Column:
    def resolve(scope: Scope) -> Sql:
        sql = value.resolve(scope)
        text, kind = _lambda(scope, sql, function)
        return Sql(f"list_transform({sql.text}, {text})", pa.list_(kind))

    return Column(resolve)


def exists(value: Column, condition: tuple[str, Column]) -> Column:
    """Whether the condition is true for an element; also false if it is null for some of them."""

    def resolve(scope: Scope) -> Sql:
        sql = value.resolve(scope)
        text, _ = _lambda(scope, sql, condition)
        return Sql(f"list_contains(list_transform({sql.text}, {text}), true)", pa.bool_())

    return Column(resolve)


def _lambda(scope: Scope, values: Sql, function: tuple[str, Column]) -> tuple[str, pa.DataType]:
    name, body = function
    kind = values.type.value_type if pa.types.is_list(values.type) else UNKNOWN
    inner, parameter = scope.with_parameter(name, kind)
    result = body.resolve(inner)
    return f"lambda {parameter}: {result.text}", result.type


# --- functions that return several rows ---


def explode(value: ColumnOrName) -> Column:
    return _of_elements("unnest", value)


def explode_outer(value: ColumnOrName) -> Column:
    """Like `explode`, with a null for a list that is null or empty."""

    def resolve(scope: Scope) -> Sql:
        sql = column(value).resolve(scope)
        kind = sql.type.value_type if pa.types.is_list(sql.type) else UNKNOWN
        return Sql(f"unnest(case when len({sql.text}) > 0 then {sql.text} else [null] end)", kind)

    return Column(resolve)


def posexplode(value: ColumnOrName) -> Column:
    """Return two columns: the position, from 0, and the element."""

    def resolve(scope: Scope) -> Sql:
        sql = column(value).resolve(scope)
        kind = sql.type.value_type if pa.types.is_list(sql.type) else UNKNOWN
        return Sql(sql.text, pa.struct([pa.field("pos", pa.int32()), pa.field("col", kind)]))

    return Column(resolve, names=("pos", "col"))


# --- aggregates and functions with windows ---


def _aggregate(render: Callable[[Scope, str], Sql]) -> Column:
    return Column(lambda scope: render(scope, ""), over_window=render)


def _aggregate_of(pattern: str, value: ColumnOrName, kind: pa.DataType = UNKNOWN) -> Column:
    """Return an aggregate; its type is that of the value unless it is given."""

    def render(scope: Scope, over: str) -> Sql:
        sql = column(value).resolve(scope)
        return Sql(pattern.format(sql.text) + over, sql.type if kind is UNKNOWN else kind)

    return _aggregate(render)


def count(value: ColumnOrName) -> Column:
    return _aggregate_of("count({})", value, pa.int64())


def count_distinct(value: ColumnOrName) -> Column:
    return _aggregate_of("count(distinct {})", value, pa.int64())


def count_if(condition: ColumnOrName) -> Column:
    return _aggregate_of("count(case when {} then 1 end)", condition, pa.int64())


def bool_or(condition: ColumnOrName) -> Column:
    return _aggregate_of("bool_or({})", condition, pa.bool_())


def bool_and(condition: ColumnOrName) -> Column:
    return _aggregate_of("bool_and({})", condition, pa.bool_())


def sum(value: ColumnOrName) -> Column:
    def render(scope: Scope, over: str) -> Sql:
        sql = column(value).resolve(scope)
        if pa.types.is_floating(sql.type):
            return Sql(f"sum({sql.text}){over}", pa.float64())
        if not is_integer(sql.type):
            raise TypeError(f"sum of {sql.text}: has the type {sql.type}")
        # DuckDB sums integers in 128 bits.
        return Sql(f"cast(sum({sql.text}){over} as BIGINT)", pa.int64())

    return _aggregate(render)


def min(value: ColumnOrName) -> Column:
    return _extreme("min", value)


def max(value: ColumnOrName) -> Column:
    return _extreme("max", value)


def _extreme(function: str, value: ColumnOrName) -> Column:
    def render(scope: Scope, over: str) -> Sql:
        sql = column(value).resolve(scope)
        if not pa.types.is_struct(sql.type):
            return Sql(f"{function}({sql.text}){over}", sql.type)
        return Sql(f"arg_{function}_null({sql.text}, {_sort_key(sql)}){over}", sql.type)

    return _aggregate(render)


def min_by(value: ColumnOrName, order: ColumnOrName) -> Column:
    return _extreme_by("min", value, order)


def max_by(value: ColumnOrName, order: ColumnOrName) -> Column:
    return _extreme_by("max", value, order)


def _extreme_by(function: str, value: ColumnOrName, order: ColumnOrName) -> Column:
    def render(scope: Scope, over: str) -> Sql:
        sql, by = column(value).resolve(scope), column(order).resolve(scope)
        return Sql(f"arg_{function}_null({sql.text}, {_sort_key(by)}){over}", sql.type)

    return _aggregate(render)


def _sort_key(value: Sql) -> str:
    """Return SQL that orders values as Spark does: null fields of structs are smallest."""
    if not pa.types.is_struct(value.type):
        return value.text
    parts = []
    for number, each in enumerate(value.type):
        text = field_of(value, each.name).text
        parts += [f"n{number} := {text} is not null", f"v{number} := {text}"]
    return f"case when {value.text} is not null then struct_pack({', '.join(parts)}) end"


def first(value: ColumnOrName) -> Column:
    def render(scope: Scope, over: str) -> Sql:
        sql = column(value).resolve(scope)
        return Sql(f"{'first_value' if over else 'first'}({sql.text}){over}", sql.type)

    return _aggregate(render)


def last(value: ColumnOrName, *, ignorenulls: bool = False) -> Column:
    nulls = " ignore nulls" if ignorenulls else ""
    return _aggregate_of(f"last_value({{}}{nulls})", value)


def lag(value: ColumnOrName, offset: int = 1) -> Column:
    return _aggregate_of(f"lag({{}}, {offset})", value)


def lead(value: ColumnOrName, offset: int = 1) -> Column:
    return _aggregate_of(f"lead({{}}, {offset})", value)


def row_number() -> Column:
    return _aggregate(lambda _, over: Sql(f"row_number(){over}", pa.int32()))


def collect_list(value: ColumnOrName) -> Column:
    return _collect("list({0})", value)


def collect_set(value: ColumnOrName) -> Column:
    return _collect("list(distinct {0})", value)


def _collect(pattern: str, value: ColumnOrName) -> Column:
    def render(scope: Scope, over: str) -> Sql:
        sql = column(value).resolve(scope)
        collected = pattern.format(sql.text)
        return Sql(
            f"coalesce({collected} filter (where {sql.text} is not null){over}, [])",
            pa.list_(sql.type),
        )

    return _aggregate(render)


def _of(function: str, *columns: ColumnOrName) -> Column:
    slots = ", ".join(["{}"] * len(columns))
    return template(f"{function}({slots})", *map(column, columns))


SQL_FUNCTIONS: Mapping[str, Callable[..., Column]] = {
    function.__name__: function
    for function in (
        *(array, array_compact, array_contains, array_except, array_max, array_min, bool_and),
        *(bool_or, coalesce, concat, count, count_distinct, count_if, exists, filter),
        *(flatten, get, greatest, hex, least, left, length, max, max_by, min, min_by),
        *(named_struct, nullif, size, startswith, struct, substring, substring_index, sum),
        transform,
    )
}
"""Functions in expressions of Spark SQL, by name."""


def filtered(aggregate: Column, condition: Column) -> Column:
    """Return an aggregate of the rows for which a condition is true."""

    def resolve(scope: Scope) -> Sql:
        sql = aggregate.resolve(scope)
        return replace(sql, text=f"{sql.text} filter (where {condition.resolve(scope).text})")

    return Column(resolve)
