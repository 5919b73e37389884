"""The quorum of controllers, asked at a broker and at a controller."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kafkalite.protocol._generated.messages.add_raft_voter import AddRaftVoterRequest
from kafkalite.protocol._generated.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkalite.protocol._generated.messages.alter_configs import AlterConfigsRequest
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.describe_quorum import DescribeQuorumRequest
from kafkalite.protocol._generated.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.remove_raft_voter import RemoveRaftVoterRequest
from kafkalite.protocol._generated.messages.unregister_broker import UnregisterBrokerRequest
from kafkalite.protocol._generated.messages.unregister_controller import (
    UnregisterControllerRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.scenarios.configs import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    alter,
    describe,
)
from tests.conformance.scenarios.features import (
    KRAFT,
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    update,
)
from tests.oracle.real_kafka import CLUSTER_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.protocol.message import Message
    from tests.conformance.scenario_cluster import ScenarioCluster

IGNORED: Final = frozenset(("high_watermark", "log_end_offset", "leader_epoch"))
"""Offsets and the epoch of the metadata log differ, because Kafka's has other records."""

METADATA: Final = "__cluster_metadata"
_DIRECTORY: Final = bytes(range(16))
_NO_DIRECTORY: Final = bytes(16)
_OWN_DIRECTORY: Final = re.compile(r"directoryId=(?!AAECAwQFBgcICQoLDA0ODw)[\w-]{22}")

_Listener = AddRaftVoterRequest.Listener
_UNREACHABLE: Final = [_Listener(name="CONTROLLER", host="127.0.0.1", port=1)]


def quorum(*topics: tuple[str, Sequence[int]]) -> DescribeQuorumRequest:
    """Request the state of partitions."""
    rows = DescribeQuorumRequest
    return rows(
        topics=[
            rows.TopicData(
                topic_name=name,
                partitions=[rows.PartitionData(partition_index=index) for index in indexes],
            )
            for name, indexes in topics
        ]
    )


def _ask_with_text(cluster: ScenarioCluster, request: Message, version: int) -> None:
    """Ask, and put the message of the error into the transcript word for word."""
    answer = cluster.ask(request, version)
    text = None if answer is None else answer.error_message
    cluster.record("message", text and _OWN_DIRECTORY.sub("directoryId=own", text))


def partitions_are_described(cluster: ScenarioCluster) -> None:
    for version in (0, 1, 2):
        for topics in (
            ((METADATA, (0,)),),
            (),
            (("t", (0,)),),
            ((METADATA, (1,)),),
            ((METADATA, (-1,)),),
            ((METADATA, (0, 1)),),
            ((METADATA, (0, 0)),),
            ((METADATA, ()),),
            ((METADATA, (0,)), ("t", (0, 1))),
            ((METADATA, (0,)), (METADATA, (0,))),
        ):
            cluster.ask(quorum(*topics), version)


def _own_directory(cluster: ScenarioCluster) -> bytes:
    answer = cluster.probe(quorum((METADATA, (0,))), 2)
    directory: bytes = answer.topics[0].partitions[0].current_voters[0].replica_directory_id
    return directory


def voters_are_not_added(cluster: ScenarioCluster) -> None:
    own = _own_directory(cluster)
    invalid: Iterable[Mapping[str, Any]] = (
        {"cluster_id": "x", "voter_id": -1},
        {"cluster_id": ""},
        {"cluster_id": None, "voter_id": -1},
        {"voter_id": -5},
        {"voter_directory_id": _NO_DIRECTORY},
        {"voter_id": -1, "listeners": []},
        {"listeners": []},
        {"listeners": [], "voter_id": 1},
        {"listeners": [_Listener(name="PLAINTEXT", host="127.0.0.1", port=1)]},
        {
            "listeners": [
                _Listener(name=name, host="no.such.host.invalid", port=9) for name in "bacxyz"
            ]
        },
        {"voter_id": 1},
        {"voter_id": 1, "voter_directory_id": own},
        {"voter_id": 1, "cluster_id": None},
    )
    for version in (0, 1):
        for fields in invalid:
            _ask_with_text(cluster, _addition(**fields), version)


def _addition(**fields: Any) -> AddRaftVoterRequest:  # noqa: ANN401 - any fields
    valid: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "timeout_ms": 1000,
        "voter_id": 7,
        "voter_directory_id": _DIRECTORY,
        "listeners": _UNREACHABLE,
    }
    return AddRaftVoterRequest(**(valid | fields))


