"""JavaHashMap: a mapping with the iteration order of Java's HashMap.

Kafka's assignor for share groups iterates over hash maps. Their order is deterministic: it depends
on the hashes of the keys and on the size of the table. The same order is needed to compute the same
assignments as Kafka.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkalite.coordinator.runtime import java_string_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

K = TypeVar("K")
V = TypeVar("V")

_DEFAULT_CAPACITY = 16
_UINT32_MASK = 0xFFFF_FFFF
_FOUR_UINT32 = Struct(">IIII")


def string_hash(text: str) -> int:
    """Return String.hashCode as an unsigned 32-bit number."""
    return java_string_hash(text) & _UINT32_MASK


def int_hash(number: int) -> int:
    """Return Integer.hashCode as an unsigned 32-bit number."""
    return number & _UINT32_MASK


@lru_cache(maxsize=1_024)  # called once per partition of a topic
def uuid_hash(uuid: bytes) -> int:
    """Return the hash code of Kafka's Uuid: its four words XORed."""
    first, second, third, fourth = _FOUR_UINT32.unpack(uuid)
    return int(first ^ second ^ third ^ fourth)


def topic_partition_hash(topic_partition: tuple[bytes, int]) -> int:
    """Return the hash code of a Java record of a topic id and a partition."""
    topic_id, partition = topic_partition
    return (31 * uuid_hash(topic_id) + partition) & _UINT32_MASK


class JavaHashMap(Generic[K, V]):
    """Keys and values; `keys` are ordered by bucket.

    Within a bucket, `put` adds a key at the end, and `compute_if_absent` adds it at the start.
    """

    __slots__ = ("_capacity", "_entries", "_first_rank", "_hash_of", "_last_rank", "_ranks")

    def __init__(self, hash_of: Callable[[K], int], expected: int | None = None) -> None:
        self._hash_of = hash_of
        self._entries: dict[K, V] = {}
        self._ranks: dict[K, int] = {}
        self._first_rank = self._last_rank = 0
        self._capacity = _DEFAULT_CAPACITY if expected is None else _capacity_for(expected)

    def put(self, key: K, value: V) -> None:
        """Set the value of a key, as HashMap.put does."""
        if key not in self._entries:
            self._last_rank += 1
            self._ranks[key] = self._last_rank
        self._entries[key] = value
        self._grow_if_full()

    def compute_if_absent(self, key: K, create: Callable[[], V]) -> V:
        """Return the value of a key, created if absent, as HashMap.computeIfAbsent does."""
        # Unlike put, computeIfAbsent resizes the table before it adds the key.
        self._grow_if_full()
        if key not in self._entries:
            self._first_rank -= 1
            self._ranks[key] = self._first_rank
            self._entries[key] = create()
        return self._entries[key]

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        return self._entries.get(key)

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def remove(self, key: K) -> None:
        """Remove a key; the size of the table does not change."""
        del self._entries[key], self._ranks[key]

    def keys(self) -> list[K]:
        """Return the keys in Java's order."""
        return sorted(self._entries, key=self._sort_key)

    def grow_for(self, count: int) -> None:
        """Resize the table for `count` keys."""
        while 4 * count > 3 * self._capacity:
            self._capacity *= 2

    def _sort_key(self, key: K) -> tuple[int, int]:
        code = self._hash_of(key)
        return (code ^ code >> 16) & self._capacity - 1, self._ranks[key]

    def _grow_if_full(self) -> None:
        if 4 * len(self._entries) > 3 * self._capacity:
            self._capacity *= 2


def in_java_order(keys: Iterable[K], hash_of: Callable[[K], int], set_size: int = 0) -> list[K]:
    """Return keys in the order of a HashSet to which they were added one after the other.

    `set_size` is the size of the set, if `keys` are only a part of it.
    """
    key_set: JavaHashMap[K, None] = JavaHashMap(hash_of)
    for key in keys:
        key_set.put(key, None)
    key_set.grow_for(set_size)
    return key_set.keys()


def _capacity_for(expected: int) -> int:
    """Return the capacity of a table that Kafka creates for `expected` keys: a power of two."""
    minimum = int((expected + 1) / 0.75 + 1.0)
    capacity = 1
    while capacity < minimum:
        capacity *= 2
    return capacity
