"""ConfiguredTopology: a topology with the partition counts of the existing topics.

It has the number of tasks per subtopology, the internal topics to create, and the problem that
prevents an assignment. It is computed from the topology and the metadata and is not recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.modern.topics import metadata_hash
from kafkalite.groups.streams.partition_counts import decide_partition_counts
from kafkalite.groups.streams.status import (
    IncorrectlyPartitionedError,
    Status,
    StatusCode,
    format_topic_names,
)
from kafkalite.groups.streams.topology import UNDECIDED
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.streams.partition_counts import PartitionCounts
    from kafkalite.groups.streams.tasks import Tasks
    from kafkalite.groups.streams.topology import InternalTopic, SubtopologySpec, Topology
    from kafkalite.metadata.image import MetadataImage


MAX_TASKS = 10_000
"""The maximum number of tasks of one topology, because one decision assigns them all."""


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose internal topics have partition counts."""

    subtopology_id: str
    task_count: int
    source_topics: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, so that standby tasks are useful."""
        return bool(self.changelogs)

    def inputs(self) -> tuple[str, ...]:
        """Return the topics that it reads."""
        return self.source_topics + tuple(topic.name for topic in self.repartition_sources)


class ConfiguredTopology(NamedTuple):
    """A topology with the partition counts of the existing topics."""

    epoch: int
    metadata_hash: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    """Sorted by id; None if they could not be computed."""
    missing_topics: tuple[InternalTopic, ...] = ()
    """Internal topics to create, sorted by name."""
    problem: Status | None = None
    """The problem that prevents an assignment of tasks."""

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None

    def check_tasks(self, tasks: Tasks | None) -> None:
        """Raise KafkaError(INVALID_REQUEST) for a task that does not exist in the topology."""
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
                f"Subtopology {name} has {subtopology.task_count} tasks, but no task {partition}.",
            )


def configure(topology: Topology, image: MetadataImage) -> ConfiguredTopology:
    """Compute the partition counts of a topology from the existing topics.

    Raises KafkaError(STREAMS_INVALID_TOPOLOGY) if the topology is invalid independent of the
    existing topics, or if it has more than MAX_TASKS tasks.
    """
    unready = ConfiguredTopology(
        epoch=topology.epoch,
        metadata_hash=metadata_hash(topology.required_topics(), image),
        subtopologies=None,
    )
    sources = {name for each in topology.subtopologies.values() for name in each.source_topics}
    missing = sorted(name for name in sources if name not in image.topics)
    if missing:
        problem = Status(
            StatusCode.MISSING_SOURCE_TOPICS,
            ErrorText.SOURCE_TOPICS_ARE_MISSING.format(topics=format_topic_names(missing)),
        )
        return unready._replace(problem=problem)
    try:
        counts = decide_partition_counts(topology, image)
        subtopologies = {
            name: _configure_subtopology(each, counts)
            for name, each in topology.subtopologies.items()
        }
        missing_topics = _missing_topics(subtopologies.values(), image)
    except IncorrectlyPartitionedError as error:
        problem = Status(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(error))
        return unready._replace(problem=problem)
    if not missing_topics:
        _check_task_count(subtopologies.values())
    return unready._replace(
        subtopologies=subtopologies,
        missing_topics=missing_topics,
        problem=_missing_topics_status(missing_topics),
    )


def _check_task_count(subtopologies: Iterable[ConfiguredSubtopology]) -> None:
    """Raise KafkaError(STREAMS_INVALID_TOPOLOGY) if there are more than MAX_TASKS tasks."""
    tasks = sum(each.task_count for each in subtopologies)
    if tasks > MAX_TASKS:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"The topology has {tasks} tasks, the maximum is {MAX_TASKS}.",
            {"tasks": tasks, "max_tasks": MAX_TASKS},
        )


def _missing_topics_status(missing_topics: tuple[InternalTopic, ...]) -> Status | None:
    if not missing_topics:
        return None
    names = format_topic_names([topic.name for topic in missing_topics])
    return Status(StatusCode.MISSING_INTERNAL_TOPICS, f"Missing internal topics: {names}.")


def _configure_subtopology(
    subtopology: SubtopologySpec, counts: PartitionCounts
) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        subtopology_id=subtopology.subtopology_id,
        task_count=max(counts.of(topic) for topic in subtopology.inputs()),
        source_topics=subtopology.source_topics,
        repartition_sources=_set_partition_counts(subtopology.repartition_sources, counts),
        repartition_sinks=subtopology.repartition_sinks,
        changelogs=_set_partition_counts(subtopology.changelogs, counts),
    )


def _set_partition_counts(
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
    """Return the missing internal topics; raises IncorrectlyPartitionedError."""
    internal = {
        topic.name: topic
        for each in subtopologies
        for topic in (*each.repartition_sources, *each.changelogs)
    }
    for name, topic in sorted(internal.items()):
        existing = image.topics.get(name)
        if existing is not None and len(existing.partitions) != topic.partitions:
            raise IncorrectlyPartitionedError(
                f"Internal topic {name} must have {topic.partitions} partitions, but the existing "
                f"topic has {len(existing.partitions)}."
            )
    return tuple(topic for name, topic in sorted(internal.items()) if name not in image.topics)
