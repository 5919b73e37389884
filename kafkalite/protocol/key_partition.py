"""The partition of a record by its key, as Java's producer selects it."""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_WORD_BYTES: Final = 4


def partition_of_key(key: bytes, count: int) -> int:
    """Return the partition of a key among `count`, as Java's producer selects it."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def murmur2(data: bytes) -> int:
    """Return the unsigned 32-bit MurmurHash2 with the seed of Java's producer."""
    value = _SEED ^ len(data)
    whole = len(data) - len(data) % _WORD_BYTES
    for start in range(0, whole, _WORD_BYTES):
        word = int.from_bytes(data[start : start + _WORD_BYTES], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15
