"""Tables of a history with their rows packed into arrays, because there may be millions of batches.

A batch as an object, with its request and its header, needs about a kilobyte; a packed one needs a
tenth of that. A row becomes an object when it is read. So a rule that needs many rows keeps their
numbers, as in a `View`, and not the rows.
"""

# ruff: noqa: ANN401 - values of any field
from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

T = TypeVar("T")
K = TypeVar("K", bound="Hashable")

_NO_NUMBER: Final = -(1 << 63)
_LOW_BITS: Final = 32
_LOW_MASK: Final = (1 << _LOW_BITS) - 1


class Column(Protocol):
    """The values of a field, by the numbers of rows."""

    def append(self, value: Any, /) -> None:
        """Add the value of the next row."""

    def reorder(self, order: Sequence[int], /) -> None:
        """Bring the values into an order of rows."""

    def reader(self) -> Callable[[Any], Any]:
        """Return a function that returns the value of a row, which has its number as `number`."""


class Numbers:
    """Integers; the type code is that of `array`."""

    __slots__ = ("values",)

    def __init__(self, code: str = "q") -> None:
        self.values = array(code)

    def append(self, value: int, /) -> None:
        """Add the value of the next row."""
        self.values.append(value)

    def reorder(self, order: Sequence[int], /) -> None:
        """Bring the values into an order of rows."""
        # In place: functions that read them have the array.
        self.values[:] = array(self.values.typecode, map(self.values.__getitem__, order))

    def reader(self) -> Callable[[Any], Any]:
        """Return a function that returns the value of a row."""
        values = self.values
        return lambda row: values[row.number]


class OptionalNumbers(Numbers):
    """Integers of 64 bits or None."""

    __slots__ = ()

    def append(self, value: int | None, /) -> None:
        """Add the value of the next row."""
        self.values.append(_NO_NUMBER if value is None else value)

    def reader(self) -> Callable[[Any], Any]:
        """Return a function that returns the value of a row."""
        values = self.values

        def read(row: Any) -> int | None:
            value: int = values[row.number]
            return None if value == _NO_NUMBER else value

        return read


