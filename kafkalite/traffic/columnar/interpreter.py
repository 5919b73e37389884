"""The interpreter of decode programs: a compiled loop that writes messages into column buffers.

It neither fails nor loops forever on malformed bytes. A malformed message leaves nothing in the
buffers. If a buffer is full, the loop stops before the current message. It is restarted there with
a larger buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kafkalite.traffic.columnar.arrays import sealed
from kafkalite.traffic.columnar.column_buffers import ColumnMemory
from kafkalite.traffic.columnar.decode_program import (
    COUNTED,
    END_TAG,
    FLAG,
    INT8,
    INT16,
    INT32,
    INT64,
    NEXT_ROW,
    NO_BUFFER,
    NULLABLE,
    ROWS,
    RUN,
    TAG,
    TAGS,
    UINT16,
)
from kafkalite.traffic.columnar.kernels import (
    kernel,
    peek_64,
    peek_i16,
    peek_i32,
    peek_u8,
    peek_u16,
    piece,
)
from kafkalite.traffic.columnar.primitives import (
    INCOMPLETE,
    ONE_BYTE,
    OVERFLOW,
    is_text,
    length_at,
    varint,
)

if TYPE_CHECKING:
    from kafkalite.traffic.columnar.arrays import Bytes, Ints
    from kafkalite.traffic.columnar.column_buffers import Buffers
    from kafkalite.traffic.columnar.decode_program import Program

_VALID, _ENDS, _TOO_LONG, _NULL, _LONG, _TAG, _TEXT = range(7)
REASONS: Final = {
    _ENDS: "the frame ends inside a field",
    _TOO_LONG: "a length exceeds the frame",
    _NULL: "null or a negative length where none is allowed",
    _LONG: "a string is longer than 32767 bytes",
    _TAG: "a tagged field differs from its declared size",
    _TEXT: "text is not UTF-8",
}
"""Verdict → reason why a message is malformed."""

_AT, _END, _VERDICT, _COUNTER, _NEED, _UNKNOWN_TAGS, _REGISTERS = range(7)
"""The state of a walk: the position, and the end of the message; the verdict; the counter that
needs more capacity, and how much; the number of unknown tags; then the program's registers."""
_STOP: Final = -1
"""Index of the next instruction if the walk ends."""

_UUID: Final = 16


class Walked(NamedTuple):
    """The result of a walk over messages."""

    memory: ColumnMemory
    verdicts: Ints
    """Per message 0 or a key of `REASONS`; a malformed message is not in the memory."""
    unknown_tags: int
    """Number of skipped tagged fields."""


def walk_messages(program: Program, data: Bytes, starts: Ints, ends: Ints) -> Walked:
    """Walk messages; a negative start marks a missing message."""
    data, verdicts = sealed(data), np.empty(len(starts), np.int64)
    memory = ColumnMemory(program, len(starts), len(data))
    state = np.zeros(_REGISTERS + program.registers, np.int64)
    before = np.empty(program.counters, np.int64)
    row = unknown_tags = 0
    while True:
        row, unknown = walk(
            data, starts, ends, row, program.code, program.fields, program.tags, state,
            memory.buffers(), before, verdicts,
        )  # fmt: skip
        unknown_tags += unknown
        if row == len(starts):
            program.elements_per_byte[:] = memory.sizes / max(len(data), 1)
            return Walked(memory, verdicts, unknown_tags)
        memory.grow(int(state[_COUNTER]), int(state[_NEED]))


# -- kernels: those of instructions return the next instruction -------------------------------


@kernel
def walk(  # noqa: PLR0917
    data: Bytes,
    starts: Ints,
    ends: Ints,
    row: int,
    code: Ints,
    fields: Ints,
    tags: Ints,
    state: Ints,
    into: Buffers,
    before: Ints,
    verdicts: Ints,
) -> tuple[int, int]:
    """Walk messages from `row` on, until a buffer is full.

    Returns the next row, and the number of skipped tagged fields. If a buffer is full, the state
    has its counter and the needed capacity.
    """
    unknown = 0
    sizes = into.sizes
    state[_NEED] = 0
    while row < len(starts):
        state[_AT], state[_END], state[_UNKNOWN_TAGS] = starts[row], ends[row], 0
        is_present = 0 <= starts[row] <= ends[row] <= len(data)
        state[_VERDICT] = _VALID if is_present else _ENDS
        for counter in range(len(sizes)):
            before[counter] = sizes[counter]
        sizes[0] += 1
        pc = 0 if is_present else _STOP
        while pc >= 0:
            pc = _step(data, code, fields, tags, state, into, pc)
        if state[_VERDICT] == _VALID and state[_NEED] == 0:
            unknown += state[_UNKNOWN_TAGS]
        else:
            for counter in range(len(sizes)):
                sizes[counter] = before[counter]
        if state[_NEED]:
            break
        verdicts[row] = state[_VERDICT]
        row += 1
    return row, unknown


