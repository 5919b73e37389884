"""DirectoryChoice: the log directories of new replicas, by the rules of Kafka's LogManager.

A new replica is in the preferred directory, if it has one, else in the directory with the fewest
replicas. A cordoned directory is chosen only if all are cordoned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.java_order import JavaHashMap, named_partition_hash

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from kafkalite.metadata.image import PartitionImage, TopicImage

    Replica = tuple[TopicImage, PartitionImage]


class DirectoryChoice:
    """The number of replicas in each directory of one node."""

    __slots__ = ("_cordoned", "_counts")

    def __init__(self, paths: Iterable[str], cordoned: Collection[str]) -> None:
        """Begin with empty directories; those in `cordoned` receive no replicas."""
        self._counts = dict.fromkeys(paths, 0)
        self._cordoned = cordoned

    def count(self, paths: Iterable[str]) -> None:
        """Add replicas that are in these directories."""
        for path in paths:
            self._counts[path] += 1

    def next(self, preferred: str | None = None) -> str:
        """Return the directory of the next replica, and count it."""
        usable = [path for path in self._counts if path not in self._cordoned]
        first = next(iter(self._counts))
        path = preferred or min(usable, key=self._counts.__getitem__, default=first)
        self.count((path,))
        return path


def in_order_of_kafka(replicas: Sequence[Replica], node_id: int) -> Iterator[Replica]:
    """Yield replicas in the order in which the node creates them: those that it leads first.

    Both kinds have the order of a HashMap of Java.
    """
    for is_leader in (True, False):
        created: JavaHashMap[tuple[str, int], Replica] = JavaHashMap(_hash)
        for topic, partition in replicas:
            if (partition.leader == node_id) is is_leader:
                created.put((topic.name, partition.index), (topic, partition))
        yield from created.values()


def _hash(replica: tuple[str, int]) -> int:
    return named_partition_hash(*replica)
