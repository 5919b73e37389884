"""Columns as in PySpark: expressions that are rendered as SQL of DuckDB when a frame uses them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import pyarrow as pa

from kafkalite.lab.spark.local.data_types import (
    UNKNOWN,
    duckdb_name,
    is_integer,
    parse_type,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Sql:
    """SQL of an expression, and its type if it is derived, else `UNKNOWN`."""

    text: str
    type: pa.DataType = UNKNOWN


class Names(Protocol):
    """The names that an expression can use."""

    def find(self, path: Sequence[str]) -> tuple[Sql, Sequence[str]]:
        """Return the column with which a path begins, and the rest of the path."""

    def columns(self, qualifier: str | None) -> list[tuple[str, Sql]]:
        """Return all columns, or those of the frame with an alias."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The names of a frame, and the parameters of lambdas around an expression."""

    names: Names
    parameters: Mapping[str, Sql] = field(default_factory=dict)

    def path(self, text: str) -> Sql:
        """Return the SQL for the value at a path, such as `request.topics.name`.

        A path through a list of structs returns the list of the values.
        """
        parts = text.split(".")
        rest: Sequence[str] = parts[1:]
        if parts[0] in self.parameters:
            value = self.parameters[parts[0]]
        else:
            value, rest = self.names.find(parts)
        for name in rest:
            value = field_of(value, name)
        return value

    def with_parameter(self, name: str, kind: pa.DataType) -> tuple[Scope, str]:
        """Return the scope of a lambda's body, and the parameter's name in SQL."""
        sql = quoted(f"{name}{len(self.parameters)}")
        return replace(self, parameters={**self.parameters, name: Sql(sql, kind)}), sql


def field_of(value: Sql, name: str) -> Sql:
    """Return a field of a struct; of a list of structs, the list of the fields."""
    if pa.types.is_list(value.type):
        element = field_of(Sql("e", value.type.value_type), name)
        return Sql(
            f"list_transform({value.text}, lambda e: {element.text})", pa.list_(element.type)
        )
    kind = UNKNOWN
    if pa.types.is_struct(value.type):
        index = value.type.get_field_index(name)
        if index < 0:
            raise KeyError(f"{name}: no field of {value.type}")
        kind = value.type.field(index).type
    return Sql(f"struct_extract({value.text}, {_text(name)})", kind)


