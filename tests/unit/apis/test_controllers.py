"""The APIs of a listener for controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.authorization.step import AuthorizationStep
from kafkalite.apis.controllers import CONTROLLER_APIS, controller_api_finder
from kafkalite.apis.table import TABLE
from kafkalite.config.releases import emulated_release
from kafkalite.gateway.gateway import Gateway
from kafkalite.gateway.steps import StepOrder
from kafkalite.protocol._generated.messages.alter_configs import AlterConfigsRequest
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_acls import DescribeAclsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.update_features import UpdateFeaturesRequest
from kafkalite.protocol.acl_operations import Entity, Operation, Resource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.security.acls import CLUSTER_NAME, Acl, PatternType, PermissionType
from kafkalite.security.authorizer import AuthorizerSettings
from tests.cluster.cluster import TestCluster, raise_fault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.protocol.message import Message

BROKERS, CONTROLLERS = 1, 2


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    """Return a cluster of two nodes whose clients are those of the controller."""
    wire = TestCluster(tmp_path, nodes=2)
    finder = controller_api_finder(wire.config.release)
    wire.gateway = Gateway(finder, raise_fault)
    for node in wire.cluster.nodes.values():
        node.set_endpoint("CONTROLLER", "controller.test", 9192 + node.id)
    yield wire
    wire.end()


def test_apis_of_controllers_are_listed(wire: TestCluster) -> None:
    rows = wire.ask(ApiVersionsRequest(), 2).api_keys
    listed = {row.api_key: (row.min_version, row.max_version) for row in rows}
    assert listed == {key: (TABLE[key].lowest, TABLE[key].highest) for key in CONTROLLER_APIS}
    assert ApiKey.METADATA not in listed


def test_an_older_release_lacks_later_apis() -> None:
    find = controller_api_finder(emulated_release("3.8"))
    assert find(ApiKey.ADD_RAFT_VOTER) is None
    quorum = find(ApiKey.DESCRIBE_QUORUM)
    assert quorum is not None
    assert quorum.versions.highest == 1


def test_a_request_for_brokers_closes_the_connection(wire: TestCluster) -> None:
    with pytest.raises(ProtocolViolation, match="Metadata"):
        wire.ask(MetadataRequest(topics=None), 12)


def described(answer: Any) -> list[tuple[int, str, int]]:  # noqa: ANN401 - a generated response
    return [(each.broker_id, each.host, each.port) for each in answer.brokers]


@pytest.mark.parametrize("version", [1, 2])
def test_the_controller_is_described_at_every_node(wire: TestCluster, version: int) -> None:
    request = DescribeClusterRequest(
        endpoint_type=CONTROLLERS, include_cluster_authorized_operations=True
    )
    for node in (1, 2):
        answer = wire.ask(request, version, node)
        assert (answer.error_code, answer.endpoint_type) == (ErrorCode.NONE, CONTROLLERS)
        assert (answer.cluster_id, answer.controller_id) == ("cluster", 1)
        assert described(answer) == [(1, "controller.test", 9193)]
        assert answer.cluster_authorized_operations > 0
    wire.cluster.node_control.stop(1)
    answer = wire.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS), version, 2)
    assert described(answer) == [(2, "controller.test", 9194)]
    assert answer.cluster_authorized_operations == -(1 << 31)


@pytest.mark.parametrize(
    ("version", "endpoint_type", "code"),
    [
        (0, BROKERS, ErrorCode.INVALID_REQUEST),
        (1, BROKERS, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (2, BROKERS, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (1, 3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_other_endpoints_are_refused(
    wire: TestCluster, version: int, endpoint_type: int, code: ErrorCode
) -> None:
    answer = wire.ask(DescribeClusterRequest(endpoint_type=endpoint_type), version)
    assert (answer.error_code, answer.brokers) == (code, [])
    assert answer.error_message


@pytest.mark.parametrize(("release", "code"), [("3.6", 35), ("3.7", 0)])
def test_the_controller_is_described_since_metadata_version_3_7(
    tmp_path: Path, release: str, code: int
) -> None:
    wire = TestCluster(tmp_path, as_version=release)
    wire.gateway = Gateway(controller_api_finder(emulated_release(None)), raise_fault)
    wire.cluster.nodes[1].set_endpoint("CONTROLLER", "controller.test", 9193)
    answer = wire.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS), 1)
    assert answer.error_code == code
    wire.end()


def test_a_frozen_node_answers_clients_of_the_controller_by_the_newest_metadata(
    tmp_path: Path,
) -> None:
    wire = TestCluster(tmp_path, nodes=2, config={**AUTHORIZER, "super.users": "User:ANONYMOUS"})
    wire.gateway = Gateway(controller_api_finder(wire.config.release), raise_fault)
    metadata = wire.cluster.metadata
    wire.cluster.node_control.freeze_metadata(2)
    wire.create("t")
    allow(wire, Operation.READ, Resource.TOPIC, "t")
    row = DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name="t")
    assert wire.ask(DescribeConfigsRequest(resources=[row]), 4, 2).results[0].error_code == 0
    anything = DescribeAclsRequest(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
        principal_filter=None, host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    (described_acls,) = wire.ask(anything, 3, 2).resources
    assert described_acls.resource_name == "t"
    api = controller_api_finder(wire.config.release)(ApiKey.API_VERSIONS)
    assert api is not None
    assert api.eras is not None
    call = wire.contexts[2].call(0, api.eras.at(0), 0)
    versions = api.handler(call, ApiVersionsRequest())
    assert versions.finalized_features_epoch == metadata.image.version
    wire.end()


AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


@pytest.fixture
def guarded_cluster(tmp_path: Path) -> Iterator[TestCluster]:
    """Return a cluster with an authorizer whose clients are those of the controller."""
    wire = TestCluster(tmp_path, config=AUTHORIZER)
    wire.gateway = Gateway(controller_api_finder(wire.config.release), raise_fault)
    step = AuthorizationStep(AuthorizerSettings.from_text(AUTHORIZER), is_for_controllers=True)
    wire.gateway.install(step, StepOrder.AUTHORIZE)
    for node in wire.cluster.nodes.values():
        node.set_endpoint("CONTROLLER", "controller.test", 9192 + node.id)
    wire.create("t")
    yield wire
    wire.end()


def allow(wire: TestCluster, operation: Operation, resource: Resource, name: str) -> None:
    acl = Acl(
        resource, name, PatternType.LITERAL, "User:ANONYMOUS", "*", operation, PermissionType.ALLOW
    )
    assert wire.cluster.metadata.create_acls([acl]) == [None]


def test_only_clients_that_may_alter_the_cluster_see_the_controller(
    guarded_cluster: TestCluster,
) -> None:
    request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    allow(guarded_cluster, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    refused = guarded_cluster.ask(request, 2)
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert refused.error_message == "Request DescribeCluster needs ALTER permission."
    assert refused.brokers == []
    allow(guarded_cluster, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
    assert described(guarded_cluster.ask(request, 2)) == [(1, "controller.test", 9193)]


def altered(wire: TestCluster) -> list[tuple[int, ErrorCode, str | None]]:
    """Return the rows of a request for a logger, a node and a topic."""
    rows = IncrementalAlterConfigsRequest
    kinds = {
        8: ("1", "root", "INFO"),
        4: ("", "log.retention.ms", "9"),
        2: ("t", "segment.ms", "9"),
    }
    resources = [
        rows.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[rows.AlterableConfig(name=key, config_operation=0, value=value)],
        )
        for kind, (name, key, value) in kinds.items()
    ]
    answer = wire.ask(rows(resources=resources), 1)
    return [
        (each.resource_type, ErrorCode(each.error_code), each.error_message)
        for each in answer.responses
    ]


def test_refused_settings_have_texts(guarded_cluster: TestCluster) -> None:
    cluster, topic = (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )  # fmt: skip
    assert altered(guarded_cluster) == [
        (4, cluster, cluster.message), (2, topic, topic.message), (8, cluster, cluster.message),
    ]  # fmt: skip
    warnings = guarded_cluster.cluster.history.about("t", of=Entity.TOPIC)
    assert [each.kind for each in warnings] == ["refused"]


def test_levels_of_loggers_need_another_permission(guarded_cluster: TestCluster) -> None:
    allow(guarded_cluster, Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME)
    allow(guarded_cluster, Operation.ALTER_CONFIGS, Resource.TOPIC, "t")
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert altered(guarded_cluster) == [
        (4, ErrorCode.NONE, None), (2, ErrorCode.NONE, None), (8, refused, refused.message),
    ]  # fmt: skip
    allow(guarded_cluster, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
    assert altered(guarded_cluster)[2] == (8, ErrorCode.NONE, None)


def test_an_unexpected_type_is_refused_before_its_permission(guarded_cluster: TestCluster) -> None:
    logger = AlterConfigsRequest.AlterConfigsResource(resource_type=8, resource_name="1")
    (row,) = guarded_cluster.ask(AlterConfigsRequest(resources=[logger]), 2).responses
    assert row.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (DescribeDelegationTokenRequest(owners=None), 3),
        (DescribeUserScramCredentialsRequest(users=[]), 0),
    ],
)
def test_listed_apis_that_kafka_does_not_serve_fail_without_a_permission(
    guarded_cluster: TestCluster, request_: Message, version: int
) -> None:
    assert guarded_cluster.ask(request_, version).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_topics_are_created(wire: TestCluster) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    answer = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
    assert [each.error_code for each in answer.topics] == [ErrorCode.NONE]
    assert "t" in wire.cluster.metadata.image.topics


CONTROLLER_ID = 3000


@pytest.fixture
def separate(tmp_path: Path) -> Iterator[TestCluster]:
    """Return a cluster whose controller is no broker; its clients are those of the controller."""
    wire = TestCluster(tmp_path, controller_id=CONTROLLER_ID)
    wire.gateway = Gateway(controller_api_finder(wire.config.release), raise_fault)
    wire.cluster.nodes[1].set_endpoint("CONTROLLER", "controller.test", 9193)
    yield wire
    wire.end()


def test_a_separate_controller_is_described_by_its_own_id(separate: TestCluster) -> None:
    answer = separate.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS), 2)
    assert answer.controller_id == CONTROLLER_ID
    assert described(answer) == [(CONTROLLER_ID, "controller.test", 9193)]


@pytest.mark.parametrize("version", [0, 2])
def test_a_feature_that_a_separate_controller_lacks_is_refused_in_its_name(
    separate: TestCluster, version: int
) -> None:
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="metadata.version", max_version_level=99, upgrade_type=1
    )
    answer = separate.ask(UpdateFeaturesRequest(feature_updates=[update]), version)
    messages = [answer.error_message, *(each.error_message for each in answer.results)]
    assert any(
        f"Local controller {CONTROLLER_ID} only supports" in (each or "") for each in messages
    )


def test_a_separate_controller_describes_its_own_settings(separate: TestCluster) -> None:
    rows = DescribeConfigsRequest.DescribeConfigsResource
    resources = [rows(resource_type=4, resource_name=name) for name in ("3000", "1")]
    own, of_broker = separate.ask(DescribeConfigsRequest(resources=resources), 4).results
    values = {each.name: (each.value, each.config_source) for each in own.configs}
    assert values["node.id"] == ("3000", 4)
    assert values["process.roles"] == ("controller", 4)
    assert values["listeners"] == ("CONTROLLER://controller.test:9193", 4)
    assert of_broker.error_code == ErrorCode.INVALID_REQUEST
    assert of_broker.error_message == (
        "Unexpected broker id, expected 3000 or empty string, but received 1"
    )


def test_a_separate_controller_has_dynamic_settings_and_loggers(separate: TestCluster) -> None:
    rows = IncrementalAlterConfigsRequest
    changed = [(4, "3000", "log.cleaner.threads", "2"), (8, "3000", "root", "INFO"),
               (8, "1", "root", None)]  # fmt: skip
    resources = [
        rows.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[rows.AlterableConfig(name=key, config_operation=0, value=value)],
        )
        for kind, name, key, value in changed
    ]
    answer = separate.ask(rows(resources=resources), 1)
    assert [(each.error_code, each.error_message) for each in answer.responses] == [
        (ErrorCode.NONE, None), (ErrorCode.NONE, None),
        (ErrorCode.INVALID_REQUEST, "Unexpected node id. Expected 3000, but received 1"),
    ]  # fmt: skip
