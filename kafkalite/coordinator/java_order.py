"""JavaHashMap and JavaPriorityQueue: collections with the order of Java's, and of Kafka's own.

Kafka iterates over hash maps where the order is visible: in assignors of share groups and streams
groups, in subscriptions of client metrics, in error messages. The order is deterministic: it
depends on the hashes of the keys and on the size of the table.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkalite.ports.turns import in_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

K = TypeVar("K")
V = TypeVar("V")

_DEFAULT_CAPACITY = 16
_UINT32_MASK = 0xFFFF_FFFF
_INT32_MAX = 0x7FFF_FFFF
_UINT64_MASK = 0xFFFF_FFFF_FFFF_FFFF
_FIBONACCI = -7046029254386353131
_SMALLEST_TIMELINE = 2
_FOUR_UINT32 = Struct(">IIII")


def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode: signed 32 bits, over UTF-16 code units."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    code = 0
    for unit in units:
        code = (31 * code + unit) & 0xFFFF_FFFF
    return code - (1 << 32) if code & 0x8000_0000 else code


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


def named_partition_hash(topic: str, partition: int) -> int:
    """Return the hash code of Kafka's TopicPartition."""
    return (31 * (31 + partition) + string_hash(topic)) & _UINT32_MASK


def topic_partition_hash(topic_partition: tuple[bytes, int]) -> int:
    """Return the hash code of a Java record of a topic id and a partition."""
    topic_id, partition = topic_partition
    return (31 * uuid_hash(topic_id) + partition) & _UINT32_MASK


class JavaHashMap(Generic[K, V]):
    """Keys and values; `keys` are ordered by bucket.

    Within a bucket, `put` adds a key at the end, and `compute_if_absent` adds it at the start.
    """

    __slots__ = ("_capacity", "_entries", "_first_rank", "_hash_of", "_last_rank", "_ranks")

    def __init__(
        self,
        hash_of: Callable[[K], int],
        expected: int | None = None,
        *,
        initial_capacity: int = _DEFAULT_CAPACITY,
    ) -> None:
        """Begin without keys, in a table of the size that HashMap's constructor chooses.

        `initial_capacity` is the constructor's argument. `expected` is the number of keys from
        which Kafka computes this argument instead.
        """
        self._hash_of = hash_of
        self._entries: dict[K, V] = {}
        self._ranks: dict[K, int] = {}
        self._first_rank = self._last_rank = 0
        minimum = initial_capacity if expected is None else _capacity_for(expected)
        self._capacity = 1 << max(minimum - 1, 0).bit_length()

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

    def values(self) -> list[V]:
        """Return the values in Java's order of their keys."""
        return [self._entries[key] for key in self.keys()]

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


def in_timeline_order(keys: Collection[K], hash_of: Callable[[K], int]) -> list[K]:
    """Return keys in the order of Kafka's TimelineHashMap to which they were added in this order.

    It takes a slot from the highest bits of the multiplied hash code, and reads each slot from its
    end. Keys that were removed meanwhile do not count.
    """
    capacity = _SMALLEST_TIMELINE
    while 3 * len(keys) > 4 * capacity:
        capacity *= 2
    shift = 65 - capacity.bit_length()
    slots = {}
    for key in in_steps(keys):  # hash codes of many keys take long
        code = hash_of(key)
        signed = code - (1 << 32) if code > _INT32_MAX else code
        slots[key] = (signed * _FIBONACCI & _UINT64_MASK) >> shift
    ordered = list(slots)
    ordered.reverse()
    ordered.sort(key=slots.__getitem__)
    return ordered


def _capacity_for(expected: int) -> int:
    """Return the minimum capacity of a table that Kafka creates for `expected` keys."""
    return int((expected + 1) / 0.75 + 1.0)


class JavaPriorityQueue(Generic[V]):
    """Values ordered by a key; equal keys are in the order of Java's PriorityQueue."""

    __slots__ = ("_heap", "_key")

    def __init__(self, key: Callable[[V], float], values: Iterable[V] = ()) -> None:
        self._key = key
        self._heap: list[V] = []
        for value in values:
            self.push(value)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, value: V) -> None:
        """Add a value, as PriorityQueue.add does."""
        heap, position, key = self._heap, len(self._heap), self._key(value)
        heap.append(value)
        while position > 0:
            parent = position - 1 >> 1
            if key >= self._key(heap[parent]):
                break
            heap[position] = heap[parent]
            position = parent
        heap[position] = value

    def pop(self) -> V:
        """Remove and return a value with the smallest key, as PriorityQueue.poll does."""
        heap = self._heap
        last = heap.pop()
        if not heap:
            return last
        first, size, position, key = heap[0], len(heap), 0, self._key(last)
        while position < size >> 1:
            child = 2 * position + 1
            if child + 1 < size and self._key(heap[child]) > self._key(heap[child + 1]):
                child += 1
            if key <= self._key(heap[child]):
                break
            heap[position] = heap[child]
            position = child
        heap[position] = last
        return first