class Shared(Numbers):
    """Values of which there are few different ones, such as names; equal ones are stored once."""

    __slots__ = ("_different", "_numbers")

    def __init__(self, code: str = "i") -> None:
        super().__init__(code)
        self._numbers: dict[Any, int] = {}
        self._different: list[Any] = []

    def append(self, value: Any, /) -> None:
        """Add the value of the next row."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self._different)
            self._different.append(value)
        self.values.append(number)

    def reader(self) -> Callable[[Any], Any]:
        """Return a function that returns the value of a row."""
        values, different = self.values, self._different
        return lambda row: different[values[row.number]]


class WideNumbers:
    """Non-negative integers whose bits above the lowest 32 have few different values."""

    __slots__ = ("_high", "_low")

    def __init__(self) -> None:
        self._high, self._low = Shared(), Numbers("I")

    def append(self, value: int, /) -> None:
        """Add the value of the next row."""
        self._high.append(value >> _LOW_BITS)
        self._low.append(value & _LOW_MASK)

    def reorder(self, order: Sequence[int], /) -> None:
        """Bring the values into an order of rows."""
        self._high.reorder(order)
        self._low.reorder(order)

    def reader(self) -> Callable[[Any], Any]:
        """Return a function that returns the value of a row."""
        high, low = self._high.reader(), self._low.reader()
        return lambda row: (high(row) << _LOW_BITS) | low(row)


class Structs:
    """Objects of one class, with a column for each of their fields."""

    __slots__ = ("_class", "columns")

    def __init__(self, class_: type, **columns: Column) -> None:
        self._class = class_
        self.columns = columns

    def append(self, value: Any, /) -> None:
        """Add the value of the next row."""
        for name, column in self.columns.items():
            column.append(getattr(value, name))

    def reorder(self, order: Sequence[int], /) -> None:
        """Bring the values into an order of rows."""
        for column in self.columns.values():
            column.reorder(order)

    def reader(self) -> Callable[[Any], Any]:
        """Return a function that returns the value of a row, whose fields are read when needed."""
        read = row_reader(self._class, self.columns)
        return lambda row: read(row.number)


class Objects(Structs):
    """Objects of one class that are compared, and that are in use for longer than their row."""

    __slots__ = ()

    def reader(self) -> Callable[[Any], Any]:
        """Return a function that returns the value of a row."""
        readers = [column.reader() for column in self.columns.values()]
        class_ = self._class
        return lambda row: class_(*[read(row) for read in readers])


def row_reader(class_: type, columns: Mapping[str, Column]) -> Callable[[int], Any]:
    """Return a function that returns a row as an object of a class by its number.

    The fields of the object are read from the columns when they are used, because most rules use
    few of them.
    """
    fields = {name: property(column.reader()) for name, column in columns.items()}
    lazy: Any = type(class_.__name__, (class_,), {"__slots__": ("number",), **fields})
    new, set_number = lazy.__new__, lazy.number.__set__

    def read(number: int) -> Any:
        row = new(lazy)
        set_number(row, number)
        return row

    return read


class References(Numbers):
    """The requests of rows, which share them with other rows and tables."""

    __slots__ = ("_table",)

    def __init__(self, table: EventTable) -> None:
        super().__init__("i")
        self._table = table

    def append(self, value: Any, /) -> None:
        """Add the value of the next row."""
        self.values.append(self._table.number_of(value))

    def reader(self) -> Callable[[Any], Any]:
        """Return a function that returns the value of a row."""
        values, read = self.values, self._table.read
        return lambda row: read(values[row.number])

    def sent_ns(self, number: int) -> int:
        """Return when the request of a row was sent."""
        found: int = self._table.sent_ns.values[self.values[number]]
        return found


class EventTable:
    """The requests of all tables; the rows of a request share it."""

    __slots__ = ("_count", "_events", "_latest", "read", "sent_ns")

    def __init__(self, class_: type, sent_ns: Numbers, **columns: Column) -> None:
        self._events = Structs(class_, sent_ns=sent_ns, **columns)
        self.sent_ns = sent_ns
        self.read = row_reader(class_, self._events.columns)
        self._latest: Any = None
        self._count = 0

    def number_of(self, event: Any) -> int:
        """Return the number of a request; the latest one is known."""
        if event is not self._latest:
            self._events.append(event)
            self._latest = event
            self._count += 1
        return self._count - 1


class PackedRows(Sequence[T]):
    """The rows of a table, which have an event and other fields."""

    __slots__ = ("_class", "_columns", "_count", "_events", "_read")

    def __init__(
        self, class_: type[T], events: References, count: int = 0, /, **columns: Column
    ) -> None:
        self._class = class_
        self._events = events
        self._columns: dict[str, Column] = {"event": events} | columns
        self._count = count
        self._read = row_reader(class_, self._columns)

    def append(self, row: T) -> None:
        """Add a row at the end."""
        for name, column in self._columns.items():
            column.append(getattr(row, name))
        self._count += 1

    def __iadd__(self, rows: Iterable[T]) -> Self:
        """Add rows at the end."""
        for row in rows:
            self.append(row)
        return self

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._count

    @overload
    def __getitem__(self, number: int, /) -> T: ...
    @overload
    def __getitem__(self, number: slice, /) -> list[T]: ...
    def __getitem__(self, number: int | slice, /) -> T | list[T]:
        """Return a row, or the rows of a slice."""
        if isinstance(number, slice):
            return [self._read(each) for each in range(*number.indices(self._count))]
        if not -self._count <= number < self._count:
            raise IndexError(number)
        row: T = self._read(number % self._count)
        return row

    def __iter__(self) -> Iterator[T]:
        """Yield the rows."""
        return map(self._read, range(self._count))

    def sent_ns(self, number: int) -> int:
        """Return when the request of a row was sent."""
        return self._events.sent_ns(number)

    def sort(self) -> None:
        """Bring the rows into the order in which their requests were sent."""
        numbers = range(self._count)
        if not _is_sorted(map(self.sent_ns, numbers)):
            order = array("i", sorted(numbers, key=self.sent_ns))
            for column in self._columns.values():
                column.reorder(order)

    def replaced(self, **columns: Column) -> PackedRows[T]:
        """Return a table with the same rows, except for some columns."""
        return PackedRows(self._class, self._events, self._count, **{**self._columns, **columns})


class View(Sequence[T]):
    """Some rows of a table, by their numbers."""

    __slots__ = ("numbers", "rows")

    def __init__(self, rows: Sequence[T], numbers: Sequence[int]) -> None:
        self.rows = rows
        self.numbers = numbers

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.numbers)

    @overload
    def __getitem__(self, number: int, /) -> T: ...
    @overload
    def __getitem__(self, number: slice, /) -> list[T]: ...
    def __getitem__(self, number: int | slice, /) -> T | list[T]:
        """Return a row, or the rows of a slice."""
        if isinstance(number, slice):
            return [self.rows[each] for each in self.numbers[number]]
        return self.rows[self.numbers[number]]

    def __iter__(self) -> Iterator[T]:
        """Yield the rows."""
        return map(self.rows.__getitem__, self.numbers)

    def sorted_by(self, key: Callable[[T], int]) -> View[T]:
        """Return the rows in the order of a key; rows with equal keys keep their order."""
        keys = array("q", map(key, self))
        if _is_sorted(keys):
            return self
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return View(self.rows, array("i", map(self.numbers.__getitem__, order)))


def grouped(rows: Sequence[T], key: Callable[[T], K | None]) -> dict[K, View[T]]:
    """Return rows by a key, in their order; without those whose key is None."""
    found: dict[K, array[int]] = defaultdict(lambda: array("i"))
    for number, row in enumerate(rows):
        value = key(row)
        if value is not None:
            found[value].append(number)
    return {value: View(rows, numbers) for value, numbers in found.items()}


def _is_sorted(values: Iterable[int]) -> bool:
    return all(earlier <= later for earlier, later in pairwise(values))
