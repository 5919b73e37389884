"""Numbers of flows; a flow is one direction between two endpoints.

The flows of a file are numbered in order of appearance. A hash table finds the flows of all
segments of a chunk in one call.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.ports.entropy import SystemEntropy
from kafkalite.traffic.columnar.arrays import ReusableArray
from kafkalite.traffic.columnar.kernels import kernel, peek_64

if TYPE_CHECKING:
    from kafkalite.traffic.columnar.arrays import Bytes, Ints
    from kafkalite.traffic.columnar.packets import Segments

_FIRST_ROOM: Final = 1 << 10
_SLOTS: Final = 4
"""Slots per flow, so that collisions are rare."""
_V4, _V6, _WORD, _WORDS = 4, 16, 8, 4
_EMPTY: Final = -1
_words_of, _words_as = Struct(">4q").unpack, Struct(">4q").pack
_SALT: Final = SystemEntropy().integer(1 << 63)
"""A secret salt, so that captures cannot be crafted to cause hash collisions."""
_ODD: Final = -0x61C8864680B583EB
_LOW: Final = 0xFFFFFFFF


class Flows:
    """The flows of one file, by addresses and ports."""

    __slots__ = ("_calls", "_keys", "_memory", "_seen", "_slots", "count")

    def __init__(self, room: int = _FIRST_ROOM) -> None:
        self.count = 0
        self._calls = 0
        self._memory = ReusableArray()
        self._keys = np.empty((room, _WORDS + 1), np.int64)
        """By number: both addresses in words, then the ports and whether it is IPv6."""
        self._seen = np.full(room, _EMPTY, np.int64)
        """By number: the last call in which the flow appeared."""
        self._slots = np.full(_SLOTS * room, _EMPTY, np.int64)
        """The hash table: numbers of flows."""

    def numbered(self, data: Bytes, segments: Segments) -> tuple[Ints, Ints]:
        """Return the flow of each segment, and the first segment of each flow in the chunk.

        The next call reuses the memory of the result.
        """
        count = len(segments)
        numbers, firsts = self._memory.take(2, count)
        self._calls += 1
        done = active = 0
        while done < count:
            if self.count == len(self._keys):
                self._grow()
            done, active, self.count = number_segments(
                data, segments.address, segments.is_v6, segments.ports, done, active, _SALT,
                self._calls, self._keys, self._slots, self._seen, self.count, numbers, firsts,
            )  # fmt: skip
        return numbers, firsts[:active]

    def number(self, name: bytes) -> int:
        """Return the number of a flow, given as in the scalar reader; unknown flows are added."""
        if self.count == len(self._keys):
            self._grow()
        addresses, ports = name[:-4], int.from_bytes(name[-4:])
        a, b, c, d = _words_of(addresses.ljust(_WORDS * _WORD, b"\0"))
        last = ports << 1 | (len(addresses) > 2 * _V4)
        found = place_key(_SALT, self._keys, self._slots, self.count, a, b, c, d, last)
        self.count = max(self.count, found + 1)
        return int(found)

    def name(self, number: int) -> bytes:
        """Return a flow by its number, as in the scalar reader."""
        *words, last = self._keys[number].tolist()
        addresses, code = _words_as(*words), int(last)
        size = 2 * (_V6 if code & 1 else _V4)
        return bytes(addresses[:size]) + (code >> 1).to_bytes(4)

    def _grow(self) -> None:
        self._keys = np.concatenate([self._keys, np.empty_like(self._keys)])
        self._seen = np.concatenate([self._seen, np.full_like(self._seen, _EMPTY)])
        self._slots = np.full(_SLOTS * len(self._keys), _EMPTY, np.int64)
        place_all(_SALT, self._keys, self._slots, self.count)


@kernel
def _mix(mixed: int, word: int) -> int:
    """Mix a word into a hash, so that each of its bits affects the lowest bits."""
    for _ in range(2):
        mixed = (mixed ^ word) * _ODD
        mixed ^= (mixed >> 32) & _LOW
        word = 0
    return mixed


@kernel
def place_key(  # noqa: PLR0917
    salt: int, keys: Ints, slots: Ints, count: int, a: int, b: int, c: int, d: int, last: int
) -> int:
    """Return the number of a key; a new key gets the number `count`. There must be room for it."""
    mixed = _mix(_mix(salt, a), last)
    if last & 1:
        mixed = _mix(_mix(_mix(mixed, b), c), d)
    slot = mixed & (len(slots) - 1)
    number: int = slots[slot]
    while number >= 0:
        is_same = keys[number, 0] == a and keys[number, 4] == last
        if is_same and keys[number, 1] == b and keys[number, 2] == c and keys[number, 3] == d:
            return number
        slot = (slot + 1) & (len(slots) - 1)
        number = slots[slot]
    slots[slot] = count
    keys[count, 0], keys[count, 1], keys[count, 2] = a, b, c
    keys[count, 3], keys[count, 4] = d, last
    return count


@kernel
def place_all(salt: int, keys: Ints, slots: Ints, count: int) -> None:
    """Fill an empty hash table with the known keys."""
    for number in range(count):
        place_key(
            salt, keys, slots, number,
            keys[number, 0], keys[number, 1], keys[number, 2], keys[number, 3], keys[number, 4],
        )  # fmt: skip


@kernel
def number_segments(  # noqa: PLR0917
    data: Bytes,
    address: Ints,
    is_v6: Ints,
    ports: Ints,
    done: int,
    active: int,
    salt: int,
    call: int,
    keys: Ints,
    slots: Ints,
    seen: Ints,
    count: int,
    numbers: Ints,
    firsts: Ints,
) -> tuple[int, int, int]:
    """Assign numbers to segments from `done` on, while there is room for another flow.

    `packets` has checked that the addresses are within the data.
    """
    while done < len(numbers) and count < len(keys):
        at, b, c, d = address[done], 0, 0, 0
        if is_v6[done]:
            b, c, d = peek_64(data, at + 8), peek_64(data, at + 16), peek_64(data, at + 24)
        last = ports[done] << 1 | is_v6[done]
        number = place_key(salt, keys, slots, count, peek_64(data, at), b, c, d, last)
        count = max(count, number + 1)
        numbers[done] = number
        if seen[number] != call:
            seen[number] = call
            firsts[active] = done
            active += 1
        done += 1
    return done, active, count