Resolve = "Callable[[Scope], Sql]"


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """An expression, with the methods and operators of PySpark's columns."""

    resolve: Callable[[Scope], Sql]
    name: str = "value"
    """The name of the column in a result."""
    over_window: Callable[[Scope, str], Sql] | None = None
    """For functions with windows: renders the function with an OVER clause."""
    names: tuple[str, ...] = ()
    """Names of several columns, for functions that return several."""
    star: str | None = None
    """For `*` and `path.*`: the path, or an empty text."""
    cases: tuple[tuple[Column, Column], ...] = ()
    comment: str | None = None

    def alias(self, *names: str, metadata: Mapping[str, str] | None = None) -> Column:
        comment = None if metadata is None else metadata.get("comment")
        return replace(self, name=names[0], names=names if self.names else (), comment=comment)

    def over(self, window: Window) -> Column:
        over_window = self.over_window
        if over_window is None:
            raise TypeError(f"{self.name}: has no window")
        return Column(lambda scope: over_window(scope, f" over ({window.sql(scope)})"))

    def cast(self, kind: str | pa.DataType) -> Column:
        target = parse_type(kind) if isinstance(kind, str) else kind
        return replace(self, resolve=lambda scope: _cast(self.resolve(scope), target))

    def when(self, condition: Column, value: object) -> Column:
        return _case((*self.cases, (condition, literal(value))), None)

    def otherwise(self, value: object) -> Column:
        return _case(self.cases, literal(value))

    def isNull(self) -> Column:
        return template("({} is null)", self, kind=pa.bool_())

    def isNotNull(self) -> Column:
        return template("({} is not null)", self, kind=pa.bool_())

    def eqNullSafe(self, other: object) -> Column:
        return template("({} is not distinct from {})", self, other, kind=pa.bool_())

    def isin(self, *values: object) -> Column:
        flat = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        assert isinstance(flat, list | tuple)
        slots = ", ".join(["{}"] * len(flat))
        return template(f"({{}} in ({slots}))", self, *flat, kind=pa.bool_())

    def startswith(self, prefix: object) -> Column:
        return template("starts_with({}, {})", self, prefix, kind=pa.bool_())

    def rlike(self, pattern: object) -> Column:
        return template("regexp_matches({}, {})", self, pattern, kind=pa.bool_())

    def getField(self, name: str) -> Column:
        return Column(lambda scope: field_of(self.resolve(scope), name), name)

    def desc(self) -> Column:
        return self._sorted("desc nulls last")

    def desc_nulls_last(self) -> Column:
        return self._sorted("desc nulls last")

    def _sorted(self, order: str) -> Column:
        def resolve(scope: Scope) -> Sql:
            return Sql(f"{self.resolve(scope).text} {order}")

        return replace(self, resolve=resolve, names=("sorted",))

    def __getitem__(self, key: object) -> Column:
        if isinstance(key, int):
            return Column(lambda scope: element_of(self.resolve(scope), str(key + 1)))
        return template("({})[{}]", self, key, kind=pa.string())

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Column:  # type: ignore[override]
        return template("({} = {})", self, other, kind=pa.bool_())

    def __ne__(self, other: object) -> Column:  # type: ignore[override]
        return template("({} <> {})", self, other, kind=pa.bool_())

    def __lt__(self, other: object) -> Column:
        return template("({} < {})", self, other, kind=pa.bool_())

    def __le__(self, other: object) -> Column:
        return template("({} <= {})", self, other, kind=pa.bool_())

    def __gt__(self, other: object) -> Column:
        return template("({} > {})", self, other, kind=pa.bool_())

    def __ge__(self, other: object) -> Column:
        return template("({} >= {})", self, other, kind=pa.bool_())

    def __and__(self, other: object) -> Column:
        return template("({} and {})", self, other, kind=pa.bool_())

    def __or__(self, other: object) -> Column:
        return template("({} or {})", self, other, kind=pa.bool_())

    def __invert__(self) -> Column:
        return template("(not {})", self, kind=pa.bool_())

    def __neg__(self) -> Column:
        return template("(-{})", self)

    def __add__(self, other: object) -> Column:
        return template("({} + {})", self, other)

    def __sub__(self, other: object) -> Column:
        return template("({} - {})", self, other)

    def __mul__(self, other: object) -> Column:
        return template("({} * {})", self, other)

    def __mod__(self, other: object) -> Column:
        return template("({} % {})", self, other)

    def __truediv__(self, other: object) -> Column:
        return template("({} / {})", self, other, kind=pa.float64())


@dataclass(frozen=True, slots=True)
class Window:
    """A window specification; its methods return an extended one."""

    keys: tuple[Column, ...] = ()
    order: tuple[Column, ...] = ()
    frame: str = ""

    unboundedPreceding: ClassVar[int] = -(2**63)  # noqa: N815 - as in PySpark, also below
    unboundedFollowing: ClassVar[int] = 2**63 - 1  # noqa: N815
    currentRow: ClassVar[int] = 0  # noqa: N815

    def partitionBy(self, *columns: str | Column) -> Window:
        return replace(self, keys=tuple(map(column, columns)))

    def orderBy(self, *columns: str | Column) -> Window:
        return replace(self, order=tuple(map(column, columns)))

    def rowsBetween(self, start: int, end: int) -> Window:
        return replace(self, frame=f" rows between {_bound(start)} and {_bound(end)}")

    def sql(self, scope: Scope) -> str:
        """Return the clauses of the window."""
        keys = ", ".join(each.resolve(scope).text for each in self.keys)
        order = order_sql(self.order, scope)
        return " ".join(
            clause
            for clause in (
                f"partition by {keys}" if keys else "",
                f"order by {order}" if order else "",
                self.frame,
            )
            if clause
        )


WINDOW: Final = Window()
"""Stands for the class in PySpark, whose methods start a specification."""
_UNBOUNDED: Final = 2**63 - 1