def unreachable_voters_are_not_added(cluster: ScenarioCluster) -> None:
    """Before a second attempt, Kafka waits for a while in which it answers with another text."""
    lower_case = [_Listener(name="controller", host="127.0.0.1", port=1)]
    variants: Sequence[Mapping[str, Any]] = (
        {},
        {"listeners": lower_case},
        {"timeout_ms": 0},
        {"ack_when_committed": False},
    )
    for voter_id, fields in enumerate(variants, 20):
        request = _addition(**fields, voter_id=voter_id)
        answer = cluster.call_until(
            request, 1, lambda answer: answer.error_message.startswith("Aborted")
        )
        cluster.record("message", answer.error_message)


def a_lagging_voter_is_not_added(cluster: ScenarioCluster) -> None:
    described = cluster.probe(quorum((METADATA, (0,))), 2)
    ((own,),) = (node.listeners for node in described.nodes)
    listeners = [_Listener(name=own.name, host=own.host, port=own.port)]
    _ask_with_text(cluster, _addition(voter_id=30, listeners=listeners), 1)


def voters_are_not_removed(cluster: ScenarioCluster) -> None:
    own = _own_directory(cluster)
    for cluster_id, voter_id, directory in (
        ("x", -1, _DIRECTORY),
        ("", 1, own),
        (None, -1, _DIRECTORY),
        (None, 1, _NO_DIRECTORY),
        (CLUSTER_ID, 7, _DIRECTORY),
        (CLUSTER_ID, 1, _DIRECTORY),
        (None, 7, own),
        (CLUSTER_ID, 1, own),
    ):
        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory
        )
        _ask_with_text(cluster, request, 0)


def controllers_and_unknown_brokers_are_not_unregistered(cluster: ScenarioCluster) -> None:
    for controller_id in (1, 2, 99, -1):
        _ask_with_text(cluster, UnregisterControllerRequest(controller_id=controller_id), 0)
    for broker_id in (2, 99, -1):
        _ask_with_text(cluster, UnregisterBrokerRequest(broker_id=broker_id), 0)


def the_nodes_are_described(cluster: ScenarioCluster) -> None:
    for version in (0, 1, 2):
        for endpoint_type in (1, 2, 3, -1) if version else (1,):
            for authorized in (False, True):
                request = DescribeClusterRequest(
                    endpoint_type=endpoint_type, include_cluster_authorized_operations=authorized
                )
                _ask_with_text(cluster, request, version)


def features_have_a_version_of_the_quorum(cluster: ScenarioCluster) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    for version in (3, 4):
        answer = cluster.probe(request, version)
        for rows in (answer.supported_features, answer.finalized_features):
            names = [row.name for row in rows]
            cluster.record(f"features of v{version}", sorted(names))


SCENARIOS = (
    partitions_are_described,
    voters_are_not_added,
    unreachable_voters_are_not_added,
    a_lagging_voter_is_not_added,
    voters_are_not_removed,
    controllers_and_unknown_brokers_are_not_unregistered,
    the_nodes_are_described,
    features_have_a_version_of_the_quorum,
)
"""Scenarios for both listeners."""


def apis_of_controllers_are_listed(cluster: ScenarioCluster) -> None:
    """Kafka lists APIs between controllers and brokers, too, which kafkalite does not have."""
    between_nodes = {1, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82}
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    for version in (0, 4):
        rows = cluster.probe(request, version).api_keys
        cluster.record(
            f"APIs of v{version}",
            {
                str(row.api_key): [row.min_version, row.max_version]
                for row in rows
                if row.api_key not in between_nodes
            },
        )


def topics_are_managed_by_the_controller(cluster: ScenarioCluster) -> None:
    topic = CreateTopicsRequest.CreatableTopic(
        name=cluster.name, num_partitions=1, replication_factor=1
    )
    for _ in range(2):
        cluster.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 4)
    more = CreatePartitionsRequest.CreatePartitionsTopic(name=cluster.name, count=2)
    cluster.ask(CreatePartitionsRequest(topics=[more], timeout_ms=10_000), 3)
    cluster.ask(alter(TOPIC, cluster.name, ("retention.ms", SET, "5000")), 1)
    cluster.ask(describe(TOPIC, cluster.name, ["retention.ms"], fully=False), 4)
    cluster.ask(ElectLeadersRequest(topic_partitions=[], timeout_ms=10_000), 2)
    cluster.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000), 0)
    cluster.ask(AlterClientQuotasRequest(entries=[]), 1)
    state = DeleteTopicsRequest.DeleteTopicState(name=cluster.name)
    cluster.ask(DeleteTopicsRequest(topics=[state], timeout_ms=10_000), 6)


