"""Messages, one after the other, into the buffers of columns: a compiled loop runs a program.

No bytes can make it fail or run away. Of a message that breaks the protocol nothing stays in the
buffers. Where one of these is full, the loop ends in front of the message at hand, and is begun
again there with a larger one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kafkalite.columnar.arrays import sealed
from kafkalite.columnar.compiled import (
    kernel,
    peek_64,
    peek_i16,
    peek_i32,
    peek_u8,
    peek_u16,
    piece,
)
from kafkalite.columnar.memory import Memory
from kafkalite.columnar.primitives import CUT, ONE_BYTE, TOO_MUCH, is_text, length_at, varint
from kafkalite.columnar.program import (
    AGAIN,
    COUNTED,
    FLAG,
    INT8,
    INT16,
    INT32,
    INT64,
    MAYBE,
    ROWS,
    RUN,
    TAG,
    TAGGED,
    TAGS,
    UINT16,
    UNKEPT,
)

if TYPE_CHECKING:
    from kafkalite.columnar.arrays import Bytes, Ints
    from kafkalite.columnar.memory import Buffers
    from kafkalite.columnar.program import Program

_FINE, _ENDS, _PAST, _NULL, _LONG, _TAG, _TEXT = range(7)
REASONS: Final = {
    _ENDS: "the frame ends inside a field",
    _PAST: "a length that runs past the end of the frame",
    _NULL: "null or a negative length where none is allowed",
    _LONG: "a string of more than 32767 bytes",
    _TAG: "a tagged field that is not of its declared size",
    _TEXT: "text that is not UTF-8",
}
"""Why a message is refused, by its verdict."""

_AT, _END, _VERDICT, _STORE, _NEED, _PASSED, _REGISTERS = range(7)
"""The state of a walk: where it is, and where the message ends; what is wrong with it; of what
there has to be room for how much; how many unknown tags there were; then the program's own."""
_STOP: Final = -1
"""In place of the next instruction."""

_UUID: Final = 16


class Walked(NamedTuple):
    """What a walk over messages leaves."""

    memory: Memory
    verdicts: Ints
    """Of each message 0, or a number among `REASONS`: then there is nothing of it in the memory."""
    unknown_tags: int
    """How many tagged fields were passed over."""


def walk_messages(program: Program, data: Bytes, starts: Ints, ends: Ints) -> Walked:
    """Walk messages; a start before the data is none at all."""
    data, verdicts = sealed(data), np.empty(len(starts), np.int64)
    memory = Memory(program, len(starts), len(data))
    state = np.zeros(_REGISTERS + program.registers, np.int64)
    before = np.empty(program.stores, np.int64)
    row = unknown_tags = 0
    while True:
        row, unknown = walk(
            data, starts, ends, row, program.code, program.fields, program.tags, state,
            memory.buffers(), before, verdicts,
        )  # fmt: skip
        unknown_tags += unknown
        if row == len(starts):
            program.usual[:] = memory.sizes / max(len(data), 1)
            return Walked(memory, verdicts, unknown_tags)
        memory.grow(int(state[_STORE]), int(state[_NEED]))


# -- kernels: those of instructions return where to go on ------------------------------------


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
    """Walk messages from `row` on, as far as there is room; return how far that is.

    And how many tagged fields were passed over. What there is not enough room for, the state says.
    """
    unknown = 0
    sizes = into.sizes
    state[_NEED] = 0
    while row < len(starts):
        state[_AT], state[_END], state[_PASSED] = starts[row], ends[row], 0
        is_there = 0 <= starts[row] <= ends[row] <= len(data)
        state[_VERDICT] = _FINE if is_there else _ENDS
        for store in range(len(sizes)):
            before[store] = sizes[store]
        sizes[0] += 1
        pc = 0 if is_there else _STOP
        while pc >= 0:
            pc = _step(data, code, fields, tags, state, into, pc)
        if state[_VERDICT] == _FINE and state[_NEED] == 0:
            unknown += state[_PASSED]
        else:
            for store in range(len(sizes)):
                sizes[store] = before[store]
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
    if kind == AGAIN:
        return _again(code, state, into, pc)
    if kind == MAYBE:
        return _maybe(data, code, state, into, pc)
    if kind == TAGGED:
        is_right = state[_AT] == state[_REGISTERS + code[pc, 2] + 1]
        return _to(code, pc, 3) if is_right else _refuse(state, _TAG)
    return _STOP


@kernel
def _to(table: Ints, row: int, column: int) -> int:
    """Return the instruction that a row of a table leads to."""
    there: int = table[row, column]
    return there


@kernel
def _refuse(state: Ints, verdict: int) -> int:
    """End the walk over a message that breaks the protocol."""
    state[_VERDICT] = verdict
    return _STOP


@kernel
def _lacks(state: Ints, store: int, need: int) -> int:
    """End the walk because there has to be more room."""
    state[_STORE], state[_NEED] = store, need
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
        kind, place = fields[nth, 0], at + fields[nth, 1]
        to = into.bases[fields[nth, 2]] + number
        if kind == INT32:
            into.n4[to] = peek_i32(data, place)
        elif kind == INT64:
            into.n8[to] = peek_64(data, place)
        elif kind == INT16:
            into.n2[to] = peek_i16(data, place)
        elif kind == INT8:
            into.n1[to] = peek_u8(data, place)
        elif kind == FLAG:
            into.n1[to] = peek_u8(data, place) != 0
        elif kind == UINT16:
            into.n4[to] = peek_u16(data, place)
        else:
            for byte in range(_UUID):
                into.n1[to * _UUID + byte] = peek_u8(data, place + byte)
    state[_AT] = at + size
    return pc + 1


