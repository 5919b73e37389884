"""Metadata and DescribeTopicPartitions: where everything is.

An answer is drawn from one image of the metadata and from the addresses of the listener that the
client came in by, so a client is never sent to an address it cannot reach.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.authorized import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from kafkalite.apis.contract import Api, Eras
from kafkalite.metadata.image import INTERNAL_TOPICS, NO_LEADER
from kafkalite.metadata.internal_topics import topic_as_wanted
from kafkalite.metadata.topic_names import name_complaint
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.apis.context import RequestContext
    from kafkalite.metadata.image import MetadataImage, PartitionImage, TopicImage


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataEra:
    """What a range of Metadata versions means, once its bytes are out of the way."""

    empty_means_all: bool = False
    """Before a null list could say it, an empty one asked for every topic."""

    knows_topic_ids: bool = True
    """Whether a topic may be asked for by id; two versions had the field and not the meaning."""

    leaves_out_offline: bool = False
    """Replicas that are away are left out and told by an error, for want of a field."""


METADATA_ERAS = Eras(
    (0, MetadataEra(empty_means_all=True, knows_topic_ids=False, leaves_out_offline=True)),
    (1, MetadataEra(knows_topic_ids=False)),
    (12, MetadataEra()),
)


def handle_metadata(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Tell of the nodes, and of the topics asked for; make those that may be made on the way."""
    era: MetadataEra = context.era
    services = context.services
    asked = request.topics
    if asked is None or (era.empty_means_all and not asked):
        found: list[TopicImage | MetadataResponse.MetadataResponseTopic] = [
            *services.metadata.image.topics.values()
        ]
    else:
        _check_asked(context, asked)
        if any(topic.topic_id != ZERO_UUID for topic in asked):
            found = _topics_by_id(services.metadata.image, asked)
        else:
            found = _topics_by_name(context, request, asked)
    endpoints = services.endpoints(context.listener)
    alive = frozenset(endpoint.node_id for endpoint in endpoints)
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack
            )
            for endpoint in endpoints
        ],
        cluster_id=services.cluster_id,
        controller_id=services.metadata.image.controller_id,
        topics=[
            topic
            if isinstance(topic, MetadataResponse.MetadataResponseTopic)
            else _topic(topic, alive, era, operations)
            for topic in found
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _check_asked(
    context: RequestContext, asked: Sequence[MetadataRequest.MetadataRequestTopic]
) -> None:
    """Raise INVALID_REQUEST for a topic without a name, or by id, where that has no meaning yet."""
    era: MetadataEra = context.era
    if era.knows_topic_ids:
        return
    for topic in asked:
        if topic.name is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Topic name can not be null for version {context.api_version}",
            )
        if topic.topic_id != ZERO_UUID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Topic IDs are not supported in requests for version {context.api_version}",
            )


def _topics_by_id(
    image: MetadataImage, asked: Sequence[MetadataRequest.MetadataRequestTopic]
) -> list[TopicImage | MetadataResponse.MetadataResponseTopic]:
    wanted = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != ZERO_UUID)
    return [
        image.topics_by_id.get(topic_id)
        or MetadataResponse.MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
        )
        for topic_id in wanted
    ]


def _topics_by_name(
    context: RequestContext,
    request: MetadataRequest,
    asked: Sequence[MetadataRequest.MetadataRequestTopic],
) -> list[TopicImage | MetadataResponse.MetadataResponseTopic]:
    services = context.services
    names = list(dict.fromkeys(topic.name or "" for topic in asked))
    # A topic made here is there before the answer is written, and the answer still says that it is
    # unknown: Kafka's does, which only begins to make it, and clients are built to ask again.
    image = services.metadata.image
    unknown = [name for name in names if name not in image.topics]
    may_create = services.config.bool("auto.create.topics.enable")
    if unknown and may_create and request.allow_auto_topic_creation:
        # Nor does it say why none was made: for those that are there, nothing is wrong.
        with suppress(KafkaError):
            services.metadata.create_topics(
                [topic_as_wanted(name, services.config) for name in unknown]
            )
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    return [
        image.topics.get(name)
        or MetadataResponse.MetadataResponseTopic(
            error_code=_unknown_topic(name),
            name=name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=operations,
        )
        for name in names
    ]


def _unknown_topic(name: str) -> ErrorCode:
    if name_complaint(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _topic(
    topic: TopicImage, alive: frozenset[int], era: MetadataEra, operations: int
) -> MetadataResponse.MetadataResponseTopic:
    return MetadataResponse.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(partition, alive, era) for partition in topic.partitions],
        topic_authorized_operations=operations,
    )


def _partition(
    partition: PartitionImage, alive: frozenset[int], era: MetadataEra
) -> MetadataResponse.MetadataResponsePartition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    offline = [node_id for node_id in replicas if node_id not in alive]
    error = ErrorCode.NONE
    leader = partition.leader
    if era.leaves_out_offline and offline:
        replicas = [node_id for node_id in replicas if node_id in alive]
        isr = [node_id for node_id in isr if node_id in alive]
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    if leader not in alive:
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
    request: MetadataRequest,
    code: ErrorCode,
    message: str | None,  # noqa: ARG001 - there is no field for it
) -> MetadataResponse:
    """Say one error for every topic asked for, and for the whole where there is a field."""
    return MetadataResponse(
        topics=[
            MetadataResponse.MetadataResponseTopic(
                error_code=code, name=topic.name or "", topic_id=topic.topic_id
            )
            for topic in request.topics or ()
        ],
        error_code=code,
    )


APIS = (
    Api(
        key=MetadataRequest.API_KEY,
        versions=Versions(0, 13),
        handler=handle_metadata,
        refuse=refuse_metadata,
        eras=METADATA_ERAS,
    ),
)