@piece
def _step(  # noqa: PLR0911, PLR0917
    data: Bytes, code: Ints, fields: Ints, tags: Ints, state: Ints, into: Buffers, pc: int
) -> int:
    kind = code[pc, 0]
    if kind == RUN:
        return _run(data, code, fields, state, into, pc)
    if kind == COUNTED:
        return _counted(data, code, state, into, pc)
    if kind == TAGS:
        return _tags(data, code, tags, state, into, pc)
    if kind == TAG:
        return _tag(data, code, tags, state, into, pc)
    if kind == ROWS:
        return _rows(data, code, state, into, pc)
    if kind == NEXT_ROW:
        return _next_row(code, state, into, pc)
    if kind == NULLABLE:
        return _nullable(data, code, state, into, pc)
    if kind == END_TAG:
        is_right = state[_AT] == state[_REGISTERS + code[pc, 2] + 1]
        return _to(code, pc, 3) if is_right else _refuse(state, _TAG)
    return _STOP


@kernel
def _to(table: Ints, row: int, column: int) -> int:
    """Return the instruction in a column of a table's row."""
    there: int = table[row, column]
    return there


@kernel
def _refuse(state: Ints, verdict: int) -> int:
    """End the walk over a malformed message."""
    state[_VERDICT] = verdict
    return _STOP


@kernel
def _request_capacity(state: Ints, counter: int, need: int) -> int:
    """End the walk because a buffer is full."""
    state[_COUNTER], state[_NEED] = counter, need
    return _STOP


@piece
def _run(  # noqa: PLR0917
    data: Bytes, code: Ints, fields: Ints, state: Ints, into: Buffers, pc: int
) -> int:
    at, size = state[_AT], code[pc, 2]
    if at + size > state[_END]:
        return _refuse(state, _ENDS)
    number = into.sizes[code[pc, 1]] - 1
    for nth in range(code[pc, 3], code[pc, 4]):
        kind, position = fields[nth, 0], at + fields[nth, 1]
        to = into.bases[fields[nth, 2]] + number
        if kind == INT32:
            into.n4[to] = peek_i32(data, position)
        elif kind == INT64:
            into.n8[to] = peek_64(data, position)
        elif kind == INT16:
            into.n2[to] = peek_i16(data, position)
        elif kind == INT8:
            into.n1[to] = peek_u8(data, position)
        elif kind == FLAG:
            into.n1[to] = peek_u8(data, position) != 0
        elif kind == UINT16:
            into.n4[to] = peek_u16(data, position)
        else:
            for byte in range(_UUID):
                into.n1[to * _UUID + byte] = peek_u8(data, position + byte)
    state[_AT] = at + size
    return pc + 1


@piece
def _counted(data: Bytes, code: Ints, state: Ints, into: Buffers, pc: int) -> int:
    end, sizes = state[_END], into.sizes
    length, at = length_at(data, state[_AT], end, code[pc, 2])
    verdict = _check_length(length, at, end, code[pc, 3])
    if verdict == _VALID and length > code[pc, 4]:
        verdict = _LONG
    if verdict != _VALID:
        return _refuse(state, verdict)
    stop = at + max(length, 0)
    if code[pc, 6] != NO_BUFFER:
        number, counter = sizes[code[pc, 1]] - 1, code[pc, 8]
        used = sizes[counter] + stop - at
        if used > into.capacities[counter]:
            return _request_capacity(state, counter, used)
        to = into.bases[code[pc, 7]] + used - stop
        all_bits = _copy(data, at, stop, into.n1, to)
        if code[pc, 5] and all_bits >= ONE_BYTE and not is_text(data, at, stop):
            return _refuse(state, _TEXT)
        sizes[counter] = used
        into.n4[into.bases[code[pc, 6]] + number + 1] = used
        if code[pc, 9] != NO_BUFFER:
            into.n1[into.bases[code[pc, 9]] + number] = length >= 0
    state[_AT] = stop
    return pc + 1


@kernel
def _copy(data: Bytes, start: int, stop: int, to: Bytes, shift: int) -> int:
    """Copy bytes to their position plus `shift`; return the bitwise or of all bytes."""
    all_bits = 0
    for position in range(start, stop):
        byte = peek_u8(data, position)
        to[np.uint64(position + shift)] = byte
        all_bits |= byte
    return all_bits


