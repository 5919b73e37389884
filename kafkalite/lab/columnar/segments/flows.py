"""`Flows`: numbers the flows of a file; a flow is one direction between two endpoints.

The flows of a file are numbered in order of appearance. A hash table finds the flows of all
segments of a chunk in one call.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.lab.columnar.arrays import ReusableArray
from kafkalite.lab.columnar.kernels import kernel, peek_i64
from kafkalite.ports.entropy import SystemEntropy

if TYPE_CHECKING:
    from kafkalite.lab.columnar.arrays import Bytes, Ints
    from kafkalite.lab.columnar.segments.packets import Segments

_INITIAL_CAPACITY: Final = 1 << 10
_SLOTS_PER_FLOW: Final = 4
"""Slots of the hash table per flow, so that collisions are rare."""
_IP4_BYTES, _IP6_BYTES, _WORD_BYTES, _ADDRESS_WORDS = 4, 16, 8, 4
_EMPTY: Final = -1
_unpack_words, _pack_words = Struct(">4q").unpack, Struct(">4q").pack
_SALT: Final = SystemEntropy().integer(1 << 63)
"""A secret salt, so that captures cannot be crafted to cause hash collisions."""
_MULTIPLIER: Final = -0x61C8864680B583EB
_LOW_32_BITS: Final = 0xFFFFFFFF


class Flows:
    """The flows of one file, by addresses and ports."""

    __slots__ = ("_calls", "_keys", "_last_calls", "_memory", "_slots", "count")

    def __init__(self, capacity: int = _INITIAL_CAPACITY) -> None:
        self.count = 0
        self._calls = 0
        self._memory = ReusableArray()
        self._keys = np.empty((capacity, _ADDRESS_WORDS + 1), np.int64)
        """By number: both addresses in words, then the ports and whether the addresses are IPv6."""
        self._last_calls = np.full(capacity, _EMPTY, np.int64)
        """By number: the last call in which the flow appeared."""
        self._slots = np.full(_SLOTS_PER_FLOW * capacity, _EMPTY, np.int64)
        """The hash table: numbers of flows."""

    def find_or_add_all(self, data: Bytes, segments: Segments) -> tuple[Ints, Ints]:
        """Return the flow number of each segment, and the first segment of each flow in the chunk.

        Unknown flows are added.

        The next call reuses the memory of the result.
        """
        count = len(segments)
        numbers, firsts = self._memory.allocate(2, count)
        self._calls += 1
        row = active_count = 0
        while row < count:
            if self.count == len(self._keys):
                self._grow()
            row, active_count, self.count = number_segments(
                data, segments.addresses_start, segments.is_v6, segments.ports, row, active_count,
                _SALT, self._calls, self._keys, self._slots, self._last_calls, self.count,
                numbers, firsts,
            )  # fmt: skip
        return numbers, firsts[:active_count]

    def find_or_add(self, flow: bytes) -> int:
        """Return the number of a flow in the format of the scalar reader; add an unknown flow."""
        if self.count == len(self._keys):
            self._grow()
        addresses, ports = flow[:-4], int.from_bytes(flow[-4:])
        a, b, c, d = _unpack_words(addresses.ljust(_ADDRESS_WORDS * _WORD_BYTES, b"\0"))
        ports_and_version = ports << 1 | (len(addresses) > 2 * _IP4_BYTES)
        flow_number = find_or_insert(
            _SALT, self._keys, self._slots, self.count, a, b, c, d, ports_and_version
        )
        self.count = max(self.count, flow_number + 1)
        return int(flow_number)

    def flow(self, number: int) -> bytes:
        """Return the flow with a number, in the format of the scalar reader."""
        *words, ports_and_version = self._keys[number].tolist()
        addresses, code = _pack_words(*words), int(ports_and_version)
        size = 2 * (_IP6_BYTES if code & 1 else _IP4_BYTES)
        return bytes(addresses[:size]) + (code >> 1).to_bytes(4)

    def _grow(self) -> None:
        self._keys = np.concatenate([self._keys, np.empty_like(self._keys)])
        self._last_calls = np.concatenate(
            [self._last_calls, np.full_like(self._last_calls, _EMPTY)]
        )
        self._slots = np.full(_SLOTS_PER_FLOW * len(self._keys), _EMPTY, np.int64)
        rebuild_table(_SALT, self._keys, self._slots, self.count)


@kernel
def _mix_hash(hash_value: int, word: int) -> int:
    """Mix a word into a hash, so that each of its bits affects the lowest bits."""
    for _ in range(2):
        hash_value = (hash_value ^ word) * _MULTIPLIER
        hash_value ^= (hash_value >> 32) & _LOW_32_BITS
        word = 0
    return hash_value


@kernel
def find_or_insert(  # noqa: PLR0917
    salt: int,
    keys: Ints,
    slots: Ints,
    count: int,
    a: int,
    b: int,
    c: int,
    d: int,
    ports_and_version: int,
) -> int:
    """Return the number of a key. A new key gets the number `count`; there must be room for it."""
    hash_value = _mix_hash(_mix_hash(salt, a), ports_and_version)
    if ports_and_version & 1:
        hash_value = _mix_hash(_mix_hash(_mix_hash(hash_value, b), c), d)
    slot = hash_value & (len(slots) - 1)
    number: int = slots[slot]
    while number >= 0:
        is_same = keys[number, 0] == a and keys[number, 4] == ports_and_version
        if is_same and keys[number, 1] == b and keys[number, 2] == c and keys[number, 3] == d:
            return number
        slot = (slot + 1) & (len(slots) - 1)
        number = slots[slot]
    slots[slot] = count
    keys[count, 0], keys[count, 1], keys[count, 2] = a, b, c
    keys[count, 3], keys[count, 4] = d, ports_and_version
    return count


@kernel
def rebuild_table(salt: int, keys: Ints, slots: Ints, count: int) -> None:
    """Fill an empty hash table with the known keys."""
    for number in range(count):
        find_or_insert(
            salt, keys, slots, number,
            keys[number, 0], keys[number, 1], keys[number, 2], keys[number, 3], keys[number, 4],
        )  # fmt: skip


@kernel
def number_segments(  # noqa: PLR0917
    data: Bytes,
    address: Ints,
    is_v6: Ints,
    ports: Ints,
    row: int,
    active_count: int,
    salt: int,
    call: int,
    keys: Ints,
    slots: Ints,
    last_calls: Ints,
    count: int,
    numbers: Ints,
    firsts: Ints,
) -> tuple[int, int, int]:
    """Assign numbers to segments from `row` on, while there is room for another flow.

    `packets` has checked that the addresses are within the data.
    """
    while row < len(numbers) and count < len(keys):
        at, b, c, d = address[row], 0, 0, 0
        if is_v6[row]:
            b, c, d = peek_i64(data, at + 8), peek_i64(data, at + 16), peek_i64(data, at + 24)
        ports_and_version = ports[row] << 1 | is_v6[row]
        number = find_or_insert(
            salt, keys, slots, count, peek_i64(data, at), b, c, d, ports_and_version
        )
        count = max(count, number + 1)
        numbers[row] = number
        if last_calls[number] != call:
            last_calls[number] = call
            firsts[active_count] = row
            active_count += 1
        row += 1
    return row, active_count, count
