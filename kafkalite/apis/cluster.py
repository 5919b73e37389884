"""DescribeCluster and ElectLeaders: the nodes, and who leads what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.authorized import CLUSTER_OPERATIONS, NOT_ASKED
from kafkalite.apis.contract import Api
from kafkalite.metadata.elections import ElectionType
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kafkalite.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext

_BROKERS, _CONTROLLERS = 1, 2
"""Endpoint types of DescribeCluster (KIP-919)."""


def handle_describe_cluster(
    context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Tell of the nodes behind the listener that was asked."""
    if request.endpoint_type == _CONTROLLERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
            "type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"Unsupported endpoint type {request.endpoint_type}",
        )
    services = context.services
    return DescribeClusterResponse(
        cluster_id=services.cluster_id,
        controller_id=services.metadata.image.controller_id,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=endpoint.node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=endpoint.rack,
            )
            for endpoint in services.endpoints(context.listener)
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def refuse_describe_cluster(
    request: DescribeClusterRequest,  # noqa: ARG001 - the answer is the same for all
    code: ErrorCode,
    message: str | None,
) -> DescribeClusterResponse:
    """Say one error for the whole request."""
    return DescribeClusterResponse(error_code=code, error_message=message or code.message)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The partitions an election is wanted for, and whether they were named."""

    partitions: list[tuple[str, int]]
    named: bool


def _wanted(context: RequestContext, request: ElectLeadersRequest) -> _Wanted:
    if request.topic_partitions is not None:
        return _Wanted(
            [
                (topic.topic, index)
                for topic in request.topic_partitions
                for index in topic.partitions
            ],
            named=True,
        )
    image = context.services.metadata.image
    return _Wanted(
        [
            (topic.name, partition.index)
            for topic in image.topics.values()
            for partition in topic.partitions
        ],
        named=False,
    )


def handle_elect_leaders(
    context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Elect the leaders wanted; of all partitions, tell only of those it made a difference to."""
    try:
        kind = ElectionType(request.election_type)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
        ) from None
    wanted = _wanted(context, request)
    outcome = context.services.metadata.elect_leaders(wanted.partitions, kind)
    # Every topic is named, even one with nothing to tell.
    results = {
        topic: ElectLeadersResponse.ReplicaElectionResult(topic=topic)
        for topic, _ in wanted.partitions
    }
    for (topic, index), error in zip(wanted.partitions, outcome, strict=True):
        code = ErrorCode.NONE if error is None else error.code
        if code is ErrorCode.ELECTION_NOT_NEEDED and not wanted.named:
            continue
        results[topic].partition_result.append(
            ElectLeadersResponse.PartitionResult(
                partition_id=index,
                error_code=code,
                error_message=None if error is None else error.message or code.message,
            )
        )
    return ElectLeadersResponse(replica_election_results=list(results.values()))


def refuse_elect_leaders(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None
) -> ElectLeadersResponse:
    """Say one error for the whole, and for every partition that was named."""
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ElectLeadersResponse.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    ElectLeadersResponse.PartitionResult(
                        partition_id=index, error_code=code, error_message=message
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


APIS = (
    Api(
        key=DescribeClusterRequest.API_KEY,
        versions=Versions(0, 2),
        handler=handle_describe_cluster,
        refuse=refuse_describe_cluster,
    ),
    Api(
        key=ElectLeadersRequest.API_KEY,
        versions=Versions(0, 2),
        handler=handle_elect_leaders,
        refuse=refuse_elect_leaders,
    ),
)
