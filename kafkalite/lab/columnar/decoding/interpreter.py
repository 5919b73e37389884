"""The interpreter of decode programs: a compiled loop that writes messages into column buffers.

Malformed bytes cause no exception and no endless loop. A malformed message leaves nothing in the
buffers. If a buffer is full, the loop stops before the current message. It is restarted there with
a larger buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.lab.columnar.arrays import read_only
from kafkalite.lab.columnar.decoding.column_buffers import ColumnMemory
from kafkalite.lab.columnar.decoding.decode_program import (
    ARRAY,
    BYTES,
    END_TAG,
    FLAG,
    INT8,
    INT16,
    INT32,
    INT64,
    NEXT_ROW,
    NO_BUFFER,
    NULLABLE,
    RUN,
    TAG,
    TAGS,
    UINT16,
)
from kafkalite.lab.columnar.decoding.primitives import (
    HIGH_BIT,
    INCOMPLETE,
    OVERFLOW,
    is_utf8,
    read_length,
    read_varint,
)
from kafkalite.lab.columnar.kernels import (
    inlined,
    interpreted_as,
    kernel,
    peek_i16,
    peek_i32,
    peek_i64,
    peek_u8,
    peek_u16,
)
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.codec_helpers import MAX_TAGGED_FIELDS

if TYPE_CHECKING:
    from kafkalite.lab.columnar.arrays import Bytes, Ints
    from kafkalite.lab.columnar.decoding.column_buffers import Buffers
    from kafkalite.lab.columnar.decoding.decode_program import Program

(
    _VALID,
    _FRAME_ENDS,
    _LENGTH_EXCEEDS_FRAME,
    _UNEXPECTED_NULL,
    _STRING_TOO_LONG,
    _TAG_SIZE_DIFFERS,
    _NOT_UTF8,
    _TOO_MANY_TAGS,
) = range(8)
REASONS: Final = {
    _FRAME_ENDS: "the frame ends inside a field",
    _LENGTH_EXCEEDS_FRAME: "a length exceeds the frame",
    _UNEXPECTED_NULL: "null or a negative length where none is allowed",
    _STRING_TOO_LONG: "a string is longer than 32767 bytes",
    _TAG_SIZE_DIFFERS: "a tagged field differs from its declared size",
    _NOT_UTF8: "text is not UTF-8",
    _TOO_MANY_TAGS: f"a struct has more than {MAX_TAGGED_FIELDS} tagged fields",
}
"""Verdict → reason why a message is malformed."""

_POSITION, _END, _VERDICT, _FULL_COUNTER, _NEEDED_CAPACITY, _UNKNOWN_TAGS, _REGISTERS = range(7)
"""Indexes in the state of a walk: the position in the message, and its end; the verdict; the
counter of a full buffer, and the capacity that it needs; the number of unknown tags; the first
register of the program."""
_STOP: Final = -1
"""Index of the next instruction if the walk ends."""

_UUID_BYTES: Final = 16


class WalkResult(NamedTuple):
    """The result of a walk over messages."""

    memory: ColumnMemory
    verdicts: Ints
    """By message: 0, or a key of `REASONS` for a malformed message, which is not in the memory."""
    unknown_tags: int
    """Number of skipped tagged fields."""


def walk_messages(program: Program, data: Bytes, starts: Ints, ends: Ints) -> WalkResult:
    """Walk messages; a negative start marks a missing message."""
    data, verdicts = read_only(data), np.empty(len(starts), np.int64)
    memory = ColumnMemory(program, len(starts), len(data))
    state = np.zeros(_REGISTERS + program.registers, np.int64)
    sizes_before = np.empty(program.counters, np.int64)
    row = unknown_tags = 0
    while True:
        row, unknown = walk(
            data, starts, ends, row, program.code, program.fields, program.tags, state,
            memory.buffers(), sizes_before, verdicts,
        )  # fmt: skip
        unknown_tags += unknown
        if row == len(starts):
            program.elements_per_byte[:] = memory.sizes / max(len(data), 1)
            return WalkResult(memory, verdicts, unknown_tags)
        memory.grow(int(state[_FULL_COUNTER]), int(state[_NEEDED_CAPACITY]))


# -- kernels: those of instructions return the index of the next instruction ----------------
# `code[pc]` has the operands of an instruction, in the order that `decode_program` lists.


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
    buffers: Buffers,
    sizes_before: Ints,
    verdicts: Ints,
) -> tuple[int, int]:
    """Walk messages from `row` on, until a buffer is full.

    Returns the next row, and the number of skipped tagged fields. If a buffer is full, the state
    has its counter and the needed capacity.
    """
    unknown = 0
    sizes = buffers.sizes
    state[_NEEDED_CAPACITY] = 0
    while row < len(starts):
        state[_POSITION], state[_END], state[_UNKNOWN_TAGS] = starts[row], ends[row], 0
        is_present = 0 <= starts[row] <= ends[row] <= len(data)
        state[_VERDICT] = _VALID if is_present else _FRAME_ENDS
        for counter in range(len(sizes)):
            sizes_before[counter] = sizes[counter]
        sizes[0] += 1
        pc = 0 if is_present else _STOP
        while pc >= 0:
            pc = _step(data, code, fields, tags, state, buffers, pc)
        if state[_VERDICT] == _VALID and state[_NEEDED_CAPACITY] == 0:
            unknown += state[_UNKNOWN_TAGS]
        else:
            for counter in range(len(sizes)):
                sizes[counter] = sizes_before[counter]
        if state[_NEEDED_CAPACITY]:
            break
        verdicts[row] = state[_VERDICT]
        row += 1
    return row, unknown


@inlined
def _step(  # noqa: PLR0911, PLR0917
    data: Bytes, code: Ints, fields: Ints, tags: Ints, state: Ints, buffers: Buffers, pc: int
) -> int:
    kind = code[pc, 0]
    if kind == RUN:
        return _fixed_size_fields(data, code, fields, state, buffers, pc)
    if kind == BYTES:
        return _length_prefixed(data, code, state, buffers, pc)
    if kind == TAGS:
        return _tags(data, code, tags, state, buffers, pc)
    if kind == TAG:
        return _tag(data, code, tags, state, buffers, pc)
    if kind == ARRAY:
        return _rows(data, code, state, buffers, pc)
    if kind == NEXT_ROW:
        return _next_row(code, state, buffers, pc)
    if kind == NULLABLE:
        return _nullable(data, code, state, buffers, pc)
    if kind == END_TAG:
        has_declared_size = state[_POSITION] == state[_REGISTERS + code[pc, 2] + 1]
        return (
            _instruction_at(code, pc, 3) if has_declared_size else _reject(state, _TAG_SIZE_DIFFERS)
        )
    return _STOP


@kernel
def _instruction_at(table: Ints, row: int, column: int) -> int:
    """Return the index of an instruction, which is stored in a row and column of a table."""
    instruction: int = table[row, column]
    return instruction


@kernel
def _reject(state: Ints, verdict: int) -> int:
    """End the walk over a malformed message."""
    state[_VERDICT] = verdict
    return _STOP


@kernel
def _request_capacity(state: Ints, counter: int, needed: int) -> int:
    """End the walk because a buffer is full."""
    state[_FULL_COUNTER], state[_NEEDED_CAPACITY] = counter, needed
    return _STOP


@inlined
def _fixed_size_fields(  # noqa: PLR0917
    data: Bytes, code: Ints, fields: Ints, state: Ints, buffers: Buffers, pc: int
) -> int:
    at, size = state[_POSITION], code[pc, 2]
    if at + size > state[_END]:
        return _reject(state, _FRAME_ENDS)
    number = buffers.sizes[code[pc, 1]] - 1
    for index in range(code[pc, 3], code[pc, 4]):
        kind, position = fields[index, 0], at + fields[index, 1]
        target = buffers.bases[fields[index, 2]] + number
        if kind == INT32:
            buffers.i32[target] = peek_i32(data, position)
        elif kind == INT64:
            buffers.i64[target] = peek_i64(data, position)
        elif kind == INT16:
            buffers.i16[target] = peek_i16(data, position)
        elif kind == INT8:
            buffers.u8[target] = peek_u8(data, position)
        elif kind == FLAG:
            buffers.u8[target] = peek_u8(data, position) != 0
        elif kind == UINT16:
            buffers.i32[target] = peek_u16(data, position)
        else:
            for byte in range(_UUID_BYTES):
                buffers.u8[target * _UUID_BYTES + byte] = peek_u8(data, position + byte)
    state[_POSITION] = at + size
    return pc + 1


@inlined
def _length_prefixed(data: Bytes, code: Ints, state: Ints, buffers: Buffers, pc: int) -> int:
    end, sizes = state[_END], buffers.sizes
    length, at = read_length(data, state[_POSITION], end, code[pc, 2])
    verdict = _check_length(length, at, end, code[pc, 3])
    if verdict == _VALID and length > code[pc, 4]:
        verdict = _STRING_TOO_LONG
    if verdict != _VALID:
        return _reject(state, verdict)
    stop = at + max(length, 0)
    if code[pc, 6] != NO_BUFFER:
        number, counter = sizes[code[pc, 1]] - 1, code[pc, 8]
        used = sizes[counter] + stop - at
        if used > buffers.capacities[counter]:
            return _request_capacity(state, counter, used)
        shift = buffers.bases[code[pc, 7]] + used - stop
        all_bits = _copy(data, at, stop, buffers.u8, shift)
        if code[pc, 5] and all_bits >= HIGH_BIT and not is_utf8(data, at, stop):
            return _reject(state, _NOT_UTF8)
        sizes[counter] = used
        buffers.i32[buffers.bases[code[pc, 6]] + number + 1] = used
        if code[pc, 9] != NO_BUFFER:
            buffers.u8[buffers.bases[code[pc, 9]] + number] = length >= 0
    state[_POSITION] = stop
    return pc + 1


@kernel
def _copy(data: Bytes, start: int, stop: int, target: Bytes, shift: int) -> int:
    """Copy bytes to their position plus `shift`; return the bitwise or of all bytes."""
    all_bits = 0
    for position in range(start, stop):
        byte = peek_u8(data, position)
        target[np.uint64(position + shift)] = byte
        all_bits |= byte
    return all_bits


@interpreted_as(_copy)
def _copy_slice(data: Bytes, start: int, stop: int, target: Bytes, shift: int) -> int:
    copied = data[start:stop]
    target[start + shift : stop + shift] = copied
    return int(np.bitwise_or.reduce(copied))


@kernel
def _check_length(length: int, at: int, end: int, min_length: int) -> int:
    """Return the verdict on a length; `at` is the position after it."""
    if at < 0:
        return _FRAME_ENDS
    if length < min_length:
        return _UNEXPECTED_NULL
    return _LENGTH_EXCEEDS_FRAME if length > end - at else _VALID


@inlined
def _rows(data: Bytes, code: Ints, state: Ints, buffers: Buffers, pc: int) -> int:
    end, sizes, counter = state[_END], buffers.sizes, code[pc, 4]
    count, at = read_length(data, state[_POSITION], end, code[pc, 2])
    verdict = _check_length(count, at, end, code[pc, 3])
    if verdict == _VALID and count * code[pc, 5] > end - at:
        verdict = _LENGTH_EXCEEDS_FRAME
    if verdict != _VALID:
        return _reject(state, verdict)
    number, rows = sizes[code[pc, 1]] - 1, max(count, 0)
    if sizes[counter] + rows > buffers.capacities[counter]:
        return _request_capacity(state, counter, sizes[counter] + rows)
    if code[pc, 6] != NO_BUFFER:
        buffers.i32[buffers.bases[code[pc, 6]] + number + 1] = sizes[counter] + rows
    if code[pc, 7] != NO_BUFFER:
        buffers.u8[buffers.bases[code[pc, 7]] + number] = count >= 0
    state[_POSITION] = at
    if rows == 0:
        return _instruction_at(code, pc, 9)
    state[_REGISTERS + code[pc, 8]] = rows
    sizes[counter] += 1
    return pc + 1


@inlined
def _next_row(code: Ints, state: Ints, buffers: Buffers, pc: int) -> int:
    register = _REGISTERS + code[pc, 2]
    state[register] -= 1
    if state[register] == 0:
        return pc + 1
    buffers.sizes[code[pc, 1]] += 1
    return _instruction_at(code, pc, 3)


@kernel
def _nullable(data: Bytes, code: Ints, state: Ints, buffers: Buffers, pc: int) -> int:
    end, at, sizes, counter = state[_END], state[_POSITION], buffers.sizes, code[pc, 3]
    if code[pc, 2]:
        marker, at = read_varint(data, at, end)
        is_present = marker != 0
    else:
        marker = peek_u8(data, at) if at < end else 0
        at = at + 1 if at < end else INCOMPLETE
        is_present = marker < HIGH_BIT  # the sign bit is 0
    if at < 0 or marker == OVERFLOW:
        return _reject(state, _FRAME_ENDS)
    if is_present and sizes[counter] == buffers.capacities[counter]:
        return _request_capacity(state, counter, sizes[counter] + 1)
    if code[pc, 4] != NO_BUFFER:
        position = buffers.bases[code[pc, 4]] + sizes[code[pc, 1]] - 1
        buffers.i32[position] = sizes[counter] if is_present else -1
    state[_POSITION] = at
    sizes[counter] += is_present
    return pc + 1 if is_present else _instruction_at(code, pc, 9)


@inlined
def _tags(  # noqa: PLR0917
    data: Bytes, code: Ints, tags: Ints, state: Ints, buffers: Buffers, pc: int
) -> int:
    count, at = read_varint(data, state[_POSITION], state[_END])
    if at < 0 or count == OVERFLOW:
        return _reject(state, _FRAME_ENDS)
    if count > MAX_TAGGED_FIELDS:
        return _reject(state, _TOO_MANY_TAGS)
    for index in range(code[pc, 2], code[pc, 3]):
        if tags[index, 3] != NO_BUFFER:
            buffers.i32[buffers.bases[tags[index, 3]] + buffers.sizes[code[pc, 1]] - 1] = -1
    state[_POSITION], state[_REGISTERS + code[pc, 4]] = at, count
    return pc + 1 if count else _instruction_at(code, pc + 1, 9)


@kernel
def _tag(  # noqa: PLR0917
    data: Bytes, code: Ints, tags: Ints, state: Ints, buffers: Buffers, pc: int
) -> int:
    end, sizes, register = state[_END], buffers.sizes, _REGISTERS + code[pc, 4]
    if state[register] == 0:
        return _instruction_at(code, pc, 9)
    state[register] -= 1
    tag, at = read_varint(data, state[_POSITION], end)
    size, at = read_varint(data, at, end) if at >= 0 else (0, at)
    if at < 0:
        return _reject(state, _FRAME_ENDS)
    if size > end - at or tag == OVERFLOW:
        return _reject(state, _LENGTH_EXCEEDS_FRAME)
    for index in range(code[pc, 2], code[pc, 3]):
        if tags[index, 0] == tag and (tags[index, 4] < 0 or tags[index, 4] == size):
            counter = tags[index, 2]
            if sizes[counter] == buffers.capacities[counter]:
                return _request_capacity(state, counter, sizes[counter] + 1)
            if tags[index, 3] != NO_BUFFER:
                buffers.i32[buffers.bases[tags[index, 3]] + sizes[code[pc, 1]] - 1] = sizes[counter]
            sizes[counter] += 1
            state[_POSITION], state[register + 1] = at, at + size
            return _instruction_at(tags, index, 1)
    state[_POSITION] = at + size
    state[_UNKNOWN_TAGS] += 1
    return pc
