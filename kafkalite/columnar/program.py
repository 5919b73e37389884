"""The programs that `walk` runs: tables of numbers, an instruction a row, and how they are written.

A program says how to get from the start of a message to its end, and which buffers get what
stands on the way. It goes through a message once, and depth first.

Everything that a message may hold more or less than once (the rows of an array, a struct that
may be null, a field behind a tag) is a level: its instances are numbered as they are met, and
each of its buffers has a place for each of them. The messages themselves are level 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kafkalite.columnar.arrays import Ints

# -- instructions ---------------------------------------------------------------------------
# Each begins with its kind and the level whose instance it is about; then come:

RUN: Final = 0
"""Neighbours of fixed size: their size together; their first field, and behind their last."""
COUNTED: Final = 1
"""A string or bytes: how its length is written, the least and the most it may be, whether it is
text; the buffers of where it ends, of its bytes, what counts these, and of whether it is there."""
ROWS: Final = 2
"""An array: how its count is written, the least that may be; the level of its rows, the least
size of one; the buffers of where it ends and of whether it is there; the register for how many
are left; where to go on where there are none."""
AGAIN: Final = 3
"""Behind a row of an array, whose level this is: the register; where to go for the next one."""
MAYBE: Final = 4
"""A struct that may be null: whether it is behind a tag; its level, the buffer of which one it is;
where to go on where it is null."""
TAGS: Final = 5
"""A section of tagged fields: the first that is known, and behind the last; the register for how
many are left, behind which is that for where one ends."""
TAG: Final = 6
"""One more of them: the same, and where to go on behind the last one."""
TAGGED: Final = 7
"""Behind one that is known: the register, and where to go for the next one."""
DONE: Final = 8
"""The end of a message."""

SIZE: Final = 10
"""How many numbers an instruction has."""

UNKEPT: Final = -1
"""In place of a buffer: nobody asks for it."""

COMPACT: Final = 0
"""How a length is written: as a varint, one more than it; otherwise a number of so many bytes."""

INT8, INT16, UINT16, INT32, INT64, FLAG, UUID = range(7)
"""Kinds of fields."""
_WIDTHS: Final = {INT8: 1, INT16: 2, UINT16: 4, INT32: 4, INT64: 8, FLAG: 1, UUID: 16}
END_WIDTH: Final = 4
_MARK_WIDTH = _BYTE_WIDTH = 1


class Buffer(NamedTuple):
    """Memory for a part of a column: `width` bytes for each thing that `store` counts."""

    store: int
    width: int


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """How to walk one kind of message."""

    code: Ints
    fields: Ints
    """What is kept of runs: of each field its kind, its place in the run, and its buffer."""
    tags: Ints
    """Tagged fields that are known: the tag, where its instructions begin, its level, and the
    buffer of which instance it is."""
    registers: int
    stores: int
    """How many things are counted: the instances of each level, and the bytes of each buffer of
    such."""
    buffers: tuple[Buffer, ...]
    usual: NDArray[np.float64]
    """How much of each there was for a byte of messages, the last time: it is made room for."""


class Array(NamedTuple):
    """An array whose rows are being written."""

    at: int
    level: int
    ends: int
    marks: int
    register: int


class Maybe(NamedTuple):
    """A struct that may be null, while it is being written."""

    at: int
    level: int
    which: int


class Section(NamedTuple):
    """A section of tagged fields that is being written."""

    at: int
    level: int
    register: int


@dataclass(slots=True)
class Writer:
    """Writes a program, instruction by instruction; neighbours of fixed size grow together."""

    _code: list[list[int]] = field(default_factory=list)
    _fields: list[list[int]] = field(default_factory=list)
    _tags: list[list[int]] = field(default_factory=list)
    _registers: int = 0
    _stores: int = 1
    _buffers: list[Buffer] = field(default_factory=list)
    _run: list[int] = field(default_factory=list)
    """The operands of a run that may grow."""

    def program(self) -> Program:
        """End the program, and return it."""
        self._write(DONE, 0)
        return Program(
            _table(self._code, SIZE), _table(self._fields, 3), _table(self._tags, 4),
            self._registers, self._stores, tuple(self._buffers), np.zeros(self._stores),
        )  # fmt: skip

    def fixed(self, level: int, size: int, kind: int | None) -> int:
        """Write a field of fixed size; its buffer, if it has a kind: then it is kept."""
        self._run = self._run or [level, 0, len(self._fields), len(self._fields)]
        place, self._run[1] = self._run[1], self._run[1] + size
        if kind is None:
            return UNKEPT
        buffer = self._buffer(level, _WIDTHS[kind])
        self._fields.append([kind, place, buffer])
        self._run[3] += 1
        return buffer

    def counted(
        self, level: int, width: int, most: int, *, nullable: bool, is_text: bool, is_kept: bool
    ) -> tuple[int, int, int]:
        """Write a string or bytes; the buffers of its ends, its bytes, and of what is there."""
        ends = held = marks = store = UNKEPT
        if is_kept:
            store = self._store()
            ends, held = self._buffer(level, END_WIDTH), self._buffer(store, _BYTE_WIDTH)
            marks = self._buffer(level, _MARK_WIDTH) if nullable else UNKEPT
        self._write(COUNTED, level, width, -nullable, most, is_text, ends, held, store, marks)
        return ends, held, marks

    def begin_rows(
        self, level: int, width: int, row_size: int, *, nullable: bool, is_kept: bool
    ) -> Array:
        """Begin an array, the least size of whose rows is known."""
        ends = self._buffer(level, END_WIDTH) if is_kept else UNKEPT
        marks = self._buffer(level, _MARK_WIDTH) if is_kept and nullable else UNKEPT
        rows, register = self._store(), self._register()
        at = self._write(ROWS, level, width, -nullable, rows, row_size, ends, marks, register)
        return Array(at, rows, ends, marks, register)

    def end_rows(self, array: Array) -> None:
        """End it behind a row."""
        self._write(AGAIN, array.level, array.register, array.at + 1)
        self._go_on(array.at)

    def begin_maybe(self, level: int, *, behind_tag: bool, is_kept: bool) -> Maybe:
        """Begin a struct that may be null."""
        inner, which = self._store(), self._buffer(level, END_WIDTH) if is_kept else UNKEPT
        return Maybe(self._write(MAYBE, level, behind_tag, inner, which), inner, which)

    def end_maybe(self, maybe: Maybe) -> None:
        """End it behind what may not be there."""
        self._go_on(maybe.at)

    def begin_tags(self, level: int, tags: Mapping[int, bool]) -> tuple[Section, list[Maybe]]:
        """Begin a section of tagged fields, of which some are known, and of those some kept."""
        register, first = self._register(2), len(self._tags)
        places = []
        for tag, is_kept in tags.items():
            which = self._buffer(level, END_WIDTH) if is_kept else UNKEPT
            places.append(Maybe(len(self._tags), self._store(), which))
            self._tags.append([tag, 0, places[-1].level, which])
        self._write(TAGS, level, first, len(self._tags), register)
        at = self._write(TAG, level, first, len(self._tags), register)
        return Section(at, level, register), places

    def begin_tag(self, place: Maybe) -> None:
        """Begin one of them."""
        self._end_run()
        self._tags[place.at][1] = len(self._code)

    def end_tag(self, section: Section) -> None:
        """End it."""
        self._write(TAGGED, section.level, section.register, section.at)

    def end_tags(self, section: Section) -> None:
        """End the section."""
        self._go_on(section.at)

    def _store(self) -> int:
        self._stores += 1
        return self._stores - 1

    def _register(self, count: int = 1) -> int:
        self._registers += count
        return self._registers - count

    def _buffer(self, store: int, width: int) -> int:
        self._buffers.append(Buffer(store, width))
        return len(self._buffers) - 1

    def _write(self, kind: int, *operands: int) -> int:
        """Write an instruction; return where it is."""
        self._end_run()
        self._code.append([kind, *operands, *[0] * (SIZE - 1 - len(operands))])
        return len(self._code) - 1

    def _go_on(self, at: int) -> None:
        """Let an instruction that was written before lead to the next one."""
        self._end_run()
        self._code[at][-1] = len(self._code)

    def _end_run(self) -> None:
        run, self._run = self._run, []
        if run:
            self._write(RUN, *run)


def _table(rows: Sequence[Sequence[int]], columns: int) -> Ints:
    return np.array(rows, np.int64).reshape(-1, columns)