@piece
def _counted(data: Bytes, code: Ints, state: Ints, into: Buffers, pc: int) -> int:
    end, sizes = state[_END], into.sizes
    length, at = length_at(data, state[_AT], end, code[pc, 2])
    verdict = _judge(length, at, end, code[pc, 3])
    if verdict == _FINE and length > code[pc, 4]:
        verdict = _LONG
    if verdict != _FINE:
        return _refuse(state, verdict)
    stop = at + max(length, 0)
    if code[pc, 6] != UNKEPT:
        number, store = sizes[code[pc, 1]] - 1, code[pc, 8]
        used = sizes[store] + stop - at
        if used > into.rooms[store]:
            return _lacks(state, store, used)
        to = into.bases[code[pc, 7]] + used - stop
        seen = _copy(data, at, stop, into.n1, to)
        if code[pc, 5] and seen >= ONE_BYTE and not is_text(data, at, stop):
            return _refuse(state, _TEXT)
        sizes[store] = used
        into.n4[into.bases[code[pc, 6]] + number + 1] = used
        if code[pc, 9] != UNKEPT:
            into.n1[into.bases[code[pc, 9]] + number] = length >= 0
    state[_AT] = stop
    return pc + 1


@kernel
def _copy(data: Bytes, start: int, stop: int, to: Bytes, shift: int) -> int:
    """Copy bytes to where they are plus a shift; return one with all bits that any of them has."""
    seen = 0
    for place in range(start, stop):
        byte = peek_u8(data, place)
        to[np.uint64(place + shift)] = byte
        seen |= byte
    return seen


@kernel
def _judge(length: int, at: int, end: int, least: int) -> int:
    """Say what is wrong with a length, behind which the walk is."""
    if at < 0:
        return _ENDS
    if length < least:
        return _NULL
    return _PAST if length > end - at else _FINE


@piece
def _rows(data: Bytes, code: Ints, state: Ints, into: Buffers, pc: int) -> int:
    end, sizes, store = state[_END], into.sizes, code[pc, 4]
    count, at = length_at(data, state[_AT], end, code[pc, 2])
    verdict = _judge(count, at, end, code[pc, 3])
    if verdict == _FINE and count * code[pc, 5] > end - at:
        verdict = _PAST
    if verdict != _FINE:
        return _refuse(state, verdict)
    number, rows = sizes[code[pc, 1]] - 1, max(count, 0)
    if sizes[store] + rows > into.rooms[store]:
        return _lacks(state, store, sizes[store] + rows)
    if code[pc, 6] != UNKEPT:
        into.n4[into.bases[code[pc, 6]] + number + 1] = sizes[store] + rows
    if code[pc, 7] != UNKEPT:
        into.n1[into.bases[code[pc, 7]] + number] = count >= 0
    state[_AT] = at
    if rows == 0:
        return _to(code, pc, 9)
    state[_REGISTERS + code[pc, 8]] = rows
    sizes[store] += 1
    return pc + 1


@piece
def _again(code: Ints, state: Ints, into: Buffers, pc: int) -> int:
    register = _REGISTERS + code[pc, 2]
    state[register] -= 1
    if state[register] == 0:
        return pc + 1
    into.sizes[code[pc, 1]] += 1
    return _to(code, pc, 3)


@kernel
def _maybe(data: Bytes, code: Ints, state: Ints, into: Buffers, pc: int) -> int:
    end, at, sizes, store = state[_END], state[_AT], into.sizes, code[pc, 3]
    if code[pc, 2]:
        mark, at = varint(data, at, end)
        is_there = mark != 0
    else:
        mark = peek_u8(data, at) if at < end else 0
        at = at + 1 if at < end else CUT
        is_there = mark < ONE_BYTE  # a byte's sign
    if at < 0 or mark == TOO_MUCH:
        return _refuse(state, _ENDS)
    if is_there and sizes[store] == into.rooms[store]:
        return _lacks(state, store, sizes[store] + 1)
    if code[pc, 4] != UNKEPT:
        place = into.bases[code[pc, 4]] + sizes[code[pc, 1]] - 1
        into.n4[place] = sizes[store] if is_there else -1
    state[_AT] = at
    sizes[store] += is_there
    return pc + 1 if is_there else _to(code, pc, 9)


@piece
def _tags(  # noqa: PLR0917
    data: Bytes, code: Ints, tags: Ints, state: Ints, into: Buffers, pc: int
) -> int:
    count, at = varint(data, state[_AT], state[_END])
    if at < 0 or count == TOO_MUCH:
        return _refuse(state, _ENDS)
    for nth in range(code[pc, 2], code[pc, 3]):
        if tags[nth, 3] != UNKEPT:
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
    if size > end - at or tag == TOO_MUCH:
        return _refuse(state, _PAST)
    for nth in range(code[pc, 2], code[pc, 3]):
        if tags[nth, 0] == tag:
            store = tags[nth, 2]
            if sizes[store] == into.rooms[store]:
                return _lacks(state, store, sizes[store] + 1)
            if tags[nth, 3] != UNKEPT:
                into.n4[into.bases[tags[nth, 3]] + sizes[code[pc, 1]] - 1] = sizes[store]
            sizes[store] += 1
            state[_AT], state[register + 1] = at, at + size
            return _to(tags, nth, 1)
    state[_AT] = at + size
    state[_PASSED] += 1
    return pc
