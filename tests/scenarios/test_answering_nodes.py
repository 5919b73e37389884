"""Which metadata answers a request: that of the node, or that of the controller.

A node with old metadata answers some requests by what it knows, and passes others on to the
controller. The catalogue says which; the requests here are those of any node.
"""

# ruff: noqa: ANN401 - requests and responses of many APIs
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from kafkalite.apis.table import TABLE
from kafkalite.metadata.client_quotas import QuotaAlteration
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.delegation_tokens import TokenRequest
from kafkalite.metadata.features import FeatureUpdate
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.metadata.reassignment import RequestedReassignment
from kafkalite.metadata.scram_credentials import ScramUpsertion
from kafkalite.protocol import catalogue, codec
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import AnsweringNode
from kafkalite.security.acls import Acl, PatternType, PermissionType
from kafkalite.security.delegation_tokens import token_hmac
from tests.cluster.cluster import TestCluster
from tests.unit.apis.authorization.requests import (
    CASES,
    MISSING_TOPIC,
    OTHER_TOPIC,
    TOPIC,
    request_of,
    versions_of,
)
from tests.unit.apis.authorization.test_rules import ALICE, AUTHORIZER, grant, refusals

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.apis.authorization.requests import Case

NODE: Final = 2
"""The node that gets the requests."""
OLD, MOVING = "old", "moving"
NEW, NEW_BY_ID = "new", "new-by-id"
SECRET_KEY: Final = "secret"  # noqa: S105 - a key of these tests
CONFIG: Final = {
    **AUTHORIZER,
    "super.users": ALICE,
    "delegation.token.secret.key": SECRET_KEY,
    "num.partitions": "1",
}
ANY_NODE: Final = (AnsweringNode.ANY, AnsweringNode.CONTROLLER)
DOWNGRADE: Final = 2
GROUP_VERSION: Final = "group.version"
ANY: Final = 1


class Changed(NamedTuple):
    """What a request names of the change."""

    topic_id: bytes
    hmac: bytes


NEEDS_NEW_TOPIC: Final = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
)
"""APIs whose request changes a topic of its own."""


def new_topic(key: int) -> str:
    return f"new-{key}"


def prepare(wire: TestCluster) -> None:
    """Create what the nodes know before the change."""
    metadata = wire.cluster.metadata
    names = ((OLD, (1, 2)), (MOVING, (1,)), (OFFSETS_TOPIC, (1, 4)))
    metadata.create_topics([NewTopic(name=name, assignments=((0, ids),)) for name, ids in names])
    for context in wire.contexts.values():
        context.principal = ALICE


def change(wire: TestCluster) -> None:
    """Change every part of the metadata."""
    metadata = wire.cluster.metadata
    new_names = (NEW, NEW_BY_ID, *(new_topic(key) for key in NEEDS_NEW_TOPIC))
    metadata.create_topics([NewTopic(name=name, assignments=((0, (1, 2)),)) for name in new_names])
    metadata.move_leader(OFFSETS_TOPIC, 0, 4)
    metadata.fence(3)
    assert metadata.alter_reassignments([RequestedReassignment(MOVING, 0, (3,))]) == [None]
    metadata.register_broker(5, None)
    changed = [ConfigChange("max.message.bytes", AlterOperation.SET, "9")]
    for resource, changes in {
        ConfigResource(ResourceType.TOPIC, OLD): changed,
        ConfigResource(ResourceType.BROKER, ""): [
            ConfigChange("log.retention.ms", AlterOperation.SET, "7")
        ],
    }.items():
        assert metadata.alter_configs({resource: changes}) == {resource: None}
    acl = Acl(
        Resource.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ,
        PermissionType.ALLOW,
    )  # fmt: skip
    metadata.create_acls([acl])
    metadata.alter_client_quotas(
        [QuotaAlteration((("user", "a"),), (("producer_byte_rate", 1.0),))]
    )
    metadata.alter_scram_credentials([], [ScramUpsertion("a", 1, 4096, b"salt" * 4, b"p" * 32)])
    metadata.create_delegation_token(TokenRequest(ALICE, ALICE, (), -1))
    metadata.update_features([FeatureUpdate(GROUP_VERSION, 0, DOWNGRADE)])


def _topics(request: Any, changed: Changed) -> Any:
    del changed
    row = request.CreatableTopic(
        name=new_topic(request.API_KEY), num_partitions=1, replication_factor=1
    )
    return request(topics=[row], timeout_ms=1_000)