@kernel
def _check_length(length: int, at: int, end: int, min_length: int) -> int:
    """Return the verdict on a length; `at` is the position after it."""
    if at < 0:
        return _ENDS
    if length < min_length:
        return _NULL
    return _TOO_LONG if length > end - at else _VALID


@piece
def _rows(data: Bytes, code: Ints, state: Ints, into: Buffers, pc: int) -> int:
    end, sizes, counter = state[_END], into.sizes, code[pc, 4]
    count, at = length_at(data, state[_AT], end, code[pc, 2])
    verdict = _check_length(count, at, end, code[pc, 3])
    if verdict == _VALID and count * code[pc, 5] > end - at:
        verdict = _TOO_LONG
    if verdict != _VALID:
        return _refuse(state, verdict)
    number, rows = sizes[code[pc, 1]] - 1, max(count, 0)
    if sizes[counter] + rows > into.capacities[counter]:
        return _request_capacity(state, counter, sizes[counter] + rows)
    if code[pc, 6] != NO_BUFFER:
        into.n4[into.bases[code[pc, 6]] + number + 1] = sizes[counter] + rows
    if code[pc, 7] != NO_BUFFER:
        into.n1[into.bases[code[pc, 7]] + number] = count >= 0
    state[_AT] = at
    if rows == 0:
        return _to(code, pc, 9)
    state[_REGISTERS + code[pc, 8]] = rows
    sizes[counter] += 1
    return pc + 1


@piece
def _next_row(code: Ints, state: Ints, into: Buffers, pc: int) -> int:
    register = _REGISTERS + code[pc, 2]
    state[register] -= 1
    if state[register] == 0:
        return pc + 1
    into.sizes[code[pc, 1]] += 1
    return _to(code, pc, 3)


@kernel
def _nullable(data: Bytes, code: Ints, state: Ints, into: Buffers, pc: int) -> int:
    end, at, sizes, counter = state[_END], state[_AT], into.sizes, code[pc, 3]
    if code[pc, 2]:
        mark, at = varint(data, at, end)
        is_present = mark != 0
    else:
        mark = peek_u8(data, at) if at < end else 0
        at = at + 1 if at < end else INCOMPLETE
        is_present = mark < ONE_BYTE  # the sign bit is 0
    if at < 0 or mark == OVERFLOW:
        return _refuse(state, _ENDS)
    if is_present and sizes[counter] == into.capacities[counter]:
        return _request_capacity(state, counter, sizes[counter] + 1)
    if code[pc, 4] != NO_BUFFER:
        position = into.bases[code[pc, 4]] + sizes[code[pc, 1]] - 1
        into.n4[position] = sizes[counter] if is_present else -1
    state[_AT] = at
    sizes[counter] += is_present
    return pc + 1 if is_present else _to(code, pc, 9)


@piece
def _tags(  # noqa: PLR0917
    data: Bytes, code: Ints, tags: Ints, state: Ints, into: Buffers, pc: int
) -> int:
    count, at = varint(data, state[_AT], state[_END])
    if at < 0 or count == OVERFLOW:
        return _refuse(state, _ENDS)
    for nth in range(code[pc, 2], code[pc, 3]):
        if tags[nth, 3] != NO_BUFFER:
            into.n4[into.bases[tags[nth, 3]] + into.sizes[code[pc, 1]] - 1] = -1
    state[_AT], state[_REGISTERS + code[pc, 4]] = at, count
    return pc + 1 if count else _to(code, pc + 1, 9)


@kernel
def _tag(  # noqa: PLR0917
    data: Bytes, code: Ints, tags: Ints, state: Ints, into: Buffers, pc: int
) -> int:
    end, sizes, register = state[_END], into.sizes, _REGISTERS + code[pc, 4]
    if state[register] == 0:
        return _to(code, pc, 9)
    state[register] -= 1
    tag, at = varint(data, state[_AT], end)
    size, at = varint(data, at, end) if at >= 0 else (0, at)
    if at < 0:
        return _refuse(state, _ENDS)
    if size > end - at or tag == OVERFLOW:
        return _refuse(state, _TOO_LONG)
    for nth in range(code[pc, 2], code[pc, 3]):
        if tags[nth, 0] == tag:
            counter = tags[nth, 2]
            if sizes[counter] == into.capacities[counter]:
                return _request_capacity(state, counter, sizes[counter] + 1)
            if tags[nth, 3] != NO_BUFFER:
                into.n4[into.bases[tags[nth, 3]] + sizes[code[pc, 1]] - 1] = sizes[counter]
            sizes[counter] += 1
            state[_AT], state[register + 1] = at, at + size
            return _to(tags, nth, 1)
    state[_AT] = at + size
    state[_UNKNOWN_TAGS] += 1
    return pc
