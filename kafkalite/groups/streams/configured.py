"""ConfiguredTopology: a topology held against the topics there are.

It says how many tasks each subtopology has, which internal topics are still to be made, and what
is in the way. It follows from the topology and the metadata, so it is worked out and not recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.groups.consumer.topics import metadata_hash
from kafkalite.groups.streams.partition_counts import decide_partition_counts
from kafkalite.groups.streams.status import (
    IncorrectlyPartitionedError,
    Status,
    StatusCode,
    name_some,
)
from kafkalite.groups.streams.topology import UNDECIDED
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.streams.partition_counts import PartitionCounts
    from kafkalite.groups.streams.tasks import Tasks
    from kafkalite.groups.streams.topology import InternalTopic, SubtopologySpec, Topology
    from kafkalite.metadata.image import MetadataImage


MOST_TASKS = 100_000
"""Tasks of one topology; a few times as many would not fit into one batch of the log anyway."""


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose internal topics have their numbers of partitions."""

    subtopology_id: str
    task_count: int
    source_topics: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state worth a copy elsewhere."""
        return bool(self.changelogs)

    def inputs(self) -> tuple[str, ...]:
        """Return the topics it reads."""
        return self.source_topics + tuple(topic.name for topic in self.repartition_sources)


class ConfiguredTopology(NamedTuple):
    """A topology as it is with the topics there are."""

    epoch: int
    metadata_hash: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    """In order of their ids; None when they could not be worked out."""
    missing_topics: tuple[InternalTopic, ...] = ()
    """Internal topics that are to be made, by name."""
    trouble: Status | None = None
    """What is in the way of tasks being assigned."""

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.trouble is None

    def check_tasks(self, tasks: Tasks | None) -> None:
        """Raise KafkaError(INVALID_REQUEST) for a task that the topology does not have."""
        if tasks is None or self.subtopologies is None or not self.is_ready:
            return
        for kind in (tasks.active, tasks.standby, tasks.warmup):
            for name, partitions in kind.items():
                _check_partitions(self.subtopologies.get(name), name, partitions)


def _check_partitions(
    subtopology: ConfiguredSubtopology | None, name: str, partitions: Iterable[int]
) -> None:
    if subtopology is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The topology has no subtopology {name}.")
    for partition in partitions:
        if not 0 <= partition < subtopology.task_count:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Subtopology {name} has {subtopology.task_count} tasks, and no task {partition}.",
            )


def configure(topology: Topology, image: MetadataImage) -> ConfiguredTopology:
    """Hold a topology against the topics there are.

    KafkaError(STREAMS_INVALID_TOPOLOGY) when no topics at all could make it work, or when it comes
    to more than MOST_TASKS.
    """
    blocked = ConfiguredTopology(
        epoch=topology.epoch,
        metadata_hash=metadata_hash(topology.required_topics(), image),
        subtopologies=None,
    )
    sources = {name for each in topology.subtopologies.values() for name in each.source_topics}
    missing = sorted(name for name in sources if name not in image.topics)
    if missing:
        trouble = Status(
            StatusCode.MISSING_SOURCE_TOPICS, f"There are no source topics {name_some(missing)}."
        )
        return blocked._replace(trouble=trouble)
    try:
        counts = decide_partition_counts(topology, image)
        subtopologies = {
            name: _configured(each, counts) for name, each in topology.subtopologies.items()
        }
        to_make = _missing_topics(subtopologies.values(), image)
    except IncorrectlyPartitionedError as error:
        trouble = Status(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(error))
        return blocked._replace(trouble=trouble)
    if not to_make:
        _check_room(subtopologies.values())
    return blocked._replace(
        subtopologies=subtopologies,
        missing_topics=to_make,
        trouble=_told(to_make),
    )


def _check_room(subtopologies: Iterable[ConfiguredSubtopology]) -> None:
    """Raise KafkaError unless the tasks are so few that they can be given out."""
    tasks = sum(each.task_count for each in subtopologies)
    if tasks > MOST_TASKS:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"The topology comes to {tasks} tasks, and {MOST_TASKS} can be given out at most.",
            {"tasks": tasks, "most": MOST_TASKS},
        )


def _told(to_make: tuple[InternalTopic, ...]) -> Status | None:
    if not to_make:
        return None
    names = name_some([topic.name for topic in to_make])
    return Status(StatusCode.MISSING_INTERNAL_TOPICS, f"There are no internal topics {names}.")


def _configured(subtopology: SubtopologySpec, counts: PartitionCounts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        subtopology_id=subtopology.subtopology_id,
        task_count=max(counts.of(topic) for topic in subtopology.inputs()),
        source_topics=subtopology.source_topics,
        repartition_sources=_with_counts(subtopology.repartition_sources, counts),
        repartition_sinks=subtopology.repartition_sinks,
        changelogs=_with_counts(subtopology.changelogs, counts),
    )


def _with_counts(
    topics: tuple[InternalTopic, ...], counts: PartitionCounts
) -> tuple[InternalTopic, ...]:
    return tuple(
        topic._replace(partitions=counts.decided[topic.name])
        if topic.partitions == UNDECIDED
        else topic
        for topic in topics
    )


def _missing_topics(
    subtopologies: Iterable[ConfiguredSubtopology], image: MetadataImage
) -> tuple[InternalTopic, ...]:
    """Return the internal topics to be made; IncorrectlyPartitionedError if one is not right."""
    internal = {
        topic.name: topic
        for each in subtopologies
        for topic in (*each.repartition_sources, *each.changelogs)
    }
    for name, topic in sorted(internal.items()):
        existing = image.topics.get(name)
        if existing is not None and len(existing.partitions) != topic.partitions:
            raise IncorrectlyPartitionedError(
                f"Internal topic {name} is to have {topic.partitions} partitions, but the one that "
                f"is there has {len(existing.partitions)}."
            )
    return tuple(topic for name, topic in sorted(internal.items()) if name not in image.topics)