def _topic_with_defaults(request: Any, changed: Changed) -> Any:
    del changed
    row = request.CreatableTopic(name="other", num_partitions=1, replication_factor=1)
    return request(topics=[row], timeout_ms=1_000)


def _deletion_by_name(request: Any, changed: Changed) -> Any:
    del changed
    return request(
        topics=[request.DeleteTopicState(name=new_topic(request.API_KEY))], timeout_ms=1_000
    )


def _deletion_by_id(request: Any, changed: Changed) -> Any:
    state = request.DeleteTopicState(name=None, topic_id=changed.topic_id)
    return request(topics=[state], timeout_ms=1_000)


def _partitions(request: Any, changed: Changed) -> Any:
    del changed
    return request(
        topics=[request.CreatePartitionsTopic(name=new_topic(request.API_KEY), count=2)],
        timeout_ms=1_000,
    )


def _acl_filter(request: Any, changed: Changed) -> Any:
    del changed
    return request(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )


def _acl_deletion(request: Any, changed: Changed) -> Any:
    row = request.DeleteAclsFilter
    return request(filters=[_acl_filter(row, changed)])


def _configs(request: Any, changed: Changed) -> Any:
    del changed
    config = request.AlterableConfig(name="retention.ms", value="1")
    row = request.AlterConfigsResource(
        resource_type=2, resource_name=new_topic(request.API_KEY), configs=[config]
    )
    return request(resources=[row])


def _election(request: Any, changed: Changed) -> Any:
    del changed
    return request(topic_partitions=None, timeout_ms=1_000)


def _cancellation(request: Any, changed: Changed) -> Any:
    del changed
    row = request.ReassignablePartition(partition_index=0, replicas=None)
    return request(topics=[request.ReassignableTopic(name=MOVING, partitions=[row])])


def _reassignments(request: Any, changed: Changed) -> Any:
    del changed
    return request(topics=None)


def _scram_deletion(request: Any, changed: Changed) -> Any:
    del changed
    return request(deletions=[request.ScramCredentialDeletion(name="a", mechanism=1)])


def _features(request: Any, changed: Changed) -> Any:
    del changed
    row = request.FeatureUpdateKey(feature=GROUP_VERSION, max_version_level=0, upgrade_type=1)
    return request(feature_updates=[row], timeout_ms=1_000)


def _unregistration(request: Any, changed: Changed) -> Any:
    del changed
    return request(broker_id=5)


def _token(request: Any, changed: Changed) -> Any:
    return request(hmac=changed.hmac)


def _metadata(request: Any, changed: Changed) -> Any:
    del changed
    row = request.MetadataRequestTopic(name=NEW)
    return request(topics=[row], allow_auto_topic_creation=False)


def _described_configs(request: Any, changed: Changed) -> Any:
    del changed
    row = request.DescribeConfigsResource(
        resource_type=2, resource_name=OLD, configuration_keys=["max.message.bytes"]
    )
    return request(resources=[row])


def _described_partitions(request: Any, changed: Changed) -> Any:
    del changed
    return request(topics=[request.TopicRequest(name=NEW)])


def _cluster(request: Any, changed: Changed) -> Any:
    del changed
    return request(include_fenced_brokers=True)


def _coordinator(request: Any, changed: Changed) -> Any:
    del changed
    return request(key_type=0, coordinator_keys=["g"])


def _users(request: Any, changed: Changed) -> Any:
    del changed
    return request(users=None)


def _owners(request: Any, changed: Changed) -> Any:
    del changed
    return request(owners=None)


def _default(request: Any, changed: Changed) -> Any:
    del changed
    return request()


REQUESTS: Final[tuple[tuple[ApiKey, Any], ...]] = (
    (ApiKey.METADATA, _metadata),
    (ApiKey.FIND_COORDINATOR, _coordinator),
    (ApiKey.DESCRIBE_ACLS, _acl_filter),
    (ApiKey.DESCRIBE_CONFIGS, _described_configs),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, _owners),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, _default),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, _users),
    (ApiKey.DESCRIBE_CLUSTER, _cluster),
    (ApiKey.LIST_CONFIG_RESOURCES, _default),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, _described_partitions),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, _reassignments),
    (ApiKey.ELECT_LEADERS, _election),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, _cancellation),
    (ApiKey.CREATE_TOPICS, _topics),
    (ApiKey.CREATE_TOPICS, _topic_with_defaults),
    (ApiKey.DELETE_TOPICS, _deletion_by_name),
    (ApiKey.DELETE_TOPICS, _deletion_by_id),
    (ApiKey.CREATE_PARTITIONS, _partitions),
    (ApiKey.ALTER_CONFIGS, _configs),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, _configs),
    (ApiKey.DELETE_ACLS, _acl_deletion),
    (ApiKey.RENEW_DELEGATION_TOKEN, _token),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, _token),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, _scram_deletion),
    (ApiKey.UPDATE_FEATURES, _features),
    (ApiKey.UNREGISTER_BROKER, _unregistration),
)
"""API key and function that builds a request: its answer depends on the change. Reads are first."""

