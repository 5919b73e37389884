"""Topology: the subtopologies of a Kafka Streams application, as its first member described them.

What a member sends and what the log keeps have the same shape (StreamsGroupTopology), so one value
stands for both; two members agree when their values are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
    from kafkalite.protocol.records.streams_group_topology import StreamsGroupTopologyValue

    SaidTopology = StreamsGroupHeartbeatRequest.Topology | StreamsGroupTopologyValue
    SaidSubtopology = (
        StreamsGroupHeartbeatRequest.Subtopology | StreamsGroupTopologyValue.Subtopology
    )
    SaidTopic = StreamsGroupHeartbeatRequest.TopicInfo | StreamsGroupTopologyValue.TopicInfo

UNDECIDED = 0
"""In the place of a number of partitions or replicas: the broker's to choose."""

MOST_PARTS = 200_000
"""Names, numbers and lists in one topology; Kafka's log takes hardly more in one record."""


class InternalTopic(NamedTuple):
    """A topic of the application's own: a repartition topic or a changelog."""

    name: str
    partitions: int = UNDECIDED
    replication_factor: int = UNDECIDED
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    """Topics whose partitions are read together, as positions in a subtopology's lists."""

    source_topics: tuple[int, ...] = ()
    source_topic_regexes: tuple[int, ...] = ()
    repartition_sources: tuple[int, ...] = ()


class SubtopologySpec(NamedTuple):
    """A part of the topology that is connected: each of its partitions is one task."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regexes: tuple[str, ...] = ()
    changelogs: tuple[InternalTopic, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    repartition_sources: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    def inputs(self) -> tuple[str, ...]:
        """Return the topics it reads: sources, and repartition topics."""
        return self.source_topics + tuple(topic.name for topic in self.repartition_sources)

    def copartitioned_topics(self) -> list[frozenset[str]]:
        """Return each copartition group by name; KeyError when a position is none."""
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
    """A whole topology; subtopologies stand in order of their ids."""

    epoch: int
    subtopologies: Mapping[str, SubtopologySpec]

    def required_topics(self) -> frozenset[str]:
        """Return every topic that must be there: inputs and changelogs."""
        return frozenset(
            name
            for subtopology in self.subtopologies.values()
            for name in (*subtopology.inputs(), *(topic.name for topic in subtopology.changelogs))
        )

    def readers(self) -> dict[str, str]:
        """Return which subtopology reads each input."""
        return {
            name: subtopology.subtopology_id
            for subtopology in self.subtopologies.values()
            for name in subtopology.inputs()
        }


def check_size(said: SaidTopology) -> None:
    """Raise KafkaError(UNKNOWN_SERVER_ERROR) for more parts than a topology may have.

    That is what a record too large for the log comes to, here and in Kafka; but holding what it
    says against the topics first would take a while.
    """
    parts = sum(map(_parts_of, said.subtopologies))
    if parts > MOST_PARTS:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            facts={"rule": f"at most {MOST_PARTS} names, numbers and lists", "parts": parts},
        )


def _parts_of(said: SaidSubtopology) -> int:
    topics = (*said.repartition_source_topics, *said.state_changelog_topics)
    return (
        7
        + len(said.source_topics)
        + len(said.source_topic_regex)
        + len(said.repartition_sink_topics)
        + sum(4 + 2 * len(topic.topic_configs) for topic in topics)
        + sum(
            3
            + len(group.source_topics)
            + len(group.source_topic_regex)
            + len(group.repartition_source_topics)
            for group in said.copartition_groups
        )
    )


def topology_of(said: SaidTopology) -> Topology:
    """Return a topology as a value; KafkaError(UNKNOWN_SERVER_ERROR) for one that cannot be.

    So Kafka answers a negative epoch, and two subtopologies with one id, without a word more.
    """
    ids = [subtopology.subtopology_id for subtopology in said.subtopologies]
    if said.epoch < 0 or len(set(ids)) < len(ids):
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            facts={"topology_epoch": said.epoch, "rule": "epochs from 0 on, ids used once"},
        )
    subtopologies = (_subtopology_of(each) for each in said.subtopologies)
    return Topology(
        epoch=said.epoch,
        subtopologies={
            each.subtopology_id: each
            for each in sorted(subtopologies, key=lambda each: each.subtopology_id)
        },
    )


def _subtopology_of(said: SaidSubtopology) -> SubtopologySpec:
    return SubtopologySpec(
        subtopology_id=said.subtopology_id,
        source_topics=tuple(said.source_topics),
        source_topic_regexes=tuple(said.source_topic_regex),
        changelogs=tuple(_internal_topic_of(topic) for topic in said.state_changelog_topics),
        repartition_sinks=tuple(said.repartition_sink_topics),
        repartition_sources=tuple(
            _internal_topic_of(topic) for topic in said.repartition_source_topics
        ),
        copartition_groups=tuple(
            CopartitionGroup(
                source_topics=tuple(group.source_topics),
                source_topic_regexes=tuple(group.source_topic_regex),
                repartition_sources=tuple(group.repartition_source_topics),
            )
            for group in said.copartition_groups
        ),
    )


def _internal_topic_of(said: SaidTopic) -> InternalTopic:
    return InternalTopic(
        name=said.name,
        partitions=said.partitions,
        replication_factor=said.replication_factor,
        configs=tuple((config.key, config.value) for config in said.topic_configs),
    )
