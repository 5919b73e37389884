"""Topology: the subtopologies of a Kafka Streams application, as sent by its first member.

The request and the StreamsGroupTopology record have the same shape, so one class represents both.
Topologies of members are compared as values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import in_steps
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
        StreamsGroupHeartbeatRequest,
    )
    from kafkalite.protocol._generated.records.streams_group_topology import (
        StreamsGroupTopologyValue,
    )

    TopologyMessage = StreamsGroupHeartbeatRequest.Topology | StreamsGroupTopologyValue
    SubtopologyMessage = (
        StreamsGroupHeartbeatRequest.Subtopology | StreamsGroupTopologyValue.Subtopology
    )
    InternalTopicMessage = (
        StreamsGroupHeartbeatRequest.TopicInfo | StreamsGroupTopologyValue.TopicInfo
    )

UNDECIDED = 0
"""The value of a number of partitions or replicas that the broker chooses."""

MAX_TOPOLOGY_ELEMENTS = 50_000
"""The maximum number of names, numbers and lists in a topology, weighted by their cost.

A topology is one record, and one decision configures it, which takes up to a tenth of a second.
"""

MAX_MEMBER_ELEMENTS = 100_000
"""The maximum number of tags, tasks and offsets in a heartbeat, weighted by their cost."""

_ELEMENTS_OF_SUBTOPOLOGY = 20
_ELEMENTS_OF_SOURCE_TOPIC = 3
_ELEMENTS_OF_INTERNAL_TOPIC = 6
_ELEMENTS_OF_COPARTITION_GROUP = 4

_ELEMENTS_OF_TAG = 4
_ELEMENTS_OF_TASK = 2


class InternalTopic(NamedTuple):
    """An internal topic of the application: a repartition topic or a changelog."""

    name: str
    partitions: int = UNDECIDED
    replication_factor: int = UNDECIDED
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    """Copartitioned topics, as positions in a subtopology's lists."""

    source_topics: tuple[int, ...] = ()
    source_topic_regexes: tuple[int, ...] = ()
    repartition_sources: tuple[int, ...] = ()


