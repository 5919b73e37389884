"""Partition counts: how many partitions each internal topic of a topology is to have.

Kafka's rules, in their order. A repartition topic has the count it asks for, else the largest count
among the inputs of the subtopologies that write to it, found by going over the topology until all
are known. Then topics that are read together get the same count: that of the external topics among
them, else of those that asked for one, else the largest. A changelog has as many partitions as its
subtopology has tasks. A topic that exists has the count it has.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kafkalite.groups.streams.status import IncorrectlyPartitionedError
from kafkalite.groups.streams.topology import UNDECIDED
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.streams.topology import SubtopologySpec, Topology
    from kafkalite.metadata.image import MetadataImage


class PartitionCounts:
    """What is known of the counts: of topics that exist, and of those that were decided on."""

    __slots__ = ("_image", "decided")

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self.decided: dict[str, int] = {}

    def find(self, topic: str) -> int | None:
        """Return a topic's count; what exists cannot be decided otherwise."""
        existing = self._image.topics.get(topic)
        return self.decided.get(topic) if existing is None else len(existing.partitions)

    def of(self, topic: str) -> int:
        """Return a count that must be known; KafkaError(UNKNOWN_SERVER_ERROR), as Kafka's."""
        found = self.find(topic)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"Topic {topic} has no number of partitions."
            )
        return found


def decide_partition_counts(topology: Topology, image: MetadataImage) -> PartitionCounts:
    """Return the counts of all topics; every source topic must exist.

    KafkaError(STREAMS_INVALID_TOPOLOGY) when the topology leaves one open, and
    IncorrectlyPartitionedError when topics to be read together cannot be.
    """
    counts = PartitionCounts(image)
    counts.decided.update(_repartition_counts(topology, image))
    _copartition(topology, counts)
    for subtopology in topology.subtopologies.values():
        most = max((counts.of(topic) for topic in subtopology.inputs()), default=None)
        if most is None:
            raise _invalid(f"Subtopology {subtopology.subtopology_id} reads no topic.")
        counts.decided.update(dict.fromkeys((each.name for each in subtopology.changelogs), most))
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
    _hand_counts_on(list(subtopologies), counts, image)
    if any(sink not in counts for each in subtopologies for sink in each.repartition_sinks):
        raise _invalid(
            "The number of partitions of a repartition topic depends on itself: the topology has a "
            "loop."
        )
    if any(
        topic.name not in counts for each in subtopologies for topic in each.repartition_sources
    ):
        raise _invalid("A repartition topic is read, but nothing writes to it.")
    return counts


def _hand_counts_on(
    subtopologies: list[SubtopologySpec], counts: dict[str, int], image: MetadataImage
) -> None:
    """Give each sink the count of its writer's largest input, as soon as any input is known.

    Kafka goes over all subtopologies in turn, and again until nothing is left. Here each is looked
    at once, at the round and place where that would find an input of it known: what it finds is
    the same, and a topology of thousands in the wrong order does not take thousands of rounds.
    """
    readers: dict[str, list[int]] = {}
    for place, subtopology in enumerate(subtopologies):
        for topic in subtopology.repartition_sources:
            readers.setdefault(topic.name, []).append(place)
    due = [
        (0, place)
        for place, each in enumerate(subtopologies)
        if _largest_input(each, counts, image) is not None
    ]
    looked_at: set[int] = set()
    while due:
        turn, place = heappop(due)
        writer = subtopologies[place]
        count = _largest_input(writer, counts, image)
        if place in looked_at or count is None:
            continue
        looked_at.add(place)
        for sink in writer.repartition_sinks:
            if sink not in counts:
                counts[sink] = count
                for reader in readers.get(sink, ()):
                    heappush(due, (turn + (reader <= place), reader))


def _largest_input(
    writer: SubtopologySpec, counts: Mapping[str, int], image: MetadataImage
) -> int | None:
    """Return the largest count among a subtopology's inputs that are known."""
    known = [counts[topic.name] for topic in writer.repartition_sources if topic.name in counts]
    known += [
        len(image.topics[topic].partitions)
        for topic in writer.source_topics
        if topic in image.topics
    ]
    return max(known, default=None)


# Topics that are read together


def _copartition(topology: Topology, counts: PartitionCounts) -> None:
    repartitions = {
        topic.name: topic.partitions
        for each in topology.subtopologies.values()
        for topic in each.repartition_sources
    }
    # What a topic asked for is not changed below, so these stay true all the while.
    fixed = {name: counts.of(name) for name, asked in repartitions.items() if asked != UNDECIDED}
    for subtopology in topology.subtopologies.values():
        try:
            groups = subtopology.copartitioned_topics()
        except KeyError as missing:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"A copartition group has no topic {missing}."
            ) from missing
        for group in groups:
            of_group = {topic: counts.of(topic) for topic in group}
            internal = {name: count for name, count in of_group.items() if name in repartitions}
            external = {name: count for name, count in of_group.items() if name not in internal}
            counts.decided.update(_one_count(internal, external, fixed))


def _one_count(
    internal: Mapping[str, int], external: Mapping[str, int], fixed: Mapping[str, int]
) -> dict[str, int]:
    """Return the one count that all repartition topics of a group are to have."""
    if not internal:
        if external:
            _same(external)
        return {}
    if external:
        count = _same(external)
    elif fixed:
        # Kafka holds all topics of the topology that asked for a count to it, not this group's.
        count = _same(fixed)
    else:
        count = max(internal.values())
    for topic in sorted(internal):
        if topic in fixed and internal[topic] != count:
            raise IncorrectlyPartitionedError(
                f"Repartition topic {topic} is to have {internal[topic]} partitions, but the "
                f"topics it is read together with have {count}."
            )
    return dict.fromkeys(internal, count)


def _same(counts: Mapping[str, int]) -> int:
    """Return the count that all these topics have; IncorrectlyPartitionedError if they differ."""
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{topic}={count}" for topic, count in sorted(counts.items()))
        raise IncorrectlyPartitionedError(
            f"Topics that are read together have different numbers of partitions: {told}"
        )
    return next(iter(counts.values()))


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
