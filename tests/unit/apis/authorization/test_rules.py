"""Every API and version, with and without each permission; the table of rules is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.apis.authorization import step
from kafkalite.apis.authorization.rules import (
    RULES,
    RowPermission,
    Rule,
    has_all_permissions,
    row_permission,
)
from kafkalite.apis.table import TABLE, find_api
from kafkalite.protocol import catalogue, codec
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.acls import Acl, PatternType, PermissionType
from kafkalite.security.authorizer import AuthorizerSettings
from tests.cluster.cluster import TestCluster
from tests.unit.apis.authorization.requests import (
    CASES,
    MISSING_TOPIC,
    OTHER_TOPIC,
    TOPIC,
    Case,
    Needs,
    grants_of,
    request_of,
    versions_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from kafkalite.gateway.call import Call

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
ALICE = "User:alice"
REFUSALS = frozenset((
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
))  # fmt: skip


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    wire = TestCluster(tmp_path, config=AUTHORIZER)
    wire.create(OTHER_TOPIC)
    for topic in ("__consumer_offsets", "__transaction_state"):
        wire.cluster.metadata.ensure_internal_topic(topic)
    # The groups exist: other errors would have precedence over those of topics.
    wire.contexts[1].principal = "User:admin"
    ids = {TOPIC: wire.create(TOPIC)}
    for case in CASES:
        if case.key in (ApiKey.OFFSET_COMMIT, ApiKey.ALTER_SHARE_GROUP_OFFSETS):
            version = versions_of(case)[-1]
            wire.ask(request_of(case, version, ids), version)
    yield wire
    wire.end()


def grant(wire: TestCluster, needs: Iterable[Needs]) -> None:
    """Replace all ACLs."""
    wire.cluster.metadata.delete_acls(wire.cluster.metadata.image.acls)
    acls = [
        Acl(
            need.resource, need.resource_name, PatternType.LITERAL, ALICE, "*", need.operation,
            PermissionType.ALLOW,
        )
        for need in needs
    ]  # fmt: skip
    assert wire.cluster.metadata.create_acls(acls) == [None] * len(acls)


def answer(wire: TestCluster, case: Case, version: int, needs: Iterable[Needs]) -> Any:  # noqa: ANN401 - any response
    """Return the response to a client with these permissions."""
    if TOPIC not in wire.cluster.metadata.image.topics:
        wire.create(TOPIC)
    grant(wire, needs)
    wire.contexts[1].principal = ALICE
    ids = {name: topic.topic_id for name, topic in wire.cluster.metadata.image.topics.items()}
    response = wire.ask(request_of(case, version, ids), version)
    if missing := wire.cluster.metadata.image.topics.get(MISSING_TOPIC):
        wire.cluster.metadata.delete_topics([missing.topic_id])
    return response


def refusals(case: Case, response: Any) -> frozenset[int]:  # noqa: ANN401 - any response
    if isinstance(response, codec.response_class(case.key)):
        return REFUSALS.intersection(catalogue.error_codes(case.key, response))
    return frozenset()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.key.name} {case.label}".strip())
def test_a_request_is_refused_unless_it_has_every_permission(wire: TestCluster, case: Case) -> None:
    for version in versions_of(case):
        for needs in grants_of(case):
            refused = refusals(case, answer(wire, case, version, needs))
            is_sufficient = set(needs) == set(case.needs)
            assert bool(refused) is not is_sufficient, (version, needs, refused)


def test_every_api_with_permissions_has_a_case_in_every_version() -> None:
    covered: dict[int, set[int]] = {}
    for case in CASES:
        covered.setdefault(case.key, set()).update(versions_of(case))
    assert covered.keys() == {key for key in TABLE if catalogue.row(key).access}


def test_few_apis_are_open_to_every_client() -> None:
    assert {TABLE[key].name for key in TABLE if not catalogue.row(key).access} == {
        "ApiVersions", "ExpireDelegationToken", "GetTelemetrySubscriptions", "PushTelemetry",
        "RenewDelegationToken", "SaslAuthenticate", "SaslHandshake",
    }  # fmt: skip


@pytest.mark.parametrize("key", TABLE)
def test_a_rule_without_functions_checks_all_permissions_of_the_catalogue(key: int) -> None:
    rule = RULES.get(key, Rule())
    assert not rule.is_derived or has_all_permissions(key)


def test_the_permission_of_rows_follows_from_the_catalogue() -> None:
    topics = ("topics", "name")
    read, describe = Operation.READ, Operation.DESCRIBE
    assert row_permission(ApiKey.OFFSET_COMMIT) == RowPermission(
        read, Resource.TOPIC, *topics, has_ids=True, alternative=None
    )
    assert row_permission(ApiKey.OFFSET_FOR_LEADER_EPOCH) == RowPermission(
        describe,
        Resource.TOPIC,
        "topics",
        "topic",
        has_ids=False,
        alternative=Operation.CLUSTER_ACTION,
    )
    assert row_permission(ApiKey.DESCRIBE_TRANSACTIONS) == RowPermission(
        describe,
        Resource.TRANSACTIONAL_ID,
        "transactional_ids",
        "",
        has_ids=False,
        alternative=None,
    )
    for key in (ApiKey.HEARTBEAT, ApiKey.ELECT_LEADERS, ApiKey.ALTER_CONFIGS):
        assert row_permission(key) is None


@pytest.mark.parametrize(
    "key", [key for key in TABLE if catalogue.row(key).access and not has_all_permissions(key)]
)
def test_an_api_with_permissions_that_nothing_checks_is_refused(
    key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = find_api(key)
    assert api is not None
    monkeypatch.setattr(step, "RULES", {})
    guarded = step.AuthorizationStep(AuthorizerSettings()).wrap(api, 0, lambda *_: "served")
    with pytest.raises(KafkaError) as refused:
        guarded(cast("Call", None), None)
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
