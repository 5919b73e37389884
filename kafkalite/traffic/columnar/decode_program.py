"""Decode programs: tables of numbers, one instruction per row, and the class that writes them.

A program describes the fields of a message from its start to its end, and the buffers that receive
their values. It walks a message once, depth first. `interpreter` runs it.

The rows of an array, a nullable struct and a tagged field occur any number of times in a
message. Each of these is a level: its instances are numbered in order of occurrence, and each of
its buffers has one element per instance. The messages themselves are level 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kafkalite.traffic.columnar.arrays import Ints

# -- instructions ---------------------------------------------------------------------------
# The first two operands are the instruction's kind and the level of the instance; then come:

RUN: Final = 0
"""Adjacent fields of fixed size: their total size; the range of their rows in `fields`."""
COUNTED: Final = 1
"""A string or bytes: the length's encoding, the minimum and maximum length, whether it is text; the
buffers of end positions and of bytes, the counter of bytes, the buffer of validity."""
ROWS: Final = 2
"""An array: the count's encoding, its minimum; the level of the rows, the minimum size of a row;
the buffers of end positions and of validity; the register of remaining rows; the instruction after
an empty array."""
NEXT_ROW: Final = 3
"""After a row of an array, whose level this is: the register; the instruction of the next row."""
NULLABLE: Final = 4
"""A nullable struct: whether it is behind a tag; its level, the buffer of instances; the
instruction after a null."""
TAGS: Final = 5
"""A section of tagged fields: the range of known ones in `tags`; the register of remaining fields,
which is followed by the register of the field's end."""
TAG: Final = 6
"""The next tagged field: the same operands; the instruction after the last field."""
END_TAG: Final = 7
"""After a known tagged field: the register; the instruction of the next field."""
DONE: Final = 8
"""The end of a message."""

SIZE: Final = 10
"""Number of operands of an instruction."""

NO_BUFFER: Final = -1
"""In place of a buffer, for fields that are not requested."""

COMPACT: Final = 0
"""Encoding of a length: an unsigned varint of length + 1; otherwise the size of a number."""

INT8, INT16, UINT16, INT32, INT64, FLAG, UUID = range(7)
"""Kinds of fields."""
_WIDTHS: Final = {INT8: 1, INT16: 2, UINT16: 4, INT32: 4, INT64: 8, FLAG: 1, UUID: 16}
END_WIDTH: Final = 4
_VALIDITY_WIDTH = _BYTE_WIDTH = 1


