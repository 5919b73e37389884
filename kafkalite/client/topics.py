"""Topics of a cluster: list, describe, create, extend and delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.brokers import ask_controller
from kafkalite.client.errors import BrokerError, UnknownNameError, raise_refusal, refusal
from kafkalite.client.retries import DEFAULT_BACKOFF, Retries
from kafkalite.config.layers import ConfigSource
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

BROKER_DEFAULT: Final = -1
"""The number of partitions or replicas that selects the default of the broker."""

_TIMEOUT_MS: Final = 30_000
_CREATION_TIMEOUT_MS: Final = 5_000
_TOPIC_RESOURCE: Final = 2
_METADATA_VERSIONS: Final = Versions(4, 12)
_CREATE_VERSIONS: Final = Versions(2, 7)
_PARTITIONS_OF_TOPIC_VERSIONS: Final = Versions(0, 0)
_DELETE_VERSIONS: Final = Versions(1, 5)
_PARTITIONS_VERSIONS: Final = Versions(0, 3)
_CONFIGS_VERSIONS: Final = Versions(1, 4)


class PartitionDescription(NamedTuple):
    """A partition, as one broker knows it; the leader is -1 if there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    eligible_leaders: tuple[int, ...] | None = None
    """Replicas that may lead although they are not in sync; None if the broker has no such list."""
    last_eligible_leaders: tuple[int, ...] | None = None


class TopicDescription(NamedTuple):
    """A topic and its partitions in their order."""

    name: str
    topic_id: bytes
    """Zero before Kafka 2.8."""
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0


class TopicConfig(NamedTuple):
    """A configuration of a topic."""

    name: str
    value: str | None
    """None if it is sensitive."""
    is_default: bool
    """Whether neither the topic nor the brokers set it."""


async def list_topics(client: KafkaClient) -> list[TopicDescription]:
    """Return all topics that the client may see, by name."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    response = await client.ask_any(request, _METADATA_VERSIONS)
    return sorted(map(_description, response.topics), key=lambda topic: topic.name)


async def with_eligible_leaders(client: KafkaClient, topic: TopicDescription) -> TopicDescription:
    """Return a topic with the eligible leaders of its partitions (KIP-966)."""
    found: dict[int, Any] = {}
    cursor = None
    row = DescribeTopicPartitionsRequest.TopicRequest(name=topic.name)
    while True:
        request = DescribeTopicPartitionsRequest(topics=[row], cursor=cursor)
        response = await client.ask_any(request, _PARTITIONS_OF_TOPIC_VERSIONS)
        found |= {
            each.partition_index: each for rows in response.topics for each in rows.partitions
        }
        if response.next_cursor is None:
            break
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=response.next_cursor.topic_name,
            partition_index=response.next_cursor.partition_index,
        )
    partitions = [
        each._replace(
            eligible_leaders=tuple(found[each.partition].eligible_leader_replicas or ()),
            last_eligible_leaders=tuple(found[each.partition].last_known_elr or ()),
        )
        if each.partition in found
        else each
        for each in topic.partitions
    ]
    return topic._replace(partitions=tuple(partitions))


async def find_topic(client: KafkaClient, name: str) -> TopicDescription:
    """Return a topic; raises UnknownNameError, or BrokerError if the client may not see it."""
    row = MetadataRequest.MetadataRequestTopic(name=name)
    request = MetadataRequest(topics=[row], allow_auto_topic_creation=False)
    (found,) = (await client.ask_any(request, _METADATA_VERSIONS)).topics
    if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownNameError("topic", name, [each.name for each in await list_topics(client)])
    if not ErrorCode(found.error_code).retriable:
        raise_refusal(found, f"topic {name!r}")
    return _description(found)


async def created_partition_count(client: KafkaClient, name: str) -> int:
    """Return the number of partitions of a topic, which the broker creates if it is set to do so.

    Raises BrokerError.
    """
    row = MetadataRequest.MetadataRequestTopic(name=name)
    request = MetadataRequest(topics=[row], allow_auto_topic_creation=True)
    retries = Retries(AdjustableClock(), DEFAULT_BACKOFF, _CREATION_TIMEOUT_MS)
    while True:
        found = (await client.ask_any(request, _METADATA_VERSIONS)).topics[0]
        if not found.error_code:
            return len(found.partitions)
        if not ErrorCode(found.error_code).retriable or not await retries.wait():
            raise_refusal(found, f"topic {name}")


async def create_topic(
    client: KafkaClient,
    name: str,
    *,
    partitions: int = BROKER_DEFAULT,
    replication_factor: int = BROKER_DEFAULT,
    configs: Mapping[str, str] | None = None,
    replicas: Sequence[Sequence[int]] = (),
) -> None:
    """Create a topic; raises BrokerError.

    `replicas` are those of each partition; without them, the controller places replicas.
    """
    assignment = CreateTopicsRequest.CreatableReplicaAssignment
    row = CreateTopicsRequest.CreatableTopic(
        assignments=[
            assignment(partition_index=index, broker_ids=list(each))
            for index, each in enumerate(replicas)
        ],
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in (configs or {}).items()
        ],
    )
    request = CreateTopicsRequest(topics=[row], timeout_ms=_TIMEOUT_MS)
    response = await ask_controller(client, request, _CREATE_VERSIONS)
    raise_refusal(response.topics[0], f"cannot create topic {name!r}")


async def extend_topic(
    client: KafkaClient, name: str, partitions: int, replicas: Sequence[Sequence[int]] = ()
) -> None:
    """Increase the number of partitions of a topic; raises BrokerError.

    `replicas` are those of each new partition; without them, the controller places replicas.
    """
    assignment = CreatePartitionsRequest.CreatePartitionsAssignment
    row = CreatePartitionsRequest.CreatePartitionsTopic(
        name=name,
        count=partitions,
        assignments=[assignment(broker_ids=list(each)) for each in replicas] or None,
    )
    request = CreatePartitionsRequest(topics=[row], timeout_ms=_TIMEOUT_MS)
    response = await ask_controller(client, request, _PARTITIONS_VERSIONS)
    raise_refusal(response.results[0], f"cannot extend topic {name!r}")


async def delete_topics(client: KafkaClient, names: Sequence[str]) -> dict[str, BrokerError | None]:
    """Delete topics, and return the error of each; None for one that is deleted."""
    if not names:
        return {}
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=_TIMEOUT_MS)
    response = await ask_controller(client, request, _DELETE_VERSIONS)
    return {
        row.name: refusal(row, f"cannot delete topic {row.name!r}") for row in response.responses
    }


async def topic_configs(client: KafkaClient, name: str) -> list[TopicConfig]:
    """Return the configurations of a topic, in the order of the broker; raises BrokerError."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None
    )
    response = await client.ask_any(DescribeConfigsRequest(resources=[resource]), _CONFIGS_VERSIONS)
    raise_refusal(response.results[0], f"configurations of topic {name!r}")
    return [
        TopicConfig(each.name, each.value, each.config_source == ConfigSource.DEFAULT)
        for each in response.results[0].configs
    ]


def _description(row: Any) -> TopicDescription:  # noqa: ANN401 - of many versions
    partitions = sorted(row.partitions, key=lambda each: int(each.partition_index))
    return TopicDescription(
        row.name,
        row.topic_id,
        row.is_internal,
        tuple(
            PartitionDescription(
                each.partition_index,
                each.leader_id,
                each.leader_epoch,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
            )
            for each in partitions
        ),
    )
