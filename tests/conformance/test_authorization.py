"""Every API and version with and without each permission, compared with a real Kafka.

The client of the real Kafka logs in as alice by SASL; the anonymous client is the administrator.
The emulated cluster is in this process, where the principal of a call can be set.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from kafkalite.ports.files import OsFiles
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.describe_acls import DescribeAclsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.protocol._generated.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchRequest
from kafkalite.protocol._generated.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
)
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolViolation
from tests.cluster.cluster import TestCluster
from tests.cluster.responses import PendingResponse
from tests.conformance import acl_requests
from tests.conformance.compare import tree_differences
from tests.conformance.compared_releases import RELEASES
from tests.conformance.normalization import Normaliser
from tests.conformance.permission_checks import (
    ALICE,
    CLOSED,
    IGNORED,
    SETTLE_S,
    create_topic,
    grant,
    restore,
    topic_ids,
    tree_of,
    wait_until,
)
from tests.conformance.raw import ConnectionClosedError, RawClient
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG, free_port
from tests.unit.apis.authorization.requests import (
    CASES,
    OTHER_TOPIC,
    TOPIC,
    Case,
    Needs,
    grants_of,
    request_of,
    versions_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kafkalite.protocol.message import Message
    from tests.conformance.compared_releases import Release

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(600)]

_CONTROLLER_DELAY_S: Final = 0.3
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class Kafka:
    """A real Kafka, its administrator and the client whose requests are compared."""

    def __init__(self, directory: Path, release: str | None) -> None:
        self._sasl_port = free_port()
        config = dict(COMMON_CONFIG)
        self._broker = RealKafka(directory, config, release=release)
        plain, controller = self._broker.bootstrap, self._broker.controller
        listeners = (
            f"PLAINTEXT://{plain},CONTROLLER://{controller},"
            f"SASL_PLAINTEXT://127.0.0.1:{self._sasl_port}"
        )
        config |= {
            **_AUTHORIZER,
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                'user_alice="secret";'
            ),
        }
        self._clients: dict[str, RawClient] = {}

    def start(self) -> None:
        """Start the broker."""
        self._broker.start()

    def close(self) -> None:
        """Close all connections and end the broker."""
        for client in self._clients.values():
            client.close()
        self._broker.kill()

    def ask(self, request: Message, version: int, *, as_admin: bool = False) -> Any:  # noqa: ANN401 - any response
        """Return the response, or CLOSED."""
        name = "admin" if as_admin else "alice"
        client = self._clients.get(name)
        if client is None:
            client = RawClient(self._broker.port) if as_admin else self._log_in()
            self._clients[name] = client
        try:
            return client.call(request, version)
        except ConnectionClosedError:
            self._clients.pop(name).close()
            return CLOSED
        except TimeoutError:
            self._clients.pop(name).close()
            raise

    def let_time_pass(self) -> None:
        """Wait for work that the broker does between requests."""
        time.sleep(0.05)

    def _log_in(self) -> RawClient:
        client = RawClient(self._sasl_port)
        assert not client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code
        answer = client.call(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)
        assert not answer.error_code, answer
        return client


class Emulator:
    """The emulated cluster."""

    def __init__(self, directory: Path, release: str | None) -> None:
        # DescribeLogDirs has the space on the disk.
        self._wire = TestCluster(
            directory,
            config={**COMMON_CONFIG, **_AUTHORIZER},
            files=OsFiles(),
            as_version=release,
        )

    def close(self) -> None:
        """Stop the cluster."""
        self._wire.end()

    def ask(self, request: Message, version: int, *, as_admin: bool = False) -> Any:  # noqa: ANN401 - any response
        """Return the response, or CLOSED."""
        context = self._wire.contexts[1]
        context.principal = "User:ANONYMOUS" if as_admin else ALICE
        try:
            response = self._wire.ask(request, version)
        except ProtocolViolation:
            return CLOSED
        if isinstance(response, PendingResponse):
            self._wire.clock.advance(30_000)
            return response.response
        return response

    def let_time_pass(self) -> None:
        """Do the work that is due between requests."""
        self._wire.clock.advance(50)


class Brokers(NamedTuple):
    """A real Kafka of a release, and the emulated cluster."""

    release: Release
    kafka: Kafka
    emulator: Emulator


@pytest.fixture(scope="module", params=RELEASES)
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Brokers]:
    release = RELEASES[request.param]
    directory = tmp_path_factory.mktemp("authorization")
    kafka = Kafka(directory / "kafka", release.version)
    emulator = Emulator(directory / "kafkalite", release.name)
    try:
        with required():
            kafka.start()
        for broker in (kafka, emulator):
            prepare(broker)
        yield Brokers(release, kafka, emulator)
    finally:
        kafka.close()
        emulator.close()


def prepare(broker: Kafka | Emulator) -> None:
    """Create the topics and the groups."""
    for name in (TOPIC, OTHER_TOPIC):
        create_topic(broker, name)
    for key_type in (0, 1):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["group"])

        def is_available(request: FindCoordinatorRequest = request) -> bool:
            (coordinator,) = broker.ask(request, 4, as_admin=True).coordinators
            return not coordinator.error_code

        wait_until(is_available)
    for case in CASES:
        if case.key in (ApiKey.OFFSET_COMMIT, ApiKey.ALTER_SHARE_GROUP_OFFSETS):
            version = versions_of(case)[-1]

            def is_done(case: Case = case, version: int = version) -> bool:
                answer = broker.ask(
                    request_of(case, version, topic_ids(broker)), version, as_admin=True
                )
                codes = [p.error_code for t in getattr(answer, "responses", None) or answer.topics
                         for p in t.partitions]  # fmt: skip
                return not getattr(answer, "error_code", 0) and not any(codes)

            wait_until(is_done)


def compare(brokers: Brokers, case: Case, version: int, needs: Sequence[Needs]) -> list[str]:
    """Return the differences between the answers of both brokers."""
    _release, kafka, emulator = brokers
    for broker in (kafka, emulator):
        restore(broker)
        grant(broker, needs)
    names = ", ".join(f"{n.operation.name} {n.resource.name}" for n in needs) or "nothing"
    path = f"{codec.api_name(case.key)} v{version} {case.label} with {names}"
    deadline = time.monotonic() + _CONTROLLER_DELAY_S
    emulated = tree_of(emulator, case, version, topic_ids(emulator))
    while True:
        real = tree_of(kafka, case, version, topic_ids(kafka))
        lines = tree_differences(path, real, emulated)
        # The controller of the real Kafka may know the ACLs later than the broker.
        if not lines or time.monotonic() > deadline:
            return lines
        time.sleep(0.1)


def test_the_cases_are_many() -> None:
    assert sum(len(versions_of(case)) * len(grants_of(case)) for case in CASES) >= 600


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.key.name} {case.label}".strip())
def test_answers_are_those_of_kafka(brokers: Brokers, case: Case) -> None:
    lines = [
        line
        for version in versions_of(case, brokers.release.served_rows())
        for needs in grants_of(case)
        for line in compare(brokers, case, version, needs)
    ]
    assert not lines, "\n".join(lines)


def described_acls(broker: Kafka | Emulator) -> Any:  # noqa: ANN401 - a tree
    return acl_tree(broker.ask(acl_requests.EVERYTHING, 3, as_admin=True))


def acl_tree(response: Any) -> Any:  # noqa: ANN401 - any response, a tree
    """Return a tree in which ACLs are sorted: Kafka has them in the order of hash tables."""
    if response == CLOSED:
        return CLOSED

    def sort(tree: Any) -> Any:  # noqa: ANN401 - a tree
        if isinstance(tree, dict):
            for name in ("resources", "acls", "matching_acls"):
                if name in tree:
                    tree[name].sort(key=repr)
            return {name: sort(value) for name, value in tree.items()}
        return [sort(each) for each in tree] if isinstance(tree, list) else tree

    return sort(sort(Normaliser(IGNORED).tree(response)))


def differences_of_acls(kafka: Kafka, emulator: Emulator, path: str) -> list[str]:
    """Compare all ACLs; those of the real Kafka follow their change after a while."""
    emulated = described_acls(emulator)
    wait_until(lambda: described_acls(kafka) == emulated)
    return tree_differences(f"{path}: all ACLs", described_acls(kafka), emulated)


@pytest.mark.parametrize("version", acl_requests.VERSIONS)
def test_acls_are_administered_as_in_kafka(brokers: Brokers, version: int) -> None:
    _release, kafka, emulator = brokers
    for broker in (kafka, emulator):
        grant(broker, [])
    lines = []
    for number, request in enumerate(acl_requests.requests()):
        real, emulated = (
            acl_tree(broker.ask(request, version, as_admin=True)) for broker in (kafka, emulator)
        )
        path = f"{number} {codec.api_name(request.API_KEY)} v{version}"  # type: ignore[attr-defined]
        lines += tree_differences(path, real, emulated)
        if not isinstance(request, DescribeAclsRequest):
            lines += differences_of_acls(kafka, emulator, path)
            if lines:
                break  # The later answers depend on the ACLs.
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("version", acl_requests.VERSIONS)
def test_acls_for_unusual_hosts_are_created_as_in_kafka(brokers: Brokers, version: int) -> None:
    _release, kafka, emulator = brokers
    lines = []
    for host in acl_requests.HOSTS:
        for broker in (kafka, emulator):
            grant(broker, [])
        request = acl_requests.creation_for_host(host)
        real, emulated = (
            acl_tree(broker.ask(request, version, as_admin=True)) for broker in (kafka, emulator)
        )
        lines += tree_differences(f"CreateAcls v{version} for host {host!r}", real, emulated)
    assert not lines, "\n".join(lines)


def regex_assignment(broker: Kafka | Emulator, group: str) -> list[str]:
    """Return the topics that a member with the expression `topic|other` is assigned to."""
    names = {topic_id: name for name, topic_id in topic_ids(broker).items()}
    beat = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="m", member_epoch=0, rebalance_timeout_ms=10_000,
        subscribed_topic_names=[], subscribed_topic_regex=f"{TOPIC}|{OTHER_TOPIC}",
        topic_partitions=[],
    )  # fmt: skip
    topics: list[str] = []
    deadline = time.monotonic() + SETTLE_S
    while not topics and time.monotonic() < deadline:
        response = broker.ask(beat, 1)
        # The coordinator may not be available yet.
        if not response.error_code:
            topics = [names[each.topic_id] for each in response.assignment.topic_partitions]
        broker.let_time_pass()
    return sorted(topics)


@pytest.mark.parametrize("topics", [(TOPIC,), (OTHER_TOPIC,), (TOPIC, OTHER_TOPIC)])
def test_expressions_match_the_topics_that_members_may_describe(
    brokers: Brokers, topics: Sequence[str]
) -> None:
    group = "regex-" + "-".join(topics)
    needs = [Needs(Operation.READ, Resource.GROUP, group)]
    needs += [Needs(Operation.DESCRIBE, Resource.TOPIC, name) for name in topics]
    for broker in (brokers.kafka, brokers.emulator):
        restore(broker)
        grant(broker, needs)
        assert regex_assignment(broker, group) == sorted(topics), broker


def share_session(broker: Kafka | Emulator, group: str) -> list[Any]:
    """Return the answers to a member of a share group that loses the permission on its topic."""
    member = "AAAAAAAAAAAAAAAAAAAAAA"
    read_group = Needs(Operation.READ, Resource.GROUP, group)
    read_topic = Needs(Operation.READ, Resource.TOPIC, TOPIC)
    restore(broker)
    grant(broker, [read_group, read_topic])
    ids = topic_ids(broker)

    def fetch(epoch: int, *, acknowledges: bool = False) -> ShareFetchRequest:
        batch = ShareFetchRequest.AcknowledgementBatch(
            first_offset=0, last_offset=0, acknowledge_types=[1]
        )
        partition = ShareFetchRequest.FetchPartition(
            partition_index=0, acknowledgement_batches=[batch] if acknowledges else []
        )
        topic = ShareFetchRequest.FetchTopic(topic_id=ids[TOPIC], partitions=[partition])
        return ShareFetchRequest(
            group_id=group, member_id=member, share_session_epoch=epoch, max_wait_ms=0,
            min_bytes=0, max_bytes=1 << 20, max_records=1, topics=[topic],
        )  # fmt: skip

    acknowledged = ShareAcknowledgeRequest.AcknowledgeTopic(
        topic_id=ids[TOPIC],
        partitions=[
            ShareAcknowledgeRequest.AcknowledgePartition(
                partition_index=0,
                acknowledgement_batches=[
                    ShareAcknowledgeRequest.AcknowledgementBatch(
                        first_offset=0, last_offset=0, acknowledge_types=[1]
                    )
                ],
            )
        ],
    )
    beat = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=0, subscribed_topic_names=[TOPIC]
    )
    wait_until(lambda: not broker.ask(beat, 1).error_code)
    wait_until(lambda: not broker.ask(fetch(0), 1).error_code)
    grant(broker, [read_group])
    answers = [broker.ask(fetch(1, acknowledges=True), 1)]
    for epoch in (2, -1):
        request = ShareAcknowledgeRequest(
            group_id=group, member_id=member, share_session_epoch=epoch, topics=[acknowledged]
        )
        answers.append(broker.ask(request, 1))
    normaliser = Normaliser(IGNORED)
    for name, topic_id in ids.items():
        normaliser.name("topic_id", topic_id, f"id of {name}")
    return [normaliser.tree(each) for each in answers]


def test_a_share_session_that_loses_its_topic_is_answered_as_by_kafka(
    brokers: Brokers,
) -> None:
    real, emulated = (
        share_session(broker, "share-session") for broker in (brokers.kafka, brokers.emulator)
    )
    lines = [
        line
        for step, pair in enumerate(zip(real, emulated, strict=True))
        for line in tree_differences(f"step {step}", *pair)
    ]
    assert not lines, "\n".join(lines)
    assert str(real).count("TOPIC_AUTHORIZATION_FAILED") == 3, real
