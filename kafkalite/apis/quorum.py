"""The quorum of controllers: DescribeQuorum, AddRaftVoter, RemoveRaftVoter, UnregisterController.

They answer as a KRaft cluster with one controller does: its only voter cannot be removed, and no
other voter can be added, because no other controller reads the metadata log.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from kafkalite.cluster.quorum import (
    ReplicaKey,
    controller_id,
    controller_listener,
    controller_node,
    describe_quorum,
    voter_key,
)
from kafkalite.coordinator.java_order import JavaHashMap, string_hash
from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, Api
from kafkalite.metadata.features import (
    FIRST_WITH_CONTROLLER_UNREGISTRATION,
    KRAFT_VERSION,
    METADATA_VERSION,
)
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.protocol._generated.messages.add_raft_voter import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
)
from kafkalite.protocol._generated.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from kafkalite.protocol._generated.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from kafkalite.protocol._generated.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.cluster.quorum import Replica
    from kafkalite.gateway.call import Call

_METADATA_PARTITION: Final = 0
_MAX_SORTED_CHARACTERS: Final = 16_384
"""Characters of the names of endpoints in a message: their hashes take long to compute."""
_MAX_LISTED_ENDPOINTS: Final = 16


def handle_describe_quorum(call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Return the state of the metadata partition; other partitions are unknown.

    A request with other partitions, or with more than one, gets no state at all, as in Kafka.
    """
    if not _names_metadata_partition(request):
        return _unknown_partitions(request)
    cluster = call.node.cluster
    quorum = describe_quorum(cluster)
    partition = DescribeQuorumResponse.PartitionData(
        partition_index=_METADATA_PARTITION,
        error_message="",
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[_replica_state(quorum.voter)],
        observers=[_replica_state(observer) for observer in quorum.observers],
    )
    topic = DescribeQuorumResponse.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return DescribeQuorumResponse(error_message="", topics=[topic], nodes=_voter_nodes(cluster))


def _names_metadata_partition(request: DescribeQuorumRequest) -> bool:
    if len(request.topics) != 1:
        return False
    (topic,) = request.topics
    if topic.topic_name != METADATA_TOPIC or len(topic.partitions) != 1:
        return False
    return topic.partitions[0].partition_index == _METADATA_PARTITION