class SubtopologySpec(NamedTuple):
    """A connected part of the topology; each of its partitions is one task."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regexes: tuple[str, ...] = ()
    changelogs: tuple[InternalTopic, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    repartition_sources: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    def inputs(self) -> tuple[str, ...]:
        """Return the topics that it reads: source topics and repartition topics."""
        return self.source_topics + tuple(topic.name for topic in self.repartition_sources)

    def copartitioned_topics(self) -> list[frozenset[str]]:
        """Return the topics of each copartition group; raises KeyError for a wrong position."""
        sources = dict(enumerate(self.source_topics))
        repartitions = {index: topic.name for index, topic in enumerate(self.repartition_sources)}
        return [
            frozenset(
                [sources[index] for index in group.source_topics]
                + [repartitions[index] for index in group.repartition_sources]
            )
            for group in self.copartition_groups
        ]


class Topology(NamedTuple):
    """A topology; its subtopologies are sorted by id."""

    epoch: int
    subtopologies: Mapping[str, SubtopologySpec]

    def required_topics(self) -> frozenset[str]:
        """Return all topics that must exist: inputs and changelogs."""
        return frozenset(
            name
            for subtopology in self.subtopologies.values()
            for name in (*subtopology.inputs(), *(topic.name for topic in subtopology.changelogs))
        )

    def subtopology_by_topic(self) -> dict[str, str]:
        """Return the subtopology id that reads each input."""
        return {
            name: subtopology.subtopology_id
            for subtopology in self.subtopologies.values()
            for name in subtopology.inputs()
        }


def check_size(message: TopologyMessage) -> None:
    """Raise KafkaError(UNKNOWN_SERVER_ERROR) for more elements than MAX_TOPOLOGY_ELEMENTS.

    A record that is too large for the log causes the same error, here and in Kafka. This check
    avoids the cost of configuring such a topology first. It pauses, so no state machine calls it.
    """
    subtopologies: Sequence[SubtopologyMessage] = message.subtopologies
    elements = sum(map(_element_count, in_steps(subtopologies)))
    if elements > MAX_TOPOLOGY_ELEMENTS:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            facts={
                "rule": f"at most {MAX_TOPOLOGY_ELEMENTS} weighted names, numbers and lists",
                "elements": elements,
            },
        )


def check_member_size(message: StreamsGroupHeartbeatRequest) -> None:
    """Raise KafkaError(UNKNOWN_SERVER_ERROR) for too many tags, tasks and offsets of a member.

    Tags are part of a record, as a topology is. No member has so many tasks. This check pauses, so
    no state machine calls it.
    """
    elements = _ELEMENTS_OF_TAG * len(message.client_tags or ())
    for tasks in (message.active_tasks, message.standby_tasks, message.warmup_tasks):
        elements += sum(_ELEMENTS_OF_TASK + len(each.partitions) for each in in_steps(tasks or ()))
    elements += len(message.task_offsets or ()) + len(message.task_end_offsets or ())
    if elements > MAX_MEMBER_ELEMENTS:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            facts={
                "rule": f"at most {MAX_MEMBER_ELEMENTS} tags, tasks and offsets",
                "elements": elements,
            },
        )


def _element_count(message: SubtopologyMessage) -> int:
    topics = (*message.repartition_source_topics, *message.state_changelog_topics)
    return (
        _ELEMENTS_OF_SUBTOPOLOGY
        + _ELEMENTS_OF_SOURCE_TOPIC * len(message.source_topics)
        + len(message.source_topic_regex)
        + len(message.repartition_sink_topics)
        + sum(_ELEMENTS_OF_INTERNAL_TOPIC + len(topic.topic_configs) for topic in topics)
        + sum(
            _ELEMENTS_OF_COPARTITION_GROUP
            + len(group.source_topics)
            + len(group.source_topic_regex)
            + len(group.repartition_source_topics)
            for group in message.copartition_groups
        )
    )


def topology_of(message: TopologyMessage) -> Topology:
    """Return the topology of a message.

    Raises KafkaError(UNKNOWN_SERVER_ERROR), as Kafka does, for a negative epoch and for duplicate
    subtopology ids.
    """
    ids = [subtopology.subtopology_id for subtopology in message.subtopologies]
    if message.epoch < 0 or len(set(ids)) < len(ids):
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            facts={
                "topology_epoch": message.epoch,
                "rule": "epoch at least 0, unique subtopology ids",
            },
        )
    subtopologies = (_subtopology_of(each) for each in message.subtopologies)
    return Topology(
        epoch=message.epoch,
        subtopologies={
            each.subtopology_id: each
            for each in sorted(subtopologies, key=lambda each: each.subtopology_id)
        },
    )


def _subtopology_of(message: SubtopologyMessage) -> SubtopologySpec:
    return SubtopologySpec(
        subtopology_id=message.subtopology_id,
        source_topics=tuple(message.source_topics),
        source_topic_regexes=tuple(message.source_topic_regex),
        changelogs=tuple(_internal_topic_of(topic) for topic in message.state_changelog_topics),
        repartition_sinks=tuple(message.repartition_sink_topics),
        repartition_sources=tuple(
            _internal_topic_of(topic) for topic in message.repartition_source_topics
        ),
        copartition_groups=tuple(
            CopartitionGroup(
                source_topics=tuple(group.source_topics),
                source_topic_regexes=tuple(group.source_topic_regex),
                repartition_sources=tuple(group.repartition_source_topics),
            )
            for group in message.copartition_groups
        ),
    )


def _internal_topic_of(message: InternalTopicMessage) -> InternalTopic:
    return InternalTopic(
        name=message.name,
        partitions=message.partitions,
        replication_factor=message.replication_factor,
        configs=tuple((config.key, config.value) for config in message.topic_configs),
    )
