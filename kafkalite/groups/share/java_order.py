"""JavaTable: a mapping that gives its keys in the order in which Java's HashMap gives them.

Kafka's assignor for share groups fills members in whatever order its hash maps come in. That order
is no accident: it follows from the keys' hashes and the table's size. Whoever wants the very
assignment that Kafka makes has to walk as it does.
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
_MASK = 0xFFFF_FFFF
_WORDS = Struct(">IIII")


def string_hash(text: str) -> int:
    """Return String.hashCode, as 32 bits without a sign."""
    return java_string_hash(text) & _MASK


def int_hash(number: int) -> int:
    """Return Integer.hashCode, as 32 bits without a sign."""
    return number & _MASK


@lru_cache(maxsize=1_024)  # asked for once per partition of a topic
def uuid_hash(uuid: bytes) -> int:
    """Return what Kafka's Uuid hashes to: its four words, one over the other."""
    first, second, third, fourth = _WORDS.unpack(uuid)
    return int(first ^ second ^ third ^ fourth)


def topic_partition_hash(topic_partition: tuple[bytes, int]) -> int:
    """Return what a Java record of a topic id and a partition hashes to."""
    topic_id, partition = topic_partition
    return (31 * uuid_hash(topic_id) + partition) & _MASK


class JavaTable(Generic[K, V]):
    """Keys and values; `keys` come bucket by bucket.

    Within a bucket, what was `put` stands last, and what `get_or_make` made stands first.
    """

    __slots__ = ("_capacity", "_entries", "_first", "_hash_of", "_last", "_places")

    def __init__(self, hash_of: Callable[[K], int], expected: int | None = None) -> None:
        self._hash_of = hash_of
        self._entries: dict[K, V] = {}
        self._places: dict[K, int] = {}
        self._first = self._last = 0
        self._capacity = _DEFAULT_CAPACITY if expected is None else _room_for(expected)

    def put(self, key: K, value: V) -> None:
        """Set what a key stands for, as HashMap.put does."""
        if key not in self._entries:
            self._last += 1
            self._places[key] = self._last
        self._entries[key] = value
        self._grow()

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return what a key stands for, made if need be, as HashMap.computeIfAbsent does."""
        # Unlike put, this makes room for what came before, not for what comes now.
        self._grow()
        if key not in self._entries:
            self._first -= 1
            self._places[key] = self._first
            self._entries[key] = make()
        return self._entries[key]

    def get(self, key: K) -> V | None:
        """Return what a key stands for, or None."""
        return self._entries.get(key)

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def remove(self, key: K) -> None:
        """Take a key out; the table stays as large as it was."""
        del self._entries[key], self._places[key]

    def keys(self) -> list[K]:
        """Return the keys in Java's order."""
        return sorted(self._entries, key=self._place)

    def make_room(self, count: int) -> None:
        """Become as large as with so many keys."""
        while 4 * count > 3 * self._capacity:
            self._capacity *= 2

    def _place(self, key: K) -> tuple[int, int]:
        code = self._hash_of(key)
        return (code ^ code >> 16) & self._capacity - 1, self._places[key]

    def _grow(self) -> None:
        if 4 * len(self._entries) > 3 * self._capacity:
            self._capacity *= 2


def in_java_order(keys: Iterable[K], hash_of: Callable[[K], int], among: int = 0) -> list[K]:
    """Return keys as a HashSet gives them that they were put into one after the other.

    `among`: how many keys the set has, when these are but some of them.
    """
    table: JavaTable[K, None] = JavaTable(hash_of)
    for key in keys:
        table.put(key, None)
    table.make_room(among)
    return table.keys()


def _room_for(expected: int) -> int:
    """Return the size of a table that Kafka makes for so many keys: a power of two."""
    wanted = int((expected + 1) / 0.75 + 1.0)
    capacity = 1
    while capacity < wanted:
        capacity *= 2
    return capacity