def _unknown_partitions(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        error_message="",
        topics=[
            DescribeQuorumResponse.TopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponse.PartitionData(
                        partition_index=each.partition_index,
                        error_code=code,
                        error_message=code.message,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _replica_state(replica: Replica) -> DescribeQuorumResponse.ReplicaState:
    return DescribeQuorumResponse.ReplicaState(
        replica_id=replica.key.node_id,
        replica_directory_id=replica.key.directory_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )


def _voter_nodes(cluster: Cluster) -> list[DescribeQuorumResponse.Node]:
    """Return the voter with its listener, if it has one for controllers."""
    controller, name = controller_node(cluster), controller_listener(cluster.config)
    endpoint = controller.endpoints.get(name)
    listeners = (
        []
        if endpoint is None
        else [DescribeQuorumResponse.Listener(name=name, host=endpoint.host, port=endpoint.port)]
    )
    return [DescribeQuorumResponse.Node(node_id=controller_id(cluster), listeners=listeners)]


def handle_add_raft_voter(call: Call, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Refuse the request: a voter must be a controller that reads the metadata log.

    Raises KafkaError with the first error that Kafka's leader finds. The broker does not connect to
    the endpoint of the voter. Kafka's leader cannot reach it, or finds that the voter lags.
    """
    cluster = call.node.cluster
    _check_cluster(cluster, request.cluster_id)
    voter = _voter(request.voter_id, request.voter_directory_id, "Add")
    endpoints = {
        listener.name.upper(): (listener.host, listener.port) for listener in request.listeners
    }
    name = controller_listener(cluster.config)
    if name not in endpoints:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Add voter request didn't include the endpoint ({_endpoints_text(endpoints)}) for the "
            f"default listener ListenerName({name})",
        )
    _check_kraft_version(cluster, "adding")
    member = voter_key(cluster)
    if voter.node_id == member.node_id:
        raise KafkaError(
            ErrorCode.DUPLICATE_VOTER,
            f"The voter id for {voter} is already part of the set of voters [{member}].",
        )
    known = controller_node(cluster).endpoints.get(name)
    if known is not None and (known.host, known.port) == endpoints[name]:
        reason = f"for {voter} since it is lagging behind"
    else:
        reason = "for since API_VERSIONS returned an error BROKER_NOT_AVAILABLE"
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Aborted add voter operation {reason}")


def _endpoints_text(endpoints: Mapping[str, tuple[str, int]]) -> str:
    """Return endpoints in the form and the order of Kafka's texts.

    The text of too many endpoints has the first ones of the request: its end is not in the message
    anyway.
    """
    if sum(map(len, endpoints)) > _MAX_SORTED_CHARACTERS:
        endpoints = dict(islice(endpoints.items(), _MAX_LISTED_ENDPOINTS))
        return f"Endpoints(endpoints={{{', '.join(map(_endpoint_text, endpoints.items()))}, …}})"
    texts: JavaHashMap[str, str] = JavaHashMap(string_hash, initial_capacity=len(endpoints))
    for name, address in endpoints.items():
        texts.put(name, _endpoint_text((name, address)))
    return f"Endpoints(endpoints={{{', '.join(texts.values())}}})"


def _endpoint_text(endpoint: tuple[str, tuple[str, int]]) -> str:
    name, (host, port) = endpoint
    return f"ListenerName({name})={host}/<unresolved>:{port}"


def handle_remove_raft_voter(
    call: Call, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    """Refuse the request: the only voter cannot be removed.

    Raises KafkaError with the first error that Kafka's leader finds.
    """
    cluster = call.node.cluster
    _check_cluster(cluster, request.cluster_id)
    voter = _voter(request.voter_id, request.voter_directory_id, "Remove")
    _check_kraft_version(cluster, "removing")
    raise KafkaError(
        ErrorCode.VOTER_NOT_FOUND,
        f"Cannot remove voter {voter} from the set of voters [{voter_key(cluster)}]",
    )


def _check_cluster(cluster: Cluster, requested_id: str | None) -> None:
    if requested_id not in (None, cluster.id):
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f'The given id "{requested_id}" doesn\'t match the cluster id "{cluster.id}"',
        )


def _voter(node_id: int, directory_id: bytes, operation: str) -> ReplicaKey:
    """Return the voter of a request; raises KafkaError INVALID_REQUEST without its directory."""
    if node_id < 0 or directory_id == ZERO_UUID:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{operation} voter request didn't include a valid voter",
        )
    return ReplicaKey(node_id, directory_id)


def _check_kraft_version(cluster: Cluster, operation: str) -> None:
    """Raise KafkaError UNSUPPORTED_VERSION if the voters are fixed."""
    if not cluster.metadata.image.features.get(KRAFT_VERSION):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Cluster doesn't support {operation} voter because the {KRAFT_VERSION} feature is 0",
        )


def handle_unregister_controller(
    call: Call, request: UnregisterControllerRequest
) -> UnregisterControllerResponse:
    """Refuse the request: the only registered controller is the active one.

    Raises KafkaError with the first error that Kafka's controller finds.
    """
    cluster, requested_id = call.node.cluster, request.controller_id
    if requested_id == controller_id(cluster):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."
        )
    level = cluster.metadata.image.features.get(METADATA_VERSION, 0)
    if level < FIRST_WITH_CONTROLLER_UNREGISTRATION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration.",
        )
    raise KafkaError(
        ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
        f"Controller ID {requested_id} is not currently registered.",
    )


APIS = (
    Api(
        key=DescribeQuorumRequest.API_KEY,
        versions=Versions(0, 2),
        handler=handle_describe_quorum,
    ),
    Api(
        key=AddRaftVoterRequest.API_KEY,
        other_pausing_lists=frozenset(("listeners",)),
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 1),
        handler=handle_add_raft_voter,
    ),
    Api(
        key=RemoveRaftVoterRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_remove_raft_voter,
    ),
    Api(
        key=UnregisterControllerRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_unregister_controller,
    ),
)