def _bound(row: int) -> str:
    side = "preceding" if row < 0 else "following"
    if row == 0:
        return "current row"
    return f"{'unbounded' if abs(row) >= _UNBOUNDED else abs(row)} {side}"


def order_sql(columns: Iterable[Column], scope: Scope) -> str:
    """Return the terms of ORDER BY; nulls come first in ascending order, as in Spark."""
    return ", ".join(
        each.resolve(scope).text
        if each.names == ("sorted",)
        else f"{each.resolve(scope).text} asc nulls first"
        for each in columns
    )


def column(value: str | Column) -> Column:
    """Return the column at a path, or the column itself."""
    if isinstance(value, Column):
        return value
    if value == "*" or value.endswith(".*"):
        return Column(_no_value, star=value[:-2])
    return Column(lambda scope: scope.path(value), value.rpartition(".")[2])


def _no_value(_: Scope) -> Sql:
    raise TypeError("*: not a value")


def literal(value: object) -> Column:
    """Return a constant, or the column itself."""
    if isinstance(value, Column):
        return value
    sql = _constant(value)
    return Column(lambda _: sql, sql.text)


def _constant(value: object) -> Sql:
    if value is None:
        return Sql("null")
    if isinstance(value, bool):
        return Sql(str(value).lower(), pa.bool_())
    if isinstance(value, IntEnum | int):
        kind = pa.int32() if -(1 << 31) <= value < 1 << 31 else pa.int64()
        return Sql(f"({int(value)})" if value < 0 else str(int(value)), kind)
    if isinstance(value, float):
        return Sql(f"{value!r}::DOUBLE", pa.float64())
    if isinstance(value, str):
        return Sql(_text(value), pa.string())
    raise TypeError(f"{value!r}: not a constant of SQL")


def _text(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def template(pattern: str, *arguments: object, kind: pa.DataType = UNKNOWN) -> Column:
    """Return an expression with arguments in place of each `{}`.

    Without `kind`, its type is that of the arguments.
    """

    def resolve(scope: Scope) -> Sql:
        values = [each.resolve(scope) for each in columns]
        text = pattern.format(*(value.text for value in values))
        return Sql(text, common_type(values) if kind is UNKNOWN else kind)

    columns = [literal(each) for each in arguments]
    return Column(resolve)


def common_type(values: Sequence[Sql]) -> pa.DataType:
    """Return the type of an expression that has one of these values."""
    known = [value.type for value in values if value.type != UNKNOWN]
    if not known:
        return UNKNOWN
    if any(pa.types.is_floating(kind) for kind in known):
        return pa.float64()
    if all(map(is_integer, known)):
        return max(known, key=lambda kind: kind.bit_width)
    return known[0]


def element_of(value: Sql, index: str) -> Sql:
    """Return an element of a list by its number, counted from 1; null if it has fewer."""
    kind = value.type.value_type if pa.types.is_list(value.type) else UNKNOWN
    return Sql(f"list_extract({value.text}, {index})", kind)


def _case(cases: Sequence[tuple[Column, Column]], default: Column | None) -> Column:
    def resolve(scope: Scope) -> Sql:
        values = [value.resolve(scope) for _, value in cases]
        texts = [
            f"when {condition.resolve(scope).text} then {value.text}"
            for (condition, _), value in zip(cases, values, strict=True)
        ]
        if default is not None:
            values.append(default.resolve(scope))
            texts.append(f"else {values[-1].text}")
        return Sql(f"case {' '.join(texts)} end", common_type(values))

    return Column(resolve, cases=tuple(cases))


def case(cases: Sequence[tuple[Column, Column]], default: Column | None = None) -> Column:
    """Return the value of the first condition that is true, else the default."""
    return _case(cases, default)


def _cast(value: Sql, kind: pa.DataType) -> Sql:
    if value.type == kind:
        return value
    # DuckDB rounds, Spark truncates.
    text = f"trunc({value.text})" if _loses_fraction(value.type, kind) else value.text
    return Sql(f"cast({text} as {duckdb_name(kind)})", kind)


def _loses_fraction(source: pa.DataType, kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(source)) and is_integer(kind)
