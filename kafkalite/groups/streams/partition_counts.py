"""Partition counts of the internal topics of a topology, by Kafka's rules.

1. A repartition topic has the requested count, or else the largest count among the inputs of the
   subtopologies that write to it.
2. Copartitioned topics get the same count: that of their external topics, or else the requested
   one, or else the largest.
3. A changelog has as many partitions as its subtopology has tasks.

An existing topic keeps its count.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kafkalite.groups.streams.status import IncorrectlyPartitionedError
from kafkalite.groups.streams.topology import UNDECIDED
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.streams.topology import SubtopologySpec, Topology
    from kafkalite.metadata.image import MetadataImage


class PartitionCounts:
    """The partition counts of existing topics, and the counts decided for missing ones."""

    __slots__ = ("_image", "decided")

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self.decided: dict[str, int] = {}

    def find(self, topic: str) -> int | None:
        """Return a topic's count, None if unknown; the count of an existing topic is fixed."""
        existing = self._image.topics.get(topic)
        return self.decided.get(topic) if existing is None else len(existing.partitions)

    def of(self, topic: str) -> int:
        """Return a topic's count; raises KafkaError(UNKNOWN_SERVER_ERROR) if it is unknown."""
        count = self.find(topic)
        if count is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"Topic {topic} has no partition count."
            )
        return count


def decide_partition_counts(topology: Topology, image: MetadataImage) -> PartitionCounts:
    """Return the counts of all topics; every source topic must exist.

    Raises KafkaError(STREAMS_INVALID_TOPOLOGY) if a count cannot be determined, and
    IncorrectlyPartitionedError if copartitioned topics have different counts.
    """
    counts = PartitionCounts(image)
    counts.decided.update(_repartition_counts(topology, image))
    _set_copartitioned_counts(topology, counts)
    for subtopology in topology.subtopologies.values():
        task_count = max((counts.of(topic) for topic in subtopology.inputs()), default=None)
        if task_count is None:
            raise _invalid(f"Subtopology {subtopology.subtopology_id} reads no topic.")
        counts.decided.update(
            dict.fromkeys((each.name for each in subtopology.changelogs), task_count)
        )
    return counts


# Repartition topics


def _repartition_counts(topology: Topology, image: MetadataImage) -> dict[str, int]:
    subtopologies = topology.subtopologies.values()
    counts = {
        topic.name: topic.partitions
        for subtopology in subtopologies
        for topic in subtopology.repartition_sources
        if topic.partitions != UNDECIDED
    }
    _propagate_counts(list(subtopologies), counts, image)
    if any(sink not in counts for each in subtopologies for sink in each.repartition_sinks):
        raise _invalid(
            "The partition count of a repartition topic depends on itself: the topology has a loop."
        )
    if any(
        topic.name not in counts for each in subtopologies for topic in each.repartition_sources
    ):
        raise _invalid("A repartition topic is read, but nothing writes to it.")
    return counts


def _propagate_counts(
    subtopologies: list[SubtopologySpec], counts: dict[str, int], image: MetadataImage
) -> None:
    """Set the count of each sink to the largest input of its writer, when any input is known.

    Kafka iterates over all subtopologies in rounds until nothing changes. Here each subtopology is
    visited once, ordered by the round and position at which Kafka would find a known input. The
    result is the same, without thousands of rounds for large topologies in an unfavorable order.
    """
    readers: dict[str, list[int]] = {}
    for position, subtopology in enumerate(subtopologies):
        for topic in subtopology.repartition_sources:
            readers.setdefault(topic.name, []).append(position)
    queue = [
        (0, position)
        for position, each in enumerate(subtopologies)
        if _largest_input(each, counts, image) is not None
    ]
    visited: set[int] = set()
    while queue:
        round_number, position = heappop(queue)
        if position in visited:
            continue
        writer = subtopologies[position]
        count = _largest_input(writer, counts, image)
        assert count is not None  # only a subtopology with a known input is in the queue
        visited.add(position)
        for sink in writer.repartition_sinks:
            if sink not in counts:
                counts[sink] = count
                for reader in readers.get(sink, ()):
                    heappush(queue, (round_number + (reader <= position), reader))


def _largest_input(
    writer: SubtopologySpec, counts: Mapping[str, int], image: MetadataImage
) -> int | None:
    """Return the largest known count among a subtopology's inputs."""
    known = [counts[topic.name] for topic in writer.repartition_sources if topic.name in counts]
    known += [
        len(image.topics[topic].partitions)
        for topic in writer.source_topics
        if topic in image.topics
    ]
    return max(known, default=None)


# Copartitioned topics


def _set_copartitioned_counts(topology: Topology, counts: PartitionCounts) -> None:
    repartitions = {
        topic.name: topic.partitions
        for each in topology.subtopologies.values()
        for topic in each.repartition_sources
    }
    # Requested counts are not changed below, so these stay valid.
    requested_counts = _RequestedCounts(
        {
            name: counts.of(name)
            for name, requested in repartitions.items()
            if requested != UNDECIDED
        }
    )
    for subtopology in topology.subtopologies.values():
        try:
            groups = subtopology.copartitioned_topics()
        except KeyError as missing:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"A copartition group has no topic {missing}."
            ) from missing
        for group in groups:
            group_counts = {topic: counts.of(topic) for topic in group}
            internal = {name: count for name, count in group_counts.items() if name in repartitions}
            external = {name: count for name, count in group_counts.items() if name not in internal}
            counts.decided.update(_copartition_count(internal, external, requested_counts))


class _RequestedCounts:
    """The requested counts of all repartition topics; their common count is computed once."""

    __slots__ = ("_common", "by_topic")

    def __init__(self, by_topic: Mapping[str, int]) -> None:
        self.by_topic = by_topic
        self._common: int | None = None

    def common(self) -> int:
        """Return the common count; raises IncorrectlyPartitionedError if the counts differ."""
        if self._common is None:
            self._common = _common_count(self.by_topic)
        return self._common


def _copartition_count(
    internal: Mapping[str, int], external: Mapping[str, int], requested_counts: _RequestedCounts
) -> dict[str, int]:
    """Return the common count of all repartition topics of a copartition group."""
    if not internal:
        if external:
            _common_count(external)
        return {}
    if external:
        count = _common_count(external)
    elif requested_counts.by_topic:
        # As in Kafka, this checks all requested counts of the topology, not only this group's.
        count = requested_counts.common()
    else:
        count = max(internal.values())
    for topic in sorted(internal):
        if topic in requested_counts.by_topic and internal[topic] != count:
            raise IncorrectlyPartitionedError(
                ErrorText.REPARTITION_COUNT_DIFFERS.format(
                    count=internal[topic], topic=topic, source_count=count
                )
            )
    return dict.fromkeys(internal, count)


def _common_count(counts: Mapping[str, int]) -> int:
    """Return the count of all these topics; raises IncorrectlyPartitionedError if they differ."""
    if len(set(counts.values())) > 1:
        listed_counts = ", ".join(f"{topic}={count}" for topic, count in sorted(counts.items()))
        raise IncorrectlyPartitionedError(
            ErrorText.PARTITION_COUNTS_DIFFER.format(counts=listed_counts)
        )
    return next(iter(counts.values()))


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
