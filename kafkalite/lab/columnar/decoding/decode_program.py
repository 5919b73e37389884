"""Decode programs: tables of numbers, one instruction per row, and the class that writes them.

A program describes the fields of a message from its start to its end, and the buffers that receive
their values. The program reads a message once, depth first. `interpreter` runs it.

The rows of an array, a nullable struct and a tagged field occur any number of times in a
message. Each of these is a level: its instances are numbered in order of occurrence, and each of
its buffers has one element per instance. The messages themselves are level 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kafkalite.lab.columnar.arrays import Ints

# -- instructions ---------------------------------------------------------------------------
# The first two operands are the kind of the instruction and the level of its struct. The other
# operands are listed here.

RUN: Final = 0
"""Adjacent fields of fixed size: their total size; the range of their rows in `fields`."""
BYTES: Final = 1
"""A string or bytes: the length's encoding, the minimum and maximum length, whether it is text; the
buffers of end positions and of bytes, the counter of bytes, the buffer of validity."""
ARRAY: Final = 2
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
"""The next tagged field: the operands of TAGS; the instruction after the last field."""
END_TAG: Final = 7
"""After a known tagged field: the register; the instruction of the next field."""
DONE: Final = 8
"""The end of a message."""

INSTRUCTION_SIZE: Final = 10
"""Number of operands of an instruction, including its kind."""

NO_BUFFER: Final = -1
"""In place of a buffer, for fields that are not requested."""

ANY_SIZE: Final = -1
"""In place of the size of a tagged field; sizes are not negative."""

COMPACT: Final = 0
"""Encoding of a length: an unsigned varint of length + 1; otherwise the size of a number."""

INT8, INT16, UINT16, INT32, INT64, FLAG, UUID = range(7)
"""Kinds of fields."""
_WIDTH_BY_KIND: Final = {INT8: 1, INT16: 2, UINT16: 4, INT32: 4, INT64: 8, FLAG: 1, UUID: 16}
END_BYTES: Final = 4
_VALIDITY_BYTES = _BYTE_VALUE_BYTES = 1


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
    """Known tagged fields: the tag, the first instruction, the level, the buffer of instances,
    and the size that the field must have to be known; `ANY_SIZE` for every size."""
    registers: int
    counters: int
    """Number of counters: the instances of each level, and the bytes of each buffer of bytes."""
    buffers: tuple[Buffer, ...]
    elements_per_byte: NDArray[np.float64]
    """By counter: elements per byte of messages in the last decode, for the initial capacities."""


class OpenArray(NamedTuple):
    """An array, while the instructions of its rows are written."""

    row: int
    """Index of its instruction."""
    level: int
    ends: int
    validity: int
    register: int


class OpenOptional(NamedTuple):
    """A nullable struct or a tagged field, while it is written."""

    row: int
    """Index of its instruction, or its row in `Program.tags`."""
    level: int
    instance: int


class KnownTag(NamedTuple):
    """A tagged field of the schema."""

    has_buffer: bool
    size: int
    """The size that the field must have to be known, or `ANY_SIZE`."""


class OpenTagSection(NamedTuple):
    """A section of tagged fields, while it is written."""

    row: int
    level: int
    register: int


@dataclass(slots=True)
class ProgramWriter:
    """Writes a program; adjacent fields of fixed size become one instruction.

    `level` is the level of the struct to which a field belongs.
    """

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
            _to_array(self._code, INSTRUCTION_SIZE), _to_array(self._fields, 3),
            _to_array(self._tags, 5),
            self._registers, self._counters, tuple(self._buffers), np.zeros(self._counters),
        )  # fmt: skip

    def add_fixed_size(self, level: int, size: int, kind: int | None) -> int:
        """Write a field of fixed size; return its buffer, or NO_BUFFER if `kind` is None."""
        self._run = self._run or [level, 0, len(self._fields), len(self._fields)]
        offset, self._run[1] = self._run[1], self._run[1] + size
        if kind is None:
            return NO_BUFFER
        buffer = self._new_buffer(level, _WIDTH_BY_KIND[kind])
        self._fields.append([kind, offset, buffer])
        self._run[3] += 1
        return buffer

    def add_bytes(
        self,
        level: int,
        length_width: int,
        max_length: int,
        *,
        is_nullable: bool,
        is_text: bool,
        has_buffer: bool,
    ) -> tuple[int, int, int]:
        """Write a string or bytes; return the buffers of ends, bytes and validity."""
        ends = values = validity = counter = NO_BUFFER
        if has_buffer:
            counter = self._new_counter()
            ends, values = (
                self._new_buffer(level, END_BYTES),
                self._new_buffer(counter, _BYTE_VALUE_BYTES),
            )
            validity = self._new_buffer(level, _VALIDITY_BYTES) if is_nullable else NO_BUFFER
        self._write(
            BYTES,
            level,
            length_width,
            -is_nullable,
            max_length,
            is_text,
            ends,
            values,
            counter,
            validity,
        )
        return ends, values, validity

    def begin_array(
        self,
        level: int,
        length_width: int,
        min_row_bytes: int,
        *,
        is_nullable: bool,
        has_buffer: bool,
    ) -> OpenArray:
        """Begin an array; `min_row_bytes` is the minimum size of a row."""
        ends = self._new_buffer(level, END_BYTES) if has_buffer else NO_BUFFER
        validity = (
            self._new_buffer(level, _VALIDITY_BYTES) if has_buffer and is_nullable else NO_BUFFER
        )
        rows, register = self._new_counter(), self._new_register()
        row = self._write(
            ARRAY, level, length_width, -is_nullable, rows, min_row_bytes, ends, validity, register
        )
        return OpenArray(row, rows, ends, validity, register)

    def end_array(self, array: OpenArray) -> None:
        """End an array after the instructions of a row."""
        self._write(NEXT_ROW, array.level, array.register, array.row + 1)
        self._set_jump_target(array.row)

    def begin_nullable(self, level: int, *, behind_tag: bool, has_buffer: bool) -> OpenOptional:
        """Begin a nullable struct."""
        inner, instance = (
            self._new_counter(),
            self._new_buffer(level, END_BYTES) if has_buffer else NO_BUFFER,
        )
        return OpenOptional(
            self._write(NULLABLE, level, behind_tag, inner, instance), inner, instance
        )

    def end_nullable(self, nullable: OpenOptional) -> None:
        """End a nullable struct."""
        self._set_jump_target(nullable.row)

    def begin_tags(
        self, level: int, known: Mapping[int, KnownTag]
    ) -> tuple[OpenTagSection, list[OpenOptional]]:
        """Begin a section of tagged fields."""
        register, first = self._new_register(2), len(self._tags)
        tag_fields = []
        for tag, each in known.items():
            instance = self._new_buffer(level, END_BYTES) if each.has_buffer else NO_BUFFER
            tag_fields.append(OpenOptional(len(self._tags), self._new_counter(), instance))
            self._tags.append([tag, 0, tag_fields[-1].level, instance, each.size])
        self._write(TAGS, level, first, len(self._tags), register)
        row = self._write(TAG, level, first, len(self._tags), register)
        return OpenTagSection(row, level, register), tag_fields

    def begin_tag(self, tag_field: OpenOptional) -> None:
        """Begin a tagged field."""
        self._end_run()
        self._tags[tag_field.row][1] = len(self._code)

    def end_tag(self, section: OpenTagSection) -> None:
        """End a tagged field."""
        self._write(END_TAG, section.level, section.register, section.row)

    def end_tags(self, section: OpenTagSection) -> None:
        """End the section."""
        self._set_jump_target(section.row)

    def _new_counter(self) -> int:
        self._counters += 1
        return self._counters - 1

    def _new_register(self, count: int = 1) -> int:
        self._registers += count
        return self._registers - count

    def _new_buffer(self, counter: int, length_width: int) -> int:
        self._buffers.append(Buffer(counter, length_width))
        return len(self._buffers) - 1

    def _write(self, kind: int, *operands: int) -> int:
        """Write an instruction; return its index."""
        self._end_run()
        self._code.append([kind, *operands, *[0] * (INSTRUCTION_SIZE - 1 - len(operands))])
        return len(self._code) - 1

    def _set_jump_target(self, row: int) -> None:
        """Set the last operand of an instruction to the index of the next instruction."""
        self._end_run()
        self._code[row][-1] = len(self._code)

    def _end_run(self) -> None:
        run, self._run = self._run, []
        if run:
            self._write(RUN, *run)


def _to_array(rows: Sequence[Sequence[int]], columns: int) -> Ints:
    return np.array(rows, np.int64).reshape(-1, columns)
