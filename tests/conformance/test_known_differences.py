"""The known differences from Kafka: each shows the answer of a real Kafka and that of kafkalite.

`tests/docs/known_differences.py` lists every difference that the documentation has, with its test
or the reason why there is none. If Kafka begins to answer as kafkalite does, a test here fails, and
the difference can be removed from the documentation.
"""

# ruff: noqa: ANN401 - requests and responses of any API
from __future__ import annotations

import ssl
import subprocess
import sys
import time
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE
from kafkalite.groups.offsets_topic_records import written_version
from kafkalite.ports.files import OsFiles
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkalite.protocol._generated.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.create_acls import CreateAclsRequest
from kafkalite.protocol._generated.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.delete_acls import DeleteAclsRequest
from kafkalite.protocol._generated.messages.describe_acls import DescribeAclsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataValue,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.batch import BatchView, build_batch
from kafkalite.storage.log import Log
from kafkalite.storage.record_format import NewRecord
from kafkalite.testing import Broker
from tests.conformance.compare import differences
from tests.conformance.raw import ConnectionClosedError, RawClient
from tests.conformance.sasl_kafka import USERS
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios import (
    consumer_groups,
    migration,
    share_groups,
    streams_groups,
    streams_roles,
)
from tests.conformance.scenarios.classic_groups import Classic
from tests.conformance.scenarios.configs import BROKER, DELETE, SET, TOPIC, alter, describe, settled
from tests.conformance.scenarios.share_fetching import (
    ACCEPT,
    FIRST,
    V,
    delete_state,
    initialize,
    read_state,
    ready_share_coordinator,
    shared_topic,
    summary,
    write_state,
)
from tests.conformance.setup import (
    EARLIEST,
    LATEST,
    create_topic,
    list_offsets,
    produce,
    wait_for_group_coordinator,
)
from tests.conformance.special_settings import (
    HOST_NAME,
    SpecialBroker,
    authenticated,
    authentication,
    port_of,
    special_kafka,
    special_kafkalite,
)
from tests.conformance.test_tls import result_of
from tests.conformance.transactional_producer import (
    NEW,
    OLD,
    end,
    start_producer,
    write,
)
from tests.conformance.transactional_producer import (
    describe as describe_transaction,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conformance.scenario_runs import Scenario
    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(120)]

NO_ANSWER: Final = "no answer"
_PATIENCE_S: Final = 4.0
"""The time after which a request counts as not answered; other requests take milliseconds."""
_HEARTBEAT: Final = 1
_CLASSIC_HEARTBEAT: Final = 4
_JOIN: Final = 9
_SYNC: Final = 5
_LEAVE, _LEAVE_FOR_A_WHILE = -1, -2
_OTHER_EPOCH: Final = 77
_DISCONNECTION_S: Final = 30.0

_SETTLE_S, _PAUSE_S, _DELETION_S = 0.5, 0.02, 8.0
_STATE_CHANGES: Final = 1_200
_REBALANCE_MS: Final = 800
_OFFSETS, _LARGEST = "__consumer_offsets", "max.message.bytes"
_GZIP: Final = 1
_NOT_STORED, _AVAILABLE = 1, 3
"""States of the description of a topology."""
_TIMESTAMP: Final = 1_700_000_000_000

_names = count()


def new_cluster(target: Target | SpecialBroker, title: str) -> ScenarioCluster:
    """Return a cluster whose topics and groups have a new name."""
    return ScenarioCluster(target.port, f"known-{title}-{next(_names)}")


def answer_or_none(target: Target, request: Any, version: int) -> Any:
    """Return the response to a request; None if there is none for a while."""
    client = RawClient(target.port, _PATIENCE_S)
    try:
        return client.call(request, version)
    except TimeoutError:
        return None
    finally:
        client.close()


def test_offsets_of_a_missing_share_partition(real_kafka: Target, emulator: Target) -> None:
    row = DescribeShareGroupOffsetsRequest

    def ask(target: Target) -> object:
        cluster = new_cluster(target, "share-offsets")
        group = share_groups.new_share_group(cluster, 1)
        topic = row.DescribeShareGroupOffsetsRequestTopic(topic_name=group.topic, partitions=[7])
        request = row(
            groups=[row.DescribeShareGroupOffsetsRequestGroup(group_id=group.group, topics=[topic])]
        )
        answer = answer_or_none(target, request, 1)
        cluster.close()
        if answer is None:
            return NO_ANSWER
        (partition,) = answer.groups[0].topics[0].partitions
        return partition.start_offset

    assert ask(real_kafka) == NO_ANSWER
    assert ask(emulator) == -1