TESTED_ELSEWHERE: Final = frozenset((ApiKey.API_VERSIONS, ApiKey.DESCRIBE_QUORUM))
"""APIs whose answers depend on more than the change: the format, and the progress of the node."""

INDEPENDENT: Final = frozenset((
    ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.CREATE_ACLS,
    ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UNREGISTER_CONTROLLER,
))  # fmt: skip
"""APIs whose answers do not depend on such changes, or only if clients push metrics."""


def is_forwarded(key: int) -> bool:
    return catalogue.row(key).node is AnsweringNode.CONTROLLER


def test_every_api_of_any_node_is_listed() -> None:
    keys = {key for key in TABLE if catalogue.row(key).node in ANY_NODE}
    assert {key for key, _ in REQUESTS} | INDEPENDENT | TESTED_ELSEWHERE == keys


def answers(path: Path, *, changes: bool, is_frozen: bool) -> list[Any]:
    """Return the answers of the node to all requests, in a cluster of its own."""
    wire = TestCluster(path, nodes=4, config=CONFIG)
    try:
        prepare(wire)
        if is_frozen:
            wire.cluster.node_control.freeze_metadata(NODE)
        changed = Changed(b"\1" * 16, b"unknown")
        if changes:
            change(wire)
            image = wire.cluster.metadata.image
            (token_id,) = image.delegation_tokens
            changed = Changed(image.topics[NEW_BY_ID].topic_id, token_hmac(SECRET_KEY, token_id))
        return [
            wire.ask(build(codec.request_class(key), changed), TABLE[key].highest, NODE)
            for key, build in REQUESTS
        ]
    finally:
        wire.end()


def test_forwarded_requests_are_answered_by_the_newest_metadata_and_no_others_are(
    tmp_path: Path,
) -> None:
    current = answers(tmp_path / "current", changes=True, is_frozen=False)
    frozen = answers(tmp_path / "frozen", changes=True, is_frozen=True)
    old = answers(tmp_path / "old", changes=False, is_frozen=False)
    for (key, build), of_current, of_frozen, of_old in zip(
        REQUESTS, current, frozen, old, strict=True
    ):
        assert of_current != of_old, (key, build)
        assert of_frozen == (of_current if is_forwarded(key) else of_old), (key, build)


# Permissions


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    wire = TestCluster(tmp_path_factory.mktemp("permissions"), nodes=2, config=AUTHORIZER)
    for topic in (TOPIC, OTHER_TOPIC):
        wire.create(topic)
    wire.contexts[NODE].principal = ALICE
    yield wire
    wire.end()


def is_refused(wire: TestCluster, case: Case) -> bool:
    version = versions_of(case)[-1]
    metadata = wire.cluster.metadata
    ids = {name: topic.topic_id for name, topic in metadata.image.topics.items()}
    response = wire.ask(request_of(case, version, ids), version, NODE)
    for name in (TOPIC, MISSING_TOPIC):
        if name in metadata.image.topics:
            metadata.delete_topics([metadata.image.topics[name].topic_id])
    wire.create(TOPIC)
    return bool(refusals(case, response))


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.needs and catalogue.row(case.key).node in ANY_NODE],
    ids=lambda case: f"{case.key.name} {case.label}".strip(),
)
def test_permissions_are_checked_by_the_metadata_that_answers(
    wire: TestCluster, case: Case
) -> None:
    """The node checks an owner of a token too, and only the node checks its own loggers."""
    refuses = {"node": not is_forwarded(case.key), "controller": is_forwarded(case.key)}
    if case.label == "logger":
        refuses = {"node": True, "controller": False}
    elif case.key is ApiKey.CREATE_DELEGATION_TOKEN:
        refuses = {"node": True, "controller": True}
    control = wire.cluster.node_control
    for place in ("node", "controller"):
        control.thaw_metadata(NODE)
        grant(wire, () if place == "node" else case.needs)
        control.freeze_metadata(NODE)
        grant(wire, case.needs if place == "node" else ())
        assert is_refused(wire, case) is refuses[place], place
