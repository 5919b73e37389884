"""Endpoints: which partitions an application's instances answer interactive queries about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.streams.configured import ConfiguredSubtopology, ConfiguredTopology
    from kafkalite.groups.streams.member import MemberMetadata
    from kafkalite.groups.streams.tasks import EpochsOfTasks, HeldTasks, TaskIds
    from kafkalite.metadata.image import MetadataImage

_TopicPartition = StreamsGroupHeartbeatResponse.TopicPartition


def partitions_by_endpoint(
    members: Iterable[tuple[MemberMetadata, HeldTasks]],
    topology: ConfiguredTopology,
    image: MetadataImage,
) -> list[StreamsGroupHeartbeatResponse.EndpointToPartitions]:
    """Return what each member with an endpoint has, as partitions of the topics it reads.

    Nothing while the topology lacks topics: then nobody has anything to answer from.
    """
    subtopologies = topology.subtopologies
    if subtopologies is None:
        return []
    return [
        StreamsGroupHeartbeatResponse.EndpointToPartitions(
            user_endpoint=StreamsGroupHeartbeatResponse.Endpoint(
                host=member.user_endpoint.host, port=member.user_endpoint.port
            ),
            active_partitions=_partitions(held.active, subtopologies, image),
            standby_partitions=_partitions(held.standby, subtopologies, image),
        )
        for member, held in members
        if member.user_endpoint is not None
    ]


def _partitions(
    tasks: TaskIds | EpochsOfTasks,
    subtopologies: Mapping[str, ConfiguredSubtopology],
    image: MetadataImage,
) -> list[_TopicPartition]:
    return [
        _TopicPartition(
            topic=topic,
            # A topic with fewer partitions than there are tasks has none for the last of these.
            partitions=sorted(partitions)[: len(image.topics[topic].partitions)],
        )
        for name, partitions in sorted(tasks.items())
        if name in subtopologies
        for topic in sorted(set(subtopologies[name].inputs()))
        if topic in image.topics
    ]