def _change(kind: int, name: str, *configs: tuple[str, int, str | None]) -> Any:  # noqa: ANN401 - a row
    rows = IncrementalAlterConfigsRequest
    return rows.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            rows.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in configs
        ],
    )


def settings_are_altered_at_the_controller(cluster: ScenarioCluster) -> None:
    """Send what a broker would refuse or change before it passes the request on."""
    topic = cluster.name
    new = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    cluster.ask(CreateTopicsRequest(topics=[new], timeout_ms=10_000), 4)
    retention = ("retention.ms", SET, "5")
    node = ("log.retention.ms", SET, "5")
    level = ("root", SET, "ERROR")
    for resources in (
        [_change(TOPIC, topic, retention)] * 2,
        [_change(TOPIC, topic, retention)] * 3,
        [_change(99, topic, retention)],
        [_change(1, topic, retention)],
        [_change(0, topic, retention)],
        [_change(TOPIC, topic, retention, ("retention.ms", SET, "6"))],
        [_change(TOPIC, topic, ("retention.ms", SET, None))],
        [_change(TOPIC, topic, ("cleanup.policy", APPEND, "compact"))],
        [_change(TOPIC, topic, ("retention.ms", SUBTRACT, "5"))],
        [_change(TOPIC, "missing", retention)],
        *([_change(BROKER, name, node)] for name in ("", "1", "2", "77", "x", "-1")),
        *([_change(BROKER_LOGGER, name, level)] for name in ("", "1", "2", "x")),
        [_change(BROKER_LOGGER, "1", level)] * 2,
        [_change(BROKER_LOGGER, "1", ("root", 4, "ERROR"))],
        [_change(BROKER_LOGGER, "1", ("root", SET, None))],
        [_change(BROKER_LOGGER, "1", ("root", DELETE, None))],
    ):
        cluster.ask(IncrementalAlterConfigsRequest(resources=resources, validate_only=True), 1)
        legacy = [
            AlterConfigsRequest.AlterConfigsResource(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=[
                    AlterConfigsRequest.AlterableConfig(name=config.name, value=config.value)
                    for config in each.configs
                ],
            )
            for each in resources
        ]
        cluster.ask(AlterConfigsRequest(resources=legacy, validate_only=True), 2)


def apis_that_the_controller_does_not_serve(cluster: ScenarioCluster) -> None:
    # A request for all users gets no answer from Kafka.
    user = DescribeUserScramCredentialsRequest.UserName(name="u")
    cluster.ask(DescribeUserScramCredentialsRequest(users=[user]), 0)
    cluster.ask(DescribeDelegationTokenRequest(owners=None), 3)
    cluster.ask(MetadataRequest(topics=None), 12)
    cluster.ask(ListGroupsRequest(), 5)


CONTROLLER_SCENARIOS = (
    apis_of_controllers_are_listed,
    topics_are_managed_by_the_controller,
    settings_are_altered_at_the_controller,
    apis_that_the_controller_does_not_serve,
)
"""Scenarios for the listener for controllers."""


def fixed_voters_are_upgraded(cluster: ScenarioCluster) -> None:
    partitions_are_described(cluster)
    voters_are_not_added(cluster)
    voters_are_not_removed(cluster)
    features_have_a_version_of_the_quorum(cluster)
    for level, upgrade_type, validate_only in (
        (0, UPGRADE, False),
        (0, SAFE_DOWNGRADE, False),
        (2, UPGRADE, False),
        (-1, UPGRADE, False),
        (1, SAFE_DOWNGRADE, False),
        (1, UNSAFE_DOWNGRADE, False),
        (1, UPGRADE, True),
        (1, UPGRADE, False),
        (1, UPGRADE, False),
        (0, UPGRADE, False),
        (0, SAFE_DOWNGRADE, False),
        (0, UNSAFE_DOWNGRADE, False),
    ):
        request = update((KRAFT, level, upgrade_type), validate_only=validate_only)
        _ask_with_text(cluster, request, 1)
    cluster.call_until(
        ApiVersionsRequest(client_software_name="test", client_software_version="1"),
        4,
        lambda answer: any(row.name == KRAFT for row in answer.finalized_features),
        is_recorded=False,
    )
    features_have_a_version_of_the_quorum(cluster)
    cluster.call_until(
        _addition(voter_id=1),
        1,
        lambda answer: answer.error_code == ErrorCode.DUPLICATE_VOTER,
    )
    partitions_are_described(cluster)
    voters_are_not_added(cluster)
    voters_are_not_removed(cluster)
