"""Metadata: nodes, topics, partitions and leaders.

A response uses one image of the metadata and the addresses of the listener that received the
request, so a client only gets addresses that it can reach.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.apis.authorized_operations import NOT_REQUESTED, cluster_operations, topic_operations
from kafkalite.coordinator.contract import CREATED, Event
from kafkalite.gateway.api import Api, Eras
from kafkalite.gateway.refusals import client_address, report_refused_topics
from kafkalite.metadata.creation import MAX_PARTITIONS_PER_REQUEST
from kafkalite.metadata.image import INTERNAL_TOPICS, NO_LEADER
from kafkalite.metadata.internal_topics import auto_created_topic
from kafkalite.metadata.topic_names import invalid_name_reason
from kafkalite.ports.texts import count_text
from kafkalite.ports.turns import chunks, in_steps
from kafkalite.protocol._generated.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol.acl_operations import Entity, Operation, Resource
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions
from kafkalite.security.acls import CLUSTER_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.gateway.call import Call
    from kafkalite.metadata.image import MetadataImage, PartitionImage, TopicImage
    from kafkalite.security.permissions import Permissions


MAX_TOPICS_PER_CREATION = 100
"""Maximum number of topics that one decision of the controller creates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataEra:
    """Traits of a range of Metadata versions."""

    empty_means_all: bool = False
    """An empty list requests all topics, as a null list does in later versions."""

    knows_topic_ids: bool = True
    """Whether topics can be requested by id; versions 10 and 11 have the field without support."""

    omits_offline_replicas: bool = False
    """Offline replicas are omitted and reported by an error, because there is no field for them."""


METADATA_ERAS = Eras(
    (0, MetadataEra(empty_means_all=True, knows_topic_ids=False, omits_offline_replicas=True)),
    (1, MetadataEra(knows_topic_ids=False)),
    (12, MetadataEra()),
)


def handle_metadata(call: Call, request: MetadataRequest) -> MetadataResponse:
    """Return the nodes and the requested topics; create missing topics if that is enabled."""
    era: MetadataEra = call.era
    node = call.node
    requested = request.topics
    image = node.image
    if requested is None or (era.empty_means_all and not requested):
        topics: list[TopicImage | MetadataResponse.MetadataResponseTopic] = [
            topic for topic in in_steps(image.topics.values()) if _may_describe(call, topic.name)
        ]
    else:
        _check_requested(call, requested)
        if any(topic.topic_id != ZERO_UUID for topic in requested):
            topics = _topics_by_id(call, image, requested)
        else:
            topics = _topics_by_name(call, request, image, requested)
    endpoints = node.known_endpoints(call.listener)
    alive_node_ids = frozenset(endpoint.node_id for endpoint in endpoints)
    has_partition_epochs = node.config.uses_partition_epochs
    response = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack
            )
            for endpoint in endpoints
        ],
        cluster_id=node.cluster.id,
        controller_id=node.image.controller_id,
        topics=[
            topic
            if isinstance(topic, MetadataResponse.MetadataResponseTopic)
            else _topic(
                topic,
                alive_node_ids,
                era,
                _operations(call, request, topic.name),
                has_epochs=has_partition_epochs,
            )
            for topic in in_steps(topics)
        ],
        cluster_authorized_operations=(
            cluster_operations(call)
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
    )
    if has_partition_epochs:
        response.max_incarnation_epoch = image.max_incarnation_epoch
    return response


def _operations(call: Call, request: MetadataRequest, topic: str) -> int:
    if not request.include_topic_authorized_operations:
        return NOT_REQUESTED
    return topic_operations(call, topic)


def _check_requested(call: Call, requested: Sequence[MetadataRequest.MetadataRequestTopic]) -> None:
    """Raise INVALID_REQUEST for a topic without a name, or with an id, in old versions."""
    era: MetadataEra = call.era
    if era.knows_topic_ids:
        return
    for topic in requested:
        if topic.name is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Topic name can not be null for version {call.api_version}",
            )
        if topic.topic_id != ZERO_UUID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Topic IDs are not supported in requests for version {call.api_version}",
            )


def _may_describe(call: Call, topic: str) -> bool:
    return call.allows(Operation.DESCRIBE, Resource.TOPIC, topic)


def _topics_by_id(
    call: Call,
    image: MetadataImage,
    requested: Sequence[MetadataRequest.MetadataRequestTopic],
) -> list[TopicImage | MetadataResponse.MetadataResponseTopic]:
    topic_ids = dict.fromkeys(topic.topic_id for topic in requested if topic.topic_id != ZERO_UUID)
    topics: list[TopicImage | MetadataResponse.MetadataResponseTopic] = []
    refused_names: list[str] = []
    for topic_id in in_steps(topic_ids):
        topic = image.topics_by_id.get(topic_id)
        if topic is not None and _may_describe(call, topic.name):
            topics.append(topic)
            continue
        code = ErrorCode.UNKNOWN_TOPIC_ID
        if topic is not None:
            # Topic ids are not secret, but the name of the topic is.
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused_names.append(topic.name)
        topics.append(
            MetadataResponse.MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id)
        )
    if refused_names:
        report_refused_topics(call, "Metadata", Operation.DESCRIBE, refused_names)
    return topics