def test_partitions_for_no_transaction(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> object:
        answer = answer_or_none(target, AddPartitionsToTxnRequest(transactions=[]), 5)
        return NO_ANSWER if answer is None else ErrorCode(answer.error_code)

    assert ask(real_kafka) == NO_ANSWER
    assert ask(emulator) == ErrorCode.NONE


def test_repeated_entries(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> list[int]:
        cluster = new_cluster(target, "repeated")
        wait_for_group_coordinator(cluster, cluster.name)
        answer = cluster.probe(DescribeGroupsRequest(groups=[cluster.name] * 13), 5)
        cluster.close()
        return [group.error_code for group in answer.groups]

    assert ask(real_kafka) == [ErrorCode.NONE] * 13
    assert ask(emulator) == [ErrorCode.NONE] * 11 + [ErrorCode.INVALID_REQUEST] * 2


def test_an_application_server_without_its_topics(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> tuple[int, list[int]]:
        cluster = new_cluster(target, "application-server")
        wait_for_group_coordinator(cluster, cluster.name)
        group = streams_groups.Streams(
            cluster.name, (streams_groups.reading(f"{cluster.name}-none"),)
        )
        endpoint = StreamsGroupHeartbeatRequest.Endpoint(host="here", port=70)
        answer = cluster.probe(
            group.join("a", user_endpoint=endpoint, endpoint_information_epoch=-1), 0
        )
        cluster.close()
        return answer.error_code, [status.status_code for status in answer.status or []]

    missing_sources = 1
    assert ask(real_kafka)[0] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert ask(emulator) == (ErrorCode.NONE, [missing_sources])


def test_a_refused_owner_of_an_instance_id(real_kafka: Target, emulator: Target) -> None:
    """A streams group rebalances, and another member tries to use an instance id."""

    def ask(target: Target) -> tuple[ErrorCode, list[int]]:
        cluster = new_cluster(target, "instance-id")
        group = streams_groups.new_group(cluster)
        cluster.probe(group.join("a", instance_id="i"), 1)
        cluster.probe(group.join("b"), 1)
        refused = cluster.probe(group.join("c", instance_id="i"), 1)
        answer = cluster.probe(group.heartbeat("a", 2, instance_id="i"), 1)
        cluster.close()
        return ErrorCode(refused.error_code), [
            partition for tasks in answer.active_tasks for partition in tasks.partitions
        ]

    assert ask(real_kafka) == (ErrorCode.UNRELEASED_INSTANCE_ID, [])
    assert ask(emulator) == (ErrorCode.UNRELEASED_INSTANCE_ID, [0, 1])


def test_an_acknowledgement_below_the_start_offset(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> int:
        cluster = new_cluster(target, "below-start")
        shared = shared_topic(cluster, 5, 5)
        cluster.probe(shared.fetch("a", FIRST, 0, max_records=5), V)
        cluster.probe(shared.ack("a", 1, (0, 4, [ACCEPT])), V)
        answer = cluster.probe(shared.ack("a", 2, (3, 7, [ACCEPT])), V)
        cluster.close()
        if answer.error_code:
            return int(answer.error_code)
        return int(answer.responses[0].partitions[0].error_code)

    assert ask(real_kafka) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert ask(emulator) == ErrorCode.INVALID_RECORD_STATE


def test_a_batch_size_of_zero(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> list[tuple[int, int]]:
        cluster = new_cluster(target, "batch-size")
        shared = shared_topic(cluster, 3)
        answer = cluster.probe(shared.fetch("a", FIRST, 0, batch_size=0), V)
        cluster.close()
        return [
            (batch.first_offset, batch.last_offset)
            for topic in answer.responses
            for partition in topic.partitions
            for batch in partition.acquired_records
        ]

    batch_without_records = (0, -1)
    assert ask(real_kafka) == [batch_without_records, (0, 2)]
    assert ask(emulator) == [(0, 2)]


def test_share_sessions_of_one_connection(real_kafka: Target, emulator: Target) -> None:
    unknown, existing = ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH

    def ask(target: Target) -> dict[str, int]:
        cluster = new_cluster(target, "sessions")
        shared = shared_topic(cluster, 1, 1)

        def session_of(member: str) -> int:
            # An epoch that the session does not have: the request changes nothing.
            code: int = cluster.probe(shared.fetch(member, _OTHER_EPOCH, 0), V).error_code
            return code

        for member in ("a", "b"):
            cluster.ask(shared.fetch(member, FIRST, 0, max_records=1), V, on="both")
        assert [session_of("a"), session_of("b")] == [existing] * 2
        cluster.disconnect("both")
        deadline = time.monotonic() + _DISCONNECTION_S
        while session_of("b") == existing and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        sessions = {member: session_of(member) for member in ("a", "b")}
        cluster.close()
        return sessions

    assert ask(real_kafka) == {"a": existing, "b": unknown}
    assert ask(emulator) == {"a": unknown, "b": unknown}


def test_a_request_version_that_kafka_removed(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> object:
        cluster = new_cluster(target, "removed")
        wait_for_group_coordinator(cluster, cluster.name)
        try:
            answer = cluster.probe(OffsetFetchRequest(group_id=cluster.name, topics=[]), 0)
        except ConnectionClosedError:
            return "the connection was closed"
        finally:
            cluster.close()
        return answer.topics

    assert ask(real_kafka) == "the connection was closed"
    assert ask(emulator) == []


# Settings, listeners and levels that the other tests do not have.


@pytest.fixture(scope="module")
def special(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[SpecialBroker, SpecialBroker]]:
    """Start a real Kafka and kafkalite with the special settings."""
    with (
        special_kafka(tmp_path_factory.mktemp("special")) as real,
        special_kafkalite() as emulated,
    ):
        yield real, emulated


Special = tuple[SpecialBroker, SpecialBroker]
"""A real Kafka and kafkalite."""


def default_of(port: int, key: str) -> str:
    """Return the default of a broker's setting."""
    cluster = ScenarioCluster(port, "default")
    (result,) = cluster.probe(describe(BROKER, "1", [key]), 4).results
    cluster.close()
    (setting,) = result.configs
    default_source = 5
    (default,) = (row.value for row in setting.synonyms if row.source == default_source)
    return str(default)


@pytest.mark.parametrize(
    "key", ["group.initial.rebalance.delay.ms", "group.streams.initial.rebalance.delay.ms"]
)
def test_the_delay_of_a_first_rebalance(real_kafka: Target, key: str) -> None:
    with Broker(log_level="error") as broker:
        assert default_of(real_kafka.port, key) == "3000"
        assert default_of(port_of(broker), key) == "0"


@pytest.mark.parametrize(("nodes", "replicas"), [(1, 1), (2, 2), (4, 3)])
def test_replicas_of_an_internal_topic(real_kafka: Target, nodes: int, replicas: int) -> None:
    assert default_of(real_kafka.port, "offsets.topic.replication.factor") == "3"
    with Broker(nodes, log_level="error") as broker:
        port = int(broker.bootstrap_servers.partition(",")[0].rpartition(":")[2])
        cluster = ScenarioCluster(port, "replicas")
        cluster.call_until(
            FindCoordinatorRequest(key_type=0, coordinator_keys=[cluster.name]),
            4,
            lambda answer: answer.coordinators[0].error_code == ErrorCode.NONE,
        )
        row = MetadataRequest.MetadataRequestTopic(name="__consumer_offsets")
        (topic,) = cluster.probe(MetadataRequest(topics=[row]), 9).topics
        cluster.close()
    assert {len(partition.replica_nodes) for partition in topic.partitions} == {replicas}


def test_a_listener_with_tls_and_without_a_key_store(special: Special) -> None:
    address = ("127.0.0.1", special[0].tls_port)
    assert result_of(address, ssl.create_default_context()) == "SSLV3_ALERT_HANDSHAKE_FAILURE"
    command = ("-m", "kafkalite", "serve", "--listen", "SSL://127.0.0.1:0")
    completed = subprocess.run(
        (sys.executable, *command), capture_output=True, text=True, timeout=60, check=False
    )
    assert completed.returncode == 2
    assert "listener SSL needs a certificate" in completed.stderr


_MECHANISMS: Final = "listener.name.sasl_plaintext.sasl.enabled.mechanisms"
_BARRIER: Final = "max.connections.per.ip"
_PLAIN_PREFIX: Final = "listener.name.sasl_plaintext.plain."
_JAAS: Final = f"{_PLAIN_PREFIX}sasl.jaas.config"
_REAUTHENTICATION: Final = f"{_PLAIN_PREFIX}connections.max.reauth.ms"


def wait_for_changes(broker: SpecialBroker) -> None:
    """Return when a broker has applied all earlier changes of its settings.

    It applies changes in their order, and describes one before it applies it. So the first of two
    changes has been applied when the second one is described.
    """
    cluster = ScenarioCluster(broker.port, "changes")
    for value in ("1000", "2000"):
        cluster.probe(alter(BROKER, "1", (_BARRIER, SET, value)), 1)
        settled(cluster, _BARRIER, value, BROKER, "1")
    cluster.probe(alter(BROKER, "1", (_BARRIER, DELETE, None)), 1)
    cluster.close()


def test_mechanisms_are_changed(special: Special) -> None:
    """Enable an unknown mechanism, and then fewer mechanisms than before."""

    def ask(broker: SpecialBroker) -> tuple[ErrorCode, ErrorCode, list[str]]:
        admin = authenticated(broker, "admin")
        unknown = admin.call(alter(BROKER, "1", (_MECHANISMS, SET, "UNKNOWN")), 1)
        fewer = admin.call(alter(BROKER, "1", (_MECHANISMS, SET, "PLAIN")), 1)
        wait_for_changes(broker)
        client = RawClient(broker.sasl_port)
        handshake = client.call(SaslHandshakeRequest(mechanism="OTHER"), 1)
        client.close()
        admin.call(alter(BROKER, "1", (_MECHANISMS, DELETE, None)), 1)
        admin.close()
        return (
            ErrorCode(unknown.responses[0].error_code),
            ErrorCode(fewer.responses[0].error_code),
            sorted(handshake.mechanisms),
        )

    before = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    real, emulated = special
    assert ask(real) == (ErrorCode.NONE, ErrorCode.NONE, before)
    assert ask(emulated) == (ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ["PLAIN"])


def test_an_invalid_jaas_text(special: Special) -> None:
    def ask(broker: SpecialBroker) -> ErrorCode:
        admin = authenticated(broker, "admin")
        altered = admin.call(alter(BROKER, "1", (_JAAS, SET, "invalid")), 1)
        admin.call(alter(BROKER, "1", (_JAAS, DELETE, None)), 1)
        admin.close()
        return ErrorCode(altered.responses[0].error_code)

    real, emulated = special
    assert ask(real) == ErrorCode.NONE
    assert ask(emulated) == ErrorCode.INVALID_REQUEST


def test_settings_of_authentication_are_changed(special: Special) -> None:
    """Set another password of alice, and a maximum time until she authenticates again."""

    def ask(broker: SpecialBroker) -> tuple[ErrorCode, int]:
        admin = authenticated(broker, "admin")
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        users = f'user_admin="{USERS["admin"]}" user_alice="changed"'
        jaas = (_JAAS, SET, f"{module} required {users};")
        altered = admin.call(alter(BROKER, "1", jaas, (_REAUTHENTICATION, SET, "60000")), 1)
        assert altered.responses[0].error_code == ErrorCode.NONE
        wait_for_changes(broker)
        changed = authentication(broker, "alice", "changed")
        lifetime_ms = authentication(broker, "admin", USERS["admin"]).session_lifetime_ms
        reset = ((_JAAS, DELETE, None), (_REAUTHENTICATION, DELETE, None))
        admin.call(alter(BROKER, "1", *reset), 1)
        admin.close()
        wait_for_changes(broker)
        return ErrorCode(changed.error_code), lifetime_ms

    real, emulated = special
    assert ask(real) == (ErrorCode.SASL_AUTHENTICATION_FAILED, 0)
    assert ask(emulated) == (ErrorCode.NONE, 60_000)


@pytest.mark.parametrize("name", ["localhost", HOST_NAME])
def test_a_quota_of_a_host_name(special: Special, name: str) -> None:
    def ask(broker: SpecialBroker) -> ErrorCode:
        row = AlterClientQuotasRequest
        entity = [row.EntityData(entity_type="ip", entity_name=name)]
        client = RawClient(broker.port)
        errors = []
        for remove in (False, True):
            op = row.OpData(key="connection_creation_rate", value=1e6, remove=remove)
            request = row(entries=[row.EntryData(entity=entity, ops=[op])])
            errors.append(ErrorCode(client.call(request, 1).entries[0].error_code))
        client.close()
        return errors[0]

    real, emulated = special
    is_resolved = name == "localhost"
    assert ask(real) == ErrorCode.NONE
    assert ask(emulated) == (ErrorCode.NONE if is_resolved else ErrorCode.INVALID_REQUEST)


_ACLS, _FILTERS = 101, 1000
_SELECTION_TIMEOUT_S: Final = 60.0
"""The answer has more than 100,000 ACLs."""


def test_a_deletion_that_selects_many_acls(special: Special) -> None:
    """Each of many filters selects the same ACLs."""

    def ask(broker: SpecialBroker) -> tuple[set[int], int]:
        cluster = new_cluster(broker, "acls")
        creations = [
            CreateAclsRequest.AclCreation(
                resource_type=2, resource_name=cluster.name, resource_pattern_type=3,
                principal=f"User:{number}", host="*", operation=3, permission_type=3,
            )
            for number in range(_ACLS)
        ]  # fmt: skip
        created = cluster.probe(CreateAclsRequest(creations=creations), 3)
        assert not any(row.error_code for row in created.results)
        selection: dict[str, Any] = {
            "resource_type_filter": 2, "resource_name_filter": cluster.name,
            "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
        }  # fmt: skip
        every = DescribeAclsRequest(pattern_type_filter=1, **selection)
        cluster.call_until(every, 3, lambda found: _count_acls(found) == _ACLS)
        one = DeleteAclsRequest.DeleteAclsFilter(pattern_type_filter=1, **selection)
        client = RawClient(broker.port, _SELECTION_TIMEOUT_S)
        results = client.call(DeleteAclsRequest(filters=[one] * _FILTERS), 3).filter_results
        client.close()
        cluster.probe(DeleteAclsRequest(filters=[one]), 3)
        cluster.close()
        return {row.error_code for row in results}, sum(len(row.matching_acls) for row in results)

    real, emulated = special
    assert ask(real) == ({ErrorCode.NONE}, _ACLS * _FILTERS)
    assert ask(emulated) == ({ErrorCode.INVALID_REQUEST}, 0)


def _count_acls(response: Any) -> int:
    return sum(len(resource.acls) for resource in response.resources)


def test_many_invalid_changes_of_credentials(special: Special) -> None:
    def ask(broker: SpecialBroker) -> set[ErrorCode]:
        row = AlterUserScramCredentialsRequest
        deletions = [
            row.ScramCredentialDeletion(name=f"missing-{number}", mechanism=1)
            for number in range(10_001)
        ]
        client = RawClient(broker.port)
        answer = client.call(row(deletions=deletions), 0)
        client.close()
        return {ErrorCode(result.error_code) for result in answer.results}

    real, emulated = special
    assert ask(real) == {ErrorCode.RESOURCE_NOT_FOUND}
    assert ask(emulated) == {ErrorCode.UNKNOWN_SERVER_ERROR}


def test_requests_with_many_elements(special: Special) -> None:
    leave = LeaveGroupRequest(
        group_id="absent",
        members=[LeaveGroupRequest.MemberIdentity(member_id="m")] * (MAX_ELEMENTS_AT_ONCE + 1),
    )
    empty_names = bytes(2 * 1_000_001)
    tags = b"\x91\x4e" + bytes(2 * 10_001)

    def is_closed(broker: SpecialBroker, send: Callable[[RawClient], None]) -> bool:
        client = RawClient(broker.port, 60)
        try:
            send(client)
            client.receive()
        except (ConnectionClosedError, ConnectionError):
            return True
        finally:
            client.close()
        return False

    real, emulated = (
        [
            is_closed(
                broker, lambda client: client.send_body(42, 0, b"\0\x0f\x42\x41" + empty_names)
            ),
            is_closed(broker, lambda client: client.send_body(18, 3, b"\2n\2v" + tags)),
            is_closed(broker, lambda client: client.send(leave, 4)),
        ]
        for broker in special
    )
    assert real == [True, True, False]
    assert emulated == [True, True, True]


def test_a_delegation_token_with_the_longest_time(special: Special) -> None:
    def ask(broker: SpecialBroker) -> bool:
        """Return whether a token expires before its renewal."""
        client = authenticated(broker, "alice")
        create = CreateDelegationTokenRequest(
            owner_principal_type=None, owner_principal_name=None, max_lifetime_ms=-1
        )
        token = client.call(create, 3)
        assert token.error_code == ErrorCode.NONE
        time.sleep(_SETTLE_S)
        renewed = client.call(RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1), 2)
        client.close()
        assert renewed.error_code == ErrorCode.NONE
        return bool(renewed.expiry_timestamp_ms < token.issue_timestamp_ms)

    assert [ask(broker) for broker in special] == [True, False]


def test_a_stored_description_of_an_empty_streams_group(special: Special) -> None:
    def ask(broker: SpecialBroker) -> list[tuple[ErrorCode, int]]:
        """Return the different descriptions of a group until it is deleted."""
        cluster = new_cluster(broker, "description")
        group = streams_groups.new_group(cluster)
        joined = cluster.probe(group.join("a"), 1)
        update = streams_roles.update(group.group, "a", 0, streams_roles.NODES)
        assert cluster.probe(update, 0).error_code == ErrorCode.NONE
        cluster.probe(group.heartbeat("a", streams_groups.LEAVE), 1)
        request = StreamsGroupDescribeRequest(
            group_ids=[group.group], include_topology_description=True
        )
        seen: list[tuple[ErrorCode, int]] = []
        deadline = time.monotonic() + _DELETION_S
        while time.monotonic() < deadline:
            (row,) = cluster.probe(request, 1).groups
            answer = ErrorCode(row.error_code), row.topology_description_status
            if answer not in seen:
                seen.append(answer)
            if row.error_code:
                break
            time.sleep(_PAUSE_S)
        assert joined.error_code == ErrorCode.NONE
        cluster.close()
        return seen

    real, emulated = special
    stored, without, deleted = (
        (ErrorCode.NONE, _AVAILABLE),
        (ErrorCode.NONE, _NOT_STORED),
        (ErrorCode.GROUP_ID_NOT_FOUND, 0),
    )
    assert ask(real) == [stored, without, deleted]
    assert ask(emulated) == [stored, deleted]


def test_old_records_of_the_state_of_share_groups(special: Special) -> None:
    """Change the state of one share partition often, and that of another one never."""

    def ask(broker: SpecialBroker) -> tuple[bool, bool]:
        """Return whether the unchanged state's record is deleted, and again after its change."""
        cluster = new_cluster(broker, "share-state")
        topic_id = create_topic(cluster, cluster.name, 2)
        ready_share_coordinator(cluster, cluster.name, topic_id)
        end = offset(cluster, LATEST)
        cluster.call_until(
            initialize(cluster.name, topic_id, 2),
            0,
            lambda answer: all(row.error_code == 0 for row in answer.results[0].partitions),
        )
        connection = cluster.connection("probe")
        for number in range(_STATE_CHANGES):
            batches = [(number, number, 2, 1)]
            connection.send(write_state(cluster.name, topic_id, 0, 0, 0, number, 0, batches), 1)
        for _ in range(_STATE_CHANGES):
            answer = connection.receive()
            assert answer.results[0].partitions[0].error_code == ErrorCode.NONE
        time.sleep(_SETTLE_S)
        is_deleted = offset(cluster, EARLIEST) > end + 1
        cluster.probe(initialize(cluster.name, topic_id, 2, epoch=1), 0)
        deadline = time.monotonic() + _PATIENCE_S
        while offset(cluster, EARLIEST) <= end + 1 and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        is_deleted_later = offset(cluster, EARLIEST) > end + 1
        for partition in range(2):
            cluster.probe(delete_state(cluster.name, topic_id, partition), 0)
        cluster.close()
        return is_deleted, is_deleted_later

    def offset(cluster: ScenarioCluster, which: int) -> int:
        answer = cluster.probe(list_offsets("__share_group_state", timestamp=which), 7)
        return int(answer.topics[0].partitions[0].offset)

    real, emulated = special
    assert ask(real) == (False, True)
    assert ask(emulated) == (True, True)


def test_a_produce_outside_of_the_transaction(special: Special) -> None:
    """`transaction.version` is 0, and the client uses a Produce that adds partitions itself."""

    def ask(broker: SpecialBroker) -> tuple[ErrorCode, ErrorCode]:
        cluster = new_cluster(broker, "outside")
        create_topic(cluster, cluster.name, 2)
        producer = start_producer(cluster, OLD)
        producer.begin(0)
        name = producer.transactional_id
        request = write(name, producer.producer, cluster.name, partition=1)
        refused = cluster.probe(request, NEW.produce)
        (row,) = refused.responses[0].partition_responses
        ended = ErrorCode.NONE
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            answer = cluster.probe(end(name, producer.producer, is_commit=True), OLD.end)
            ended = ErrorCode(answer.error_code)
            if ended == ErrorCode.NONE:
                break
            time.sleep(_PAUSE_S)
        cluster.close()
        return ErrorCode(row.error_code), ended

    real, emulated = special
    assert ask(real) == (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert ask(emulated) == (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NONE)


def test_a_limit_that_is_lower_than_stored_records(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> tuple[ErrorCode, int]:
        """Search by timestamp in a compressed batch."""
        cluster = new_cluster(target, "decompressed")
        create_topic(cluster, cluster.name)
        data = build_batch([NewRecord(None, b"v" * 1000, _TIMESTAMP)], attributes=_GZIP)
        answer = cluster.probe(produce(cluster.name, data), 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        key = "max.decompressed.message.bytes"
        cluster.probe(alter(TOPIC, cluster.name, (key, SET, "100")), 1)
        settled(cluster, key, "100")
        answer = cluster.probe(list_offsets(cluster.name, timestamp=_TIMESTAMP), 7)
        (row,) = answer.topics[0].partitions
        cluster.close()
        return ErrorCode(row.error_code), row.offset

    assert ask(real_kafka) == (ErrorCode.INVALID_RECORD, -1)
    assert ask(emulator) == (ErrorCode.NONE, 0)


def failed_upgrade(
    target: Target | SpecialBroker, largest_bytes: str | None = None
) -> tuple[ErrorCode, ErrorCode]:
    """Try to upgrade a group of two members, one of which waits for its JoinGroup response.

    Return the error of the upgrade, and that of the member's response.
    """
    cluster = new_cluster(target, "failed-upgrade")
    play = migration.Play(cluster)
    member, classics = play.classic(0, 1, 2, 3), play.classics
    refused = cluster.probe(classics.join(), _JOIN)
    cluster.send(classics.join(refused.member_id), _JOIN, on="second")
    cluster.call_until(
        classics.heartbeat(member, 1), _CLASSIC_HEARTBEAT, lambda answer: answer.error_code != 0
    )
    if largest_bytes is not None:
        cluster.probe(alter(TOPIC, _OFFSETS, (_LARGEST, SET, largest_bytes)), 1)
        settled(cluster, _LARGEST, largest_bytes, name=_OFFSETS)
    upgrade = cluster.probe(play.consumers.join("c"), _HEARTBEAT)
    if largest_bytes is not None:
        cluster.probe(alter(TOPIC, _OFFSETS, (_LARGEST, DELETE, None)), 1)
        time.sleep(_SETTLE_S)
    cluster.send(classics.join(member), _JOIN, on="first")
    answer = cluster.receive("second")
    cluster.close()
    return ErrorCode(upgrade.error_code), ErrorCode(answer.error_code)


def test_an_upgrade_of_a_full_group(special: Special) -> None:
    """`group.consumer.max.size` is 2."""
    real, emulated = special
    full = ErrorCode.GROUP_MAX_SIZE_REACHED
    assert failed_upgrade(real) == (full, ErrorCode.REBALANCE_IN_PROGRESS)
    assert failed_upgrade(emulated) == (full, ErrorCode.NONE)


def test_an_upgrade_whose_records_are_too_large(real_kafka: Target, emulator: Target) -> None:
    failed = ErrorCode.UNKNOWN_SERVER_ERROR
    assert failed_upgrade(real_kafka, "200") == (failed, ErrorCode.REBALANCE_IN_PROGRESS)
    assert failed_upgrade(emulator, "200") == (failed, failed)


def test_a_leave_with_a_damaged_member(restartable: tuple[Target, Target]) -> None:
    """A group has a member of each protocol, and the log has no valid subscription of one."""

    def ask(target: Target) -> ErrorCode:
        """Return the error of the other member's leave, which would downgrade the group."""
        cluster = new_cluster(target, "damaged")
        play = migration.Play(cluster)
        member = play.mixed()
        cluster.close()
        target.stop()
        damage_subscription(target, member)
        target.start()
        wait_for_group_coordinator(cluster, cluster.name)
        answer = cluster.probe(play.consumers.heartbeat("c", _LEAVE), _HEARTBEAT)
        cluster.close()
        return ErrorCode(answer.error_code)

    real, emulated = restartable
    assert ask(real) == ErrorCode.GROUP_ID_NOT_FOUND
    assert ask(emulated) == ErrorCode.NONE


def damage_subscription(target: Target, member: str) -> None:
    """Add a record to the log of a stopped broker: a classic member's subscription is empty."""
    serde = CoordinatorSerde(written_version)
    for directory in target.data.glob(f"{_OFFSETS}-*"):
        log = Log.open(OsFiles(), str(directory), LogConfig(), now_ms=0, clean_shutdown=True)
        records = (record for view in log.batches() for record in view.records())
        decoded = [serde.decode(record.key, record.value) for record in records]
        latest = next((each for each in reversed(decoded) if _is_metadata_of(each, member)), None)
        if latest is not None:
            _remove_subscription(latest)
            now_ms = int(time.time() * 1000)
            data = build_batch([NewRecord(*serde.encode(latest), now_ms)])
            log.append([BatchView(data)], leader_epoch=log.epochs.latest, now_ms=now_ms)
        log.close()


def _is_metadata_of(record: Any, member: str) -> bool:
    is_metadata = record is not None and isinstance(record.value, ConsumerGroupMemberMetadataValue)
    return is_metadata and record.key.member_id == member


def _remove_subscription(record: Any) -> None:
    for protocol in record.value.classic_member_metadata.supported_protocols:
        protocol.metadata = b""


def test_a_classic_member_changes_its_protocol(real_kafka: Target, emulator: Target) -> None:
    """A classic member waits for its assignment, and sends a heartbeat of a consumer instead."""

    def ask(target: Target) -> ErrorCode:
        cluster = new_cluster(target, "protocol")
        play = migration.Play(cluster)
        cluster.probe(play.consumers.join("b"), _HEARTBEAT)
        refused = cluster.probe(play.classics.join(rebalance_ms=_REBALANCE_MS), _JOIN)
        member = refused.member_id
        joined = cluster.probe(play.classics.join(member, rebalance_ms=_REBALANCE_MS), _JOIN)
        assert joined.error_code == ErrorCode.NONE
        answer = cluster.probe(play.consumers.join(member), _HEARTBEAT)
        assert answer.error_code == ErrorCode.NONE
        epoch = answer.member_epoch
        deadline = time.monotonic() + 3 * _REBALANCE_MS / 1000
        while time.monotonic() < deadline and not answer.error_code:
            time.sleep(_PAUSE_S)
            answer = cluster.probe(play.consumers.heartbeat(member, epoch), _HEARTBEAT)
            epoch = answer.member_epoch
        cluster.close()
        return ErrorCode(answer.error_code)

    assert ask(real_kafka) == ErrorCode.UNKNOWN_MEMBER_ID
    assert ask(emulator) == ErrorCode.NONE


# Work that kafkalite has done when it answers, and that Kafka does then or later.


def test_a_transaction_after_its_end(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> str:
        cluster = new_cluster(target, "ended")
        create_topic(cluster, cluster.name, 3)
        producer = start_producer(cluster, NEW)
        producer.begin(0, 1, 2)
        assert producer.commit().error_code == ErrorCode.NONE
        answer = cluster.probe(describe_transaction(producer.transactional_id), 0)
        cluster.close()
        (state,) = answer.transaction_states
        return str(state.transaction_state)

    assert ask(real_kafka) in {"PrepareCommit", "CompleteCommit"}
    assert ask(emulator) == "CompleteCommit"


def test_partitions_of_a_share_member(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> int | None:
        cluster = new_cluster(target, "share-member")
        group = share_groups.new_share_group(cluster, 2)
        joined = cluster.probe(group.join("a"), share_groups.V1)
        answer = cluster.probe(group.beat("a", joined.member_epoch), share_groups.V1)
        cluster.close()
        if answer.assignment is None:
            return None
        return sum(len(row.partitions) for row in answer.assignment.topic_partitions)

    assert ask(real_kafka) in {None, 2}
    assert ask(emulator) == 2


def test_internal_topics_of_a_streams_group(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> list[int]:
        cluster = new_cluster(target, "internal-topics")
        create_topic(cluster, f"{cluster.name}-topic")
        wait_for_group_coordinator(cluster, cluster.name)
        changelog = streams_groups.internal(f"{cluster.name}-changelog")
        subtopology = streams_groups.reading(
            f"{cluster.name}-topic", state_changelog_topics=[changelog]
        )
        group = streams_groups.Streams(cluster.name, (subtopology,))
        joined = cluster.probe(group.join("a"), 0)
        answer = cluster.probe(group.heartbeat("a", joined.member_epoch), 0)
        cluster.close()
        return [status.status_code for status in answer.status or []]

    missing_internal_topics = 3
    assert ask(real_kafka) in ([missing_internal_topics], [])
    assert ask(emulator) == []


# Earlier differences, which this Kafka or kafkalite does not have.


def an_instance_id_is_given_up(cluster: ScenarioCluster) -> None:
    group = consumer_groups.new_group(cluster)
    cluster.ask(group.join("a", instance_id="i-1"), _HEARTBEAT)
    cluster.ask(group.join("a", instance_id="i-2"), _HEARTBEAT)
    cluster.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)
    cluster.ask(group.join("b", instance_id="i-1"), _HEARTBEAT)
    cluster.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)


def a_dynamic_member_follows_a_static_one(cluster: ScenarioCluster) -> None:
    group = consumer_groups.new_group(cluster, 2)
    cluster.ask(group.join("a", instance_id="i-1"), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", _LEAVE_FOR_A_WHILE, instance_id="i-1"), _HEARTBEAT)
    cluster.ask(group.join("a"), _HEARTBEAT)
    cluster.ask(group.join("b"), _HEARTBEAT)
    cluster.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)


def subscriptions_have_invalid_lengths(cluster: ScenarioCluster) -> None:
    garbage = (b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1", b"\0\0\0\0\0\1\x7f\xff", b"\xff" * 99)
    for index, metadata in enumerate(garbage):
        group = Classic(f"{cluster.name}-{index}")
        wait_for_group_coordinator(cluster, group.group)
        member_id = cluster.ask(group.join(), _JOIN).member_id
        joined = cluster.ask(group.join(member_id, metadata=metadata), _JOIN)
        cluster.ask(group.sync(member_id, joined.generation_id, member_id), _SYNC)


def a_state_gets_a_smaller_start_offset(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    ready_share_coordinator(cluster, cluster.name, topic_id)
    cluster.call_until(
        initialize(cluster.name, topic_id, 1),
        0,
        lambda answer: answer.results[0].partitions[0].error_code == ErrorCode.NONE,
    )
    for start, complete in ((5, 3), (2, 1), (2, 9), (5, 1), (5, 4), (-1, 2), (-1, 6), (6, 1)):
        batches = [(max(start, 4) + 3, max(start, 4) + 4, 2, 1), (1, 4, 0, 2)]
        cluster.ask(write_state(cluster.name, topic_id, 0, 0, 0, start, complete, batches), 1)
        cluster.ask(read_state(cluster.name, topic_id, 0), 0)
        cluster.ask(summary(cluster.name, topic_id, 0), 1)


@pytest.mark.parametrize(
    "scenario",
    [
        subscriptions_have_invalid_lengths,
        an_instance_id_is_given_up,
        a_dynamic_member_follows_a_static_one,
        a_state_gets_a_smaller_start_offset,
    ],
    ids=lambda scenario: scenario.__name__,
)
def test_an_earlier_difference_is_gone(
    scenario: Scenario, real_kafka: Target, emulator: Target
) -> None:
    assert differences(play(scenario, real_kafka), play(scenario, emulator)) == []


def test_a_principal_without_acls_is_refused(special: Special) -> None:
    """`allow.everyone.if.no.acl.found` is `yes`, which does not mean `true` to either broker."""
    for broker in special:
        cluster = new_cluster(broker, "allowed")
        create_topic(cluster, cluster.name)
        cluster.close()
        client = authenticated(broker, "alice")
        row = MetadataRequest.MetadataRequestTopic(name=cluster.name)
        (topic,) = client.call(MetadataRequest(topics=[row]), 9).topics
        client.close()
        assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
