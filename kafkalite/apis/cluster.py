"""DescribeCluster, UnregisterBroker and ElectLeaders: nodes, and leaders of partitions."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from kafkalite.apis.authorized_operations import NOT_REQUESTED, cluster_operations
from kafkalite.apis.timeouts import check_timeout
from kafkalite.gateway.api import Api
from kafkalite.metadata.leadership import ElectionType
from kafkalite.ports.turns import pause
from kafkalite.protocol._generated.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kafkalite.protocol._generated.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from kafkalite.protocol._generated.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.gateway.call import Call

MAX_PARTITIONS_PER_ELECTION = 500
"""Maximum number of partitions per decision of the controller; longer elections take several."""

_BROKERS, _CONTROLLERS = 1, 2
"""Endpoint types of DescribeCluster (KIP-919)."""


def handle_describe_cluster(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Return the nodes, with the addresses of the listener that received the request.

    Fenced nodes are included on request (KIP-1073).
    """
    if request.endpoint_type == _CONTROLLERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            ErrorText.WRONG_ENDPOINT_TYPE.format(actual="BROKER", requested="CONTROLLER"),
        )
    if request.endpoint_type != _BROKERS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"Unsupported endpoint type {request.endpoint_type}",
        )
    node = call.node
    return DescribeClusterResponse(
        cluster_id=node.cluster.id,
        controller_id=node.image.controller_id,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=endpoint.node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=endpoint.rack,
                is_fenced=node.image.brokers[endpoint.node_id].is_fenced,
            )
            for endpoint in node.known_endpoints(
                call.listener, include_fenced_nodes=request.include_fenced_brokers
            )
        ],
        cluster_authorized_operations=(
            cluster_operations(call)
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
    )


def handle_unregister_broker(
    call: Call, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Take a node out of the cluster until it is started again.

    A running node is unregistered too. As in Kafka, it is then in no ISR, leads no partition and
    is in no response with the nodes of the cluster, but clients that are connected to it are
    served. Kafka's broker does not register again before its process is restarted.
    """
    call.node.cluster.metadata.unregister_broker(request.broker_id)
    # Kafka's response has no null here.
    return UnregisterBrokerResponse(error_message="")


def _partitions_to_elect(call: Call, request: ElectLeadersRequest) -> Iterator[tuple[str, int]]:
    """Yield the partitions in the request, or all partitions if it has no list."""
    if request.topic_partitions is not None:
        for requested in request.topic_partitions:
            for index in requested.partitions:
                yield requested.topic, index
        return
    for topic in call.node.cluster.metadata.image.topics.values():
        for partition in topic.partitions:
            yield topic.name, partition.index


def handle_elect_leaders(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect leaders; without a list, the response omits partitions that need no election."""
    has_partition_list = request.topic_partitions is not None
    if has_partition_list and not request.topic_partitions:
        return ElectLeadersResponse()
    check_timeout(request.timeout_ms)
    try:
        election_type = ElectionType(request.election_type)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
        ) from None
    # A topic is in the response even if all of its partitions are omitted.
    results: dict[str, ElectLeadersResponse.ReplicaElectionResult] = {}
    partitions = _partitions_to_elect(call, request)
    while batch := list(islice(partitions, MAX_PARTITIONS_PER_ELECTION)):
        errors = call.node.cluster.metadata.elect_leaders(batch, election_type)
        for (topic, index), error in zip(batch, errors, strict=True):
            result = results.get(topic)
            if result is None:
                result = results[topic] = ElectLeadersResponse.ReplicaElectionResult(topic=topic)
            code = ErrorCode.NONE if error is None else error.code
            if has_partition_list or code is not ErrorCode.ELECTION_NOT_NEEDED:
                result.partition_result.append(
                    ElectLeadersResponse.PartitionResult(
                        partition_id=index,
                        error_code=code,
                        error_message=None if error is None else error.message or code.message,
                    )
                )
        pause()
    return ElectLeadersResponse(replica_election_results=list(results.values()))


APIS = (
    Api(
        key=DescribeClusterRequest.API_KEY,
        versions=Versions(0, 2),
        handler=handle_describe_cluster,
    ),
    Api(
        key=ElectLeadersRequest.API_KEY,
        versions=Versions(0, 2),
        handler=handle_elect_leaders,
        inline_bytes=0,
    ),
    Api(
        key=UnregisterBrokerRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_unregister_broker,
    ),
)