class Buffer(NamedTuple):
    """Memory for a part of a column: `width` bytes per element that `counter` counts."""

    counter: int
    width: int


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A program for one kind of message."""

    code: Ints
    fields: Ints
    """The requested fields of runs: kind, offset in the run, and buffer."""
    tags: Ints
    """Known tagged fields: the tag, the first instruction, the level, and the buffer of
    instances."""
    registers: int
    counters: int
    """Number of counters: the instances of each level, and the bytes of each buffer of bytes."""
    buffers: tuple[Buffer, ...]
    elements_per_byte: NDArray[np.float64]
    """Elements per byte of messages at the last decode, by counter; decides initial capacities."""


class Array(NamedTuple):
    """An array whose row instructions are being written."""

    at: int
    level: int
    ends: int
    validity: int
    register: int


class Nullable(NamedTuple):
    """A nullable struct or tagged field that is being written."""

    at: int
    level: int
    instance: int


class Section(NamedTuple):
    """A section of tagged fields that is being written."""

    at: int
    level: int
    register: int


@dataclass(slots=True)
class Writer:
    """Writes a program; adjacent fields of fixed size become one instruction."""

    _code: list[list[int]] = field(default_factory=list)
    _fields: list[list[int]] = field(default_factory=list)
    _tags: list[list[int]] = field(default_factory=list)
    _registers: int = 0
    _counters: int = 1
    _buffers: list[Buffer] = field(default_factory=list)
    _run: list[int] = field(default_factory=list)
    """The operands of the current run."""

    def program(self) -> Program:
        """End the program and return it."""
        self._write(DONE, 0)
        return Program(
            _table(self._code, SIZE), _table(self._fields, 3), _table(self._tags, 4),
            self._registers, self._counters, tuple(self._buffers), np.zeros(self._counters),
        )  # fmt: skip

    def fixed(self, level: int, size: int, kind: int | None) -> int:
        """Write a field of fixed size; return its buffer. Without a kind it has no buffer."""
        self._run = self._run or [level, 0, len(self._fields), len(self._fields)]
        offset, self._run[1] = self._run[1], self._run[1] + size
        if kind is None:
            return NO_BUFFER
        buffer = self._buffer(level, _WIDTHS[kind])
        self._fields.append([kind, offset, buffer])
        self._run[3] += 1
        return buffer

    def counted(
        self,
        level: int,
        width: int,
        max_length: int,
        *,
        nullable: bool,
        is_text: bool,
        has_buffer: bool,
    ) -> tuple[int, int, int]:
        """Write a string or bytes; return the buffers of ends, bytes and validity."""
        ends = values = validity = counter = NO_BUFFER
        if has_buffer:
            counter = self._new_counter()
            ends, values = self._buffer(level, END_WIDTH), self._buffer(counter, _BYTE_WIDTH)
            validity = self._buffer(level, _VALIDITY_WIDTH) if nullable else NO_BUFFER
        self._write(
            COUNTED, level, width, -nullable, max_length, is_text, ends, values, counter, validity
        )
        return ends, values, validity

    def begin_rows(
        self, level: int, width: int, row_size: int, *, nullable: bool, has_buffer: bool
    ) -> Array:
        """Begin an array; `row_size` is the minimum size of a row."""
        ends = self._buffer(level, END_WIDTH) if has_buffer else NO_BUFFER
        validity = self._buffer(level, _VALIDITY_WIDTH) if has_buffer and nullable else NO_BUFFER
        rows, register = self._new_counter(), self._register()
        at = self._write(ROWS, level, width, -nullable, rows, row_size, ends, validity, register)
        return Array(at, rows, ends, validity, register)

    def end_rows(self, array: Array) -> None:
        """End an array after the instructions of a row."""
        self._write(NEXT_ROW, array.level, array.register, array.at + 1)
        self._link_to_next(array.at)

    def begin_nullable(self, level: int, *, behind_tag: bool, has_buffer: bool) -> Nullable:
        """Begin a nullable struct."""
        inner, instance = (
            self._new_counter(),
            self._buffer(level, END_WIDTH) if has_buffer else NO_BUFFER,
        )
        return Nullable(self._write(NULLABLE, level, behind_tag, inner, instance), inner, instance)

    def end_nullable(self, nullable: Nullable) -> None:
        """End a nullable struct."""
        self._link_to_next(nullable.at)

    def begin_tags(self, level: int, tags: Mapping[int, bool]) -> tuple[Section, list[Nullable]]:
        """Begin a section of tagged fields; `tags` maps a known tag to whether it has a buffer."""
        register, first = self._register(2), len(self._tags)
        nullables = []
        for tag, has_buffer in tags.items():
            instance = self._buffer(level, END_WIDTH) if has_buffer else NO_BUFFER
            nullables.append(Nullable(len(self._tags), self._new_counter(), instance))
            self._tags.append([tag, 0, nullables[-1].level, instance])
        self._write(TAGS, level, first, len(self._tags), register)
        at = self._write(TAG, level, first, len(self._tags), register)
        return Section(at, level, register), nullables

    def begin_tag(self, offset: Nullable) -> None:
        """Begin a tagged field."""
        self._end_run()
        self._tags[offset.at][1] = len(self._code)

    def end_tag(self, section: Section) -> None:
        """End a tagged field."""
        self._write(END_TAG, section.level, section.register, section.at)

    def end_tags(self, section: Section) -> None:
        """End the section."""
        self._link_to_next(section.at)

    def _new_counter(self) -> int:
        self._counters += 1
        return self._counters - 1

    def _register(self, count: int = 1) -> int:
        self._registers += count
        return self._registers - count

    def _buffer(self, counter: int, width: int) -> int:
        self._buffers.append(Buffer(counter, width))
        return len(self._buffers) - 1

    def _write(self, kind: int, *operands: int) -> int:
        """Write an instruction; return its index."""
        self._end_run()
        self._code.append([kind, *operands, *[0] * (SIZE - 1 - len(operands))])
        return len(self._code) - 1

    def _link_to_next(self, at: int) -> None:
        """Set the last operand of an instruction to the index of the next one."""
        self._end_run()
        self._code[at][-1] = len(self._code)

    def _end_run(self) -> None:
        run, self._run = self._run, []
        if run:
            self._write(RUN, *run)


def _table(rows: Sequence[Sequence[int]], columns: int) -> Ints:
    return np.array(rows, np.int64).reshape(-1, columns)
