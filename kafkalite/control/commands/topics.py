"""Commands about topics: list, show, create and delete."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.typed_json import About, check_types, quote
from kafkalite.control.command_table import CommandError, Family, Row, running_cluster, sentence
from kafkalite.control.internal_requests import answer_of
from kafkalite.control.topic_records import UnknownTopicError, topic_of
from kafkalite.control.turns import answer_pieces, in_turns, sorted_in_turns
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.metadata.topic_names import invalid_name_reason
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.metadata.image import TopicImage
    from kafkalite.server.broker import Broker

_TIMEOUT_MS: Final = 30_000
_BY_DEFAULT: Final = -1
_MAX_PARTITIONS: Final = 10_000
_MAX_REPLICAS: Final = 1_000


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition, its replicas and its offsets."""

    partition: Annotated[int, About("Index of the partition.")]
    leader: Annotated[int, About("Node that leads the partition; -1 without a leader.")]
    leader_epoch: Annotated[int, About("Epoch of the leader.")]
    replicas: Annotated[tuple[int, ...], About("Nodes with a replica.")]
    isr: Annotated[tuple[int, ...], About("Nodes whose replica is in sync.")]
    start_offset: Annotated[int, About("Offset of the first record.")]
    end_offset: Annotated[int, About("Offset of the next record.")]
    high_watermark: Annotated[int, About("Offset up to which all replicas in sync are equal.")]
    last_stable_offset: Annotated[int, About("Offset up to which all transactions have ended.")]


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic with its partitions."""

    name: Annotated[str, About("Name of the topic.")]
    topic_id: Annotated[str, About("Id of the topic, as Kafka writes it.")]
    internal: Annotated[bool, About("Whether the topic is one of Kafka's own.")]
    config: Annotated[dict[str, str], About("Settings of the topic that differ from defaults.")]
    partitions: Annotated[tuple[PartitionStatus, ...], About("Partitions by index.")]


@dataclass(frozen=True, slots=True)
class ListedTopic:
    """A topic in a list."""

    name: Annotated[str, About("Name of the topic.")]
    partitions: Annotated[int, About("Number of partitions.")]
    replication_factor: Annotated[int, About("Number of replicas of the first partition.")]
    internal: Annotated[bool, About("Whether the topic is one of Kafka's own.")]


@dataclass(frozen=True, slots=True)
class TopicList:
    """All topics by name."""

    topics: Annotated[tuple[ListedTopic, ...], About("Topics by name.")]


@dataclass(frozen=True, slots=True)
class ListTopics:
    """List all topics."""

    async def perform(self, broker: Broker) -> TopicList:
        """Return all topics by name."""
        topics = running_cluster(broker).metadata.image.topics
        found = sorted_in_turns(topics.values(), attrgetter("name"))
        return TopicList(tuple([_listed(each) async for each in found]))


@dataclass(frozen=True, slots=True)
class ShowTopic:
    """Return a topic with its partitions and their offsets."""

    topic: Annotated[str, About("name of the topic", metavar="NAME")]

    async def perform(self, broker: Broker) -> TopicStatus:
        """Return the topic; raises UnknownTopicError."""
        cluster = running_cluster(broker)
        return await _status(cluster, topic_of(cluster, self.topic))


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic, and return it."""

    name: Annotated[str, About("name of the topic")]
    partitions: Annotated[
        int | None,
        About("number of partitions [num.partitions]", minimum=1, maximum=_MAX_PARTITIONS),
    ] = None
    replication_factor: Annotated[
        int | None,
        About("number of replicas [default.replication.factor]", minimum=1, maximum=_MAX_REPLICAS),
    ] = None
    config: Annotated[
        dict[str, str] | None,
        About("setting of the topic; repeatable", metavar="KEY=VALUE"),
    ] = None

    def __post_init__(self) -> None:
        check_types(self)
        if invalid_name_reason(self.name) is not None:
            raise CommandError(f"name must be the name of a topic, not {quote(self.name)}")

    async def perform(self, broker: Broker) -> TopicStatus:
        """Create the topic; raises CommandError if the broker refuses it."""
        config = CreateTopicsRequest.CreatableTopicConfig
        topic = CreateTopicsRequest.CreatableTopic(
            name=self.name,
            num_partitions=self.partitions or _BY_DEFAULT,
            replication_factor=self.replication_factor or _BY_DEFAULT,
            configs=[config(name=key, value=value) for key, value in (self.config or {}).items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
        (row,) = (await answer_of(broker, request)).topics
        _check(row.error_code, row.error_message)
        return await ShowTopic(self.name).perform(broker)


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """A topic that was deleted."""

    name: Annotated[str, About("Name of the topic.")]
    topic_id: Annotated[str, About("Id of the topic.")]


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete a topic with its records; committed offsets of groups remain, as in Kafka."""

    topic: Annotated[str, About("name of the topic", metavar="NAME")]

    async def perform(self, broker: Broker) -> DeletedTopic:
        """Delete the topic; raises UnknownTopicError."""
        image = topic_of(running_cluster(broker), self.topic)
        state = DeleteTopicsRequest.DeleteTopicState(name=self.topic)
        request = DeleteTopicsRequest(topics=[state], timeout_ms=_TIMEOUT_MS)
        (row,) = (await answer_of(broker, request)).responses
        _check(row.error_code, row.error_message)
        return DeletedTopic(self.topic, uuid_to_text(image.topic_id))


def _check(error_code: int, message: str | None) -> None:
    if error_code:
        raise CommandError(sentence(KafkaError(ErrorCode(error_code), message)))


def _listed(image: TopicImage) -> ListedTopic:
    first = image.partitions[0].replicas if image.partitions else ()
    return ListedTopic(image.name, len(image.partitions), len(first), image.is_internal)


async def _status(cluster: Cluster, image: TopicImage) -> TopicStatus:
    resource = ConfigResource(ResourceType.TOPIC, image.name)
    return TopicStatus(
        name=image.name,
        topic_id=uuid_to_text(image.topic_id),
        internal=image.is_internal,
        config=dict(cluster.metadata.image.configs.get(resource, {})),
        partitions=tuple([each async for each in in_turns(_partitions(cluster, image))]),
    )


def _partitions(cluster: Cluster, image: TopicImage) -> Iterable[PartitionStatus]:
    hosted = cluster.partitions.topic(image.name)
    for each in image.partitions:
        partition = None if hosted is None else hosted.partition(each.index)
        yield PartitionStatus(
            partition=each.index,
            leader=each.leader,
            leader_epoch=each.leader_epoch,
            replicas=tuple(each.replicas),
            isr=tuple(each.isr),
            start_offset=0 if partition is None else partition.log_start_offset,
            end_offset=0 if partition is None else partition.end_offset,
            high_watermark=0 if partition is None else partition.high_watermark,
            last_stable_offset=0 if partition is None else partition.last_stable_offset,
        )


_PATH, _PATH_OF_ONE = "/v1/topics", "/v1/topics/{topic}"

COMMANDS = Family(
    (
        Row(ListTopics, TopicList, "GET", _PATH, pieces=answer_pieces),
        Row(
            CreateTopic,
            TopicStatus,
            "POST",
            _PATH,
            example={"name": "orders", "partitions": 3, "config": {"cleanup.policy": "compact"}},
            status=201,
        ),
        Row(
            ShowTopic,
            TopicStatus,
            "GET",
            _PATH_OF_ONE,
            not_found=UnknownTopicError,
            pieces=answer_pieces,
        ),
        Row(DeleteTopic, DeletedTopic, "DELETE", _PATH_OF_ONE, not_found=UnknownTopicError),
    )
)