def _topics_by_name(
    call: Call,
    request: MetadataRequest,
    image: MetadataImage,
    requested: Sequence[MetadataRequest.MetadataRequestTopic],
) -> list[TopicImage | MetadataResponse.MetadataResponseTopic]:
    """Return the topics in an image; unknown topics are created, but not in the result.

    A topic created here exists before the response is sent, unless the cluster has the pace of a
    real Kafka, but the response still says that it is unknown. So does Kafka's response, because
    Kafka creates the topic later; clients retry.
    """
    node = call.node
    all_names = dict.fromkeys(topic.name or "" for topic in requested)
    names = _describable(call, all_names)
    unknown = [name for name in in_steps(names) if name not in image.topics]
    may_create = request.allow_auto_topic_creation and node.config.bool("auto.create.topics.enable")
    if unknown and may_create and call.permissions is not None:
        unknown, not_creatable = _split_creatable(call, call.permissions, unknown)
        names = [name for name in in_steps(names) if name not in not_creatable]
    partitions = node.config.int("num.partitions")
    if unknown and may_create and len(unknown) * (1 + partitions) <= MAX_PARTITIONS_PER_REQUEST:
        _create_unknown(call, unknown)
    known = frozenset(names)
    return [
        image.topics.get(name)
        or MetadataResponse.MetadataResponseTopic(
            error_code=_unknown_topic_code(name),
            name=name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=_operations(call, request, name),
        )
        for name in in_steps(names)
    ] + [
        MetadataResponse.MetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name
        )
        for name in (in_steps(all_names) if len(known) < len(all_names) else ())
        if name not in known
    ]


def _create_unknown(call: Call, names: Sequence[str]) -> None:
    """Create topics, at once or with the delay of a real Kafka.

    Errors of the creation are not reported: the response has no field for them.
    """
    pace = call.node.cluster.pace
    with suppress(KafkaError):
        for batch in chunks(names, MAX_TOPICS_PER_CREATION):
            if pace is None:
                _create(call, batch)
            else:
                pace.create_later(batch, partial(_create_late, call))


def _create(call: Call, names: Sequence[str]) -> None:
    node = call.node
    quota = call.mutation_quota
    node.cluster.metadata.create_topics(
        [auto_created_topic(name, node.config) for name in names],
        charge=None if quota is None else quota.charge,
    )
    _report_created(call, names)


def _create_late(call: Call, names: Sequence[str]) -> None:
    """Create those of the topics that were not created since the request."""
    topics = call.node.cluster.metadata.image.topics
    missing = [name for name in names if name not in topics]
    if missing:
        with suppress(KafkaError):
            _create(call, missing)


def _report_created(call: Call, names: Iterable[str]) -> None:
    """Add the automatic creation of topics to their histories."""
    node = call.node
    for name in names:
        topic = node.cluster.metadata.image.topics.get(name)
        if topic is None:  # refused
            continue
        partitions = len(topic.partitions)
        facts = {
            "partitions": partitions,
            "client_id": call.client_id,
            "client_host": call.client_host,
        }
        text = (
            f"created automatically with {count_text(partitions, 'partition')}, because "
            f"client {call.client_id} at {client_address(call)} asked for its metadata"
        )
        node.history.add(Event(name, CREATED, text, facts, Entity.TOPIC), node.clock.now_ms())


def _describable(call: Call, all_names: Mapping[str, None]) -> list[str]:
    """Return the topics that the client may describe, and report the others."""
    names = [name for name in in_steps(all_names) if _may_describe(call, name)]
    if len(names) < len(all_names):
        describable = frozenset(names)
        refused = (name for name in in_steps(all_names) if name not in describable)
        report_refused_topics(call, "Metadata", Operation.DESCRIBE, refused)
    return names


def _split_creatable(
    call: Call, permissions: Permissions, names: list[str]
) -> tuple[list[str], frozenset[str]]:
    """Return the missing topics that the client may create, and the others, which are reported."""
    if permissions.allows(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME):
        return names, frozenset()
    creatable = [
        name for name in names if permissions.allows(Operation.CREATE, Resource.TOPIC, name)
    ]
    others = frozenset(names).difference(creatable)
    if others:
        report_refused_topics(
            call, "Metadata", Operation.CREATE, (name for name in names if name in others)
        )
    return creatable, others


def _unknown_topic_code(name: str) -> ErrorCode:
    if invalid_name_reason(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _topic(
    topic: TopicImage,
    alive_node_ids: frozenset[int],
    era: MetadataEra,
    operations: int,
    *,
    has_epochs: bool,
) -> MetadataResponse.MetadataResponseTopic:
    response = MetadataResponse.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(partition, alive_node_ids, era) for partition in in_steps(topic.partitions)
        ],
        topic_authorized_operations=operations,
    )
    if has_epochs:
        for answer, partition in zip(response.partitions, topic.partitions, strict=True):
            answer.incarnation_epoch = partition.incarnation_epoch
    return response


def _partition(
    partition: PartitionImage, alive_node_ids: frozenset[int], era: MetadataEra
) -> MetadataResponse.MetadataResponsePartition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    offline = [node_id for node_id in replicas if node_id not in alive_node_ids]
    error = ErrorCode.NONE
    leader = partition.leader
    if era.omits_offline_replicas and offline:
        replicas = [node_id for node_id in replicas if node_id in alive_node_ids]
        isr = [node_id for node_id in isr if node_id in alive_node_ids]
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    if leader not in alive_node_ids:
        leader, error = NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponse.MetadataResponsePartition(
        error_code=error,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )


def refuse_metadata(
    request: MetadataRequest, code: ErrorCode, message: str | None
) -> MetadataResponse:
    """Return the response with one error for the whole request and for each topic in it.

    Topics that are requested by their ids have an empty name, not a null.
    """
    from kafkalite.protocol.rows import refusal  # noqa: PLC0415 - few requests are refused

    response: MetadataResponse = refusal(MetadataRequest.API_KEY, request, code, message)
    for topic in in_steps(response.topics):
        topic.name = topic.name or ""
    return response


APIS = (
    Api(
        key=MetadataRequest.API_KEY,
        versions=Versions(0, 13),
        handler=handle_metadata,
        inline_bytes=0,
        refusal=refuse_metadata,
        eras=METADATA_ERAS,
    ),
)
