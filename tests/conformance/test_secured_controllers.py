"""Controllers with SASL, TLS and an authorizer: kafkalite and a real Kafka give the same answers.

The real Kafka has one process with four listeners for controllers. kafkalite has one for each.
"""

from __future__ import annotations

import socket
import struct
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from kafkalite.apis.controllers import CONTROLLER_APIS
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_quorum import DescribeQuorumRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance import sasl_cases
from tests.conformance.compare import tree_differences
from tests.conformance.permission_checks import (
    CLOSED,
    create_topic,
    grant,
    restore,
    topic_ids,
    tree_of,
)
from tests.conformance.raw import ConnectionClosedError, RawClient
from tests.conformance.tls_listeners import Certificates
from tests.conformance.tool_runs import run_with_each, tool_sides
from tests.kafka_tools.case import Case as ToolCase
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG, free_port
from tests.unit.apis.authorization.requests import (
    CASES,
    OTHER_TOPIC,
    TOPIC,
    grants_of,
    versions_of,
)
from tests.unit.frames import framed

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kafkalite.protocol.message import Message
    from tests.unit.apis.authorization.requests import Case, Needs

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(300)]

PLAINTEXT: Final = "CONTROLLER"
SASL, SSL, SASL_SSL = "CONTROLLERSASL", "CONTROLLERSSL", "CONTROLLERSASLSSL"
PROTOCOLS: Final[Mapping[str, str]] = {
    PLAINTEXT: "PLAINTEXT",
    SASL: "SASL_PLAINTEXT",
    SSL: "SSL",
    SASL_SSL: "SASL_SSL",
}
"""Listener of controllers → its security protocol."""

_CONTROLLER_DELAY_S: Final = 10.0
_ADMINISTRATOR: Final = "bob"


class Target(NamedTuple):
    """The addresses of the listeners of one broker, and the port of the broker."""

    broker: int
    controllers: Mapping[str, str]


class Brokers(NamedTuple):
    """A real Kafka, a kafkalite for each listener of controllers, and the certificates."""

    real: Target
    emulated: Mapping[str, Target]
    certificates: Certificates

    def addresses(self, listener: str) -> tuple[str, str]:
        """Return the addresses of a listener of controllers."""
        return self.real.controllers[listener], self.emulated[listener].controllers[listener]

    def context(self, listener: str, subject: str | None = None) -> ssl.SSLContext | None:
        """Return the TLS of clients, None at listeners without."""
        return self.certificates.client(subject) if "SSL" in PROTOCOLS[listener] else None


def common_config(certificates: Certificates, listeners: Sequence[str]) -> dict[str, str]:
    """Return the settings of a broker with these listeners of controllers."""
    protocols = ",".join(f"{name}:{PROTOCOLS[name]}" for name in listeners)
    config = {
        **COMMON_CONFIG,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{protocols}",
        "controller.listener.names": ",".join(listeners),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{_ADMINISTRATOR};User:CN=plain",
        "delegation.token.secret.key": "signs-all-tokens",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.trusted,
        f"listener.name.{SSL.lower()}.ssl.client.auth": "required",
    }
    for name in listeners:
        if PROTOCOLS[name].startswith("SASL"):
            config |= sasl_cases.settings(name)
    return config


def start_real(directory: Path, certificates: Certificates, stack: ExitStack) -> Target:
    config = common_config(certificates, tuple(PROTOCOLS))
    kafka = RealKafka(directory, config)
    others = (f"127.0.0.1:{free_port()}" for _ in range(len(PROTOCOLS) - 1))
    controllers = dict(zip(PROTOCOLS, (kafka.controller, *others), strict=True))
    addresses = {"PLAINTEXT": kafka.bootstrap, **controllers}
    listeners = ",".join(f"{name}://{address}" for name, address in addresses.items())
    config |= {"listeners": listeners, "advertised.listeners": listeners}
    stack.callback(kafka.kill)
    kafka.start()
    sasl_cases.create_users(kafka.bootstrap, is_open=True)
    return Target(kafka.port, controllers)


def new_emulated(
    directory: Path, certificates: Certificates, listener: str
) -> tuple[ServedKafkalite, Target]:
    address = f"127.0.0.1:{free_port()}"
    config = common_config(certificates, (listener,))
    broker = ServedKafkalite(directory, config, options=("--controller-listen", address))
    return broker, Target(broker.port, {listener: address})


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Start a real Kafka, and a kafkalite for each listener of controllers."""
    directory = tmp_path_factory.mktemp("brokers")
    certificates = Certificates(directory)
    with ExitStack() as stack:
        with required():
            real = start_real(directory / "kafka", certificates, stack)
        emulated = {}
        for listener in PROTOCOLS:
            broker, target = new_emulated(directory / listener, certificates, listener)
            stack.callback(broker.kill)
            broker.start()
            sasl_cases.create_users(broker.bootstrap, is_open=True)
            emulated[listener] = target
        yield Brokers(real, emulated, certificates)


# Authentication

_OTHER_SERVICE: Final = {"credentials", "disabled-tokens"}
"""They need APIs that controllers do not serve, and a broker without tokens."""


@pytest.mark.parametrize("name", [name for name in sasl_cases.CASES if name not in _OTHER_SERVICE])
@pytest.mark.parametrize("listener", [SASL, SASL_SSL])
def test_an_authentication_has_the_same_answers(brokers: Brokers, listener: str, name: str) -> None:
    real, emulated = (
        sasl_cases.run(address, sasl_cases.CASES[name], brokers.context(listener))
        for address in brokers.addresses(listener)
    )
    assert emulated == real


def answers_by_certificate(
    brokers: Brokers, address: str, subject: str | None, *, is_foreign: bool
) -> object:
    """Return the error codes for a client with this certificate, None if it is refused."""
    try:
        client = sasl_cases.RawClient(
            address, brokers.certificates.client(subject, is_foreign=is_foreign)
        )
    except OSError:
        return None
    with closing(client):
        try:
            quorum = client.ask(DescribeQuorumRequest(), 2)
        except OSError:
            return None
        if quorum is None:
            return None
        cluster = client.ask(DescribeClusterRequest(endpoint_type=2), 2)
    return quorum.error_code, cluster.error_code, len(cluster.brokers)


_REFUSED: Final = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("subject", "is_foreign", "expected"),
    [
        ("plain", False, (ErrorCode.NONE, ErrorCode.NONE, 1)),
        ("alice", False, _REFUSED),
        ("plain", True, None),
        (None, False, None),
    ],
)
def test_a_certificate_is_the_identity_of_a_client(
    brokers: Brokers, subject: str | None, expected: object, *, is_foreign: bool
) -> None:
    for address in brokers.addresses(SSL):
        found = answers_by_certificate(brokers, address, subject, is_foreign=is_foreign)
        assert found == expected, address


# Authorization


class Alice:
    """A broker, its administrator, and alice, who is a client of the controller."""

    def __init__(self, target: Target) -> None:
        self._ports = {
            True: target.broker,
            False: int(target.controllers[SASL].rpartition(":")[2]),
        }
        self._clients: dict[bool, RawClient] = {}

    def ask(self, request: Message, version: int, *, as_admin: bool = False) -> Any:  # noqa: ANN401 - any response
        """Return the response, or CLOSED."""
        client = self._clients.get(as_admin)
        if client is None:
            client = self._clients[as_admin] = RawClient(self._ports[as_admin])
            if not as_admin:
                _log_in(client, "alice")
        try:
            return client.call(request, version)
        except ConnectionClosedError:
            self._clients.pop(as_admin).close()
            return CLOSED

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()


def _log_in(client: RawClient, user: str) -> None:
    assert not client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code
    token = f"\0{user}\0{sasl_cases.PASSWORD}".encode()
    assert not client.call(SaslAuthenticateRequest(auth_bytes=token), 2).error_code


@pytest.fixture(scope="module")
def alices(brokers: Brokers) -> Iterator[tuple[Alice, Alice]]:
    both = Alice(brokers.real), Alice(brokers.emulated[SASL])
    for each in both:
        for name in (TOPIC, OTHER_TOPIC):
            create_topic(each, name)
    yield both
    for each in both:
        each.close()


_RANDOM: Final = ("hmac", "token_id", "issue_timestamp_ms", "expiry_timestamp_ms",
                  "max_timestamp_ms", "topic_id")  # fmt: skip


def _without_random(tree: Any) -> Any:  # noqa: ANN401 - a tree
    if isinstance(tree, dict):
        return {key: _without_random(each) for key, each in tree.items() if key not in _RANDOM}
    return [_without_random(each) for each in tree] if isinstance(tree, list) else tree


def permission_differences(
    alices: tuple[Alice, Alice], case: Case, version: int, needs: Sequence[Needs]
) -> list[str]:
    for each in alices:
        restore(each)
        grant(each, needs)
    deadline = time.monotonic() + _CONTROLLER_DELAY_S
    while True:
        real, emulated = (
            _without_random(tree_of(each, case, version, topic_ids(each))) for each in alices
        )
        lines = tree_differences(f"v{version} with {needs}", real, emulated)
        if not lines or time.monotonic() > deadline:
            return lines
        # The controller of the real Kafka may know the ACLs later than the broker. Until then, one
        # of the two may have allowed a request that cannot be repeated.
        for each in alices:
            restore(each)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.key in CONTROLLER_APIS],
    ids=lambda case: f"{case.key.name} {case.label}".strip(),
)
def test_permissions_are_those_of_kafka(alices: tuple[Alice, Alice], case: Case) -> None:
    lines = [
        line
        for version in versions_of(case)
        for needs in grants_of(case)
        for line in permission_differences(alices, case, version, needs)
    ]
    assert not lines, "\n".join(lines)


# Frames


def _request(api_key: int, version: int, body: bytes = b"", client_id: bytes = b"\0\1x") -> bytes:
    return framed(struct.pack(">hhi", api_key, version, 7) + client_id + body)


FRAMES: Final = {
    "empty": framed(b""),
    "too short": framed(b"\0\x13\0\7\0\0\0"),
    "negative length": b"\xff\xff\xff\xff",
    "huge length": b"\x7f\xff\xff\xff",
    "one byte too long": struct.pack(">i", 104_857_601),
    "unknown API": _request(1234, 0),
    "negative API": _request(-1, 0),
    "API of brokers": _request(3, 12, b"\0"),
    "unknown version": _request(55, 99, b"\0"),
    "negative version": _request(55, -1, b"\0"),
    "later version of ApiVersions": _request(18, 99, b"\0"),
    "removed version": _request(19, 1, bytes(8)),
    "no body": _request(55, 2, b"\0"),
    "array longer than the frame": _request(55, 2, b"\0\x09"),
    "huge array": _request(55, 2, b"\0\xff\xff\xff\xff\x0f"),
    "too many tagged fields": _request(55, 2, b"\xff\xff\xff\xff\x0f"),
    "bytes after the body": _request(55, 2, b"\0\1\0xxxxxx"),
    "client id that is no UTF-8": _request(60, 2, b"\0\0\2\0\0", b"\0\2\xff\xfe"),
    "client id longer than the frame": _request(60, 2, b"", b"\x7f\xff"),
    "no client id": _request(60, 2, b"\0\0\2\0\0", b"\xff\xff"),
    "empty CreateTopics": _request(19, 7, b"\0\1\0\0\0\0\0\0"),
}


def answer_to_frame(address: str, frame: bytes, listener: str, brokers: Brokers) -> object:
    """Return the length and the first bytes of the answer, None for a closed connection."""
    client = sasl_cases.RawClient(address, brokers.context(listener))
    if PROTOCOLS[listener].startswith("SASL"):
        client.log_in(_ADMINISTRATOR)
    answer = client.exchange(frame)
    client.close()
    return None if answer is None else (len(answer), bytes(answer[:12]))


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("listener", [PLAINTEXT, SASL, SASL_SSL])
def test_invalid_frames_have_the_same_answers(
    brokers: Brokers, listener: str, frame: bytes
) -> None:
    real, emulated = (
        answer_to_frame(address, frame, listener, brokers)
        for address in brokers.addresses(listener)
    )
    assert emulated == real


def test_a_client_that_sends_no_more_is_answered(brokers: Brokers) -> None:
    lengths = []
    for address in brokers.addresses(PLAINTEXT):
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port)), 10) as client:
            client.sendall(FRAMES["no client id"])
            client.shutdown(socket.SHUT_WR)
            lengths.append(int.from_bytes(client.recv(4)))
    assert lengths[0] == lengths[1] > 0


# Tools

_JAAS: Final = "org.apache.kafka.common.security"


def client_properties(brokers: Brokers, listener: str, mechanism: str, user: str) -> str:
    lines = [f"security.protocol={PROTOCOLS[listener]}"]
    if PROTOCOLS[listener].startswith("SASL"):
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        lines += [
            f"sasl.mechanism={mechanism}",
            (
                f"sasl.jaas.config={_JAAS}.{module}LoginModule required "
                f'username="{user}" password="{sasl_cases.PASSWORD}";'
            ),
        ]
    if "SSL" in PROTOCOLS[listener]:
        trusted = brokers.certificates.trusted
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={trusted}"]
    return "\n".join(lines)


COMMANDS: Final = (
    ("kafka-metadata-quorum", "{config} {controller} describe --replication"),
    ("kafka-features", "{controller} {config} describe"),
    ("kafka-cluster", "list-endpoints {controller} {config}"),
    ("kafka-acls", "{controller} {config} --list --principal User:carol"),
    (
        "kafka-configs",
        (
            "{controller} {config} --alter --add-config log.retention.ms=77 --entity-type brokers "
            "--entity-name 1"
        ),
    ),
    ("kafka-reassign-partitions", "{controller} {config} --list"),
)


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [(SASL, "PLAIN"), (SASL, "SCRAM-SHA-512"), (SASL_SSL, "SCRAM-SHA-256")],
)
def test_the_tools_of_kafka_print_the_same(
    brokers: Brokers, tmp_path: Path, listener: str, mechanism: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(client_properties(brokers, listener, mechanism, _ADMINISTRATOR))
    real, emulated = brokers.addresses(listener)
    addresses = [
        (f"127.0.0.1:{brokers.real.broker}", real),
        (f"127.0.0.1:{brokers.emulated[listener].broker}", emulated),
    ]
    with required(), tool_sides(addresses) as sides:
        for tool, command in COMMANDS:
            text = command.format(
                config=f"--command-config {file}", controller="--bootstrap-controller {controller}"
            )
            of_real, of_emulated = run_with_each(sides, ToolCase(tool, text, figures=True))
            assert of_real is not None
            assert of_real.status == 0, of_real
            assert of_emulated == of_real


# Failures


def test_a_killed_broker_returns_with_its_users_and_its_data(
    brokers: Brokers, tmp_path: Path
) -> None:
    broker, target = new_emulated(tmp_path, brokers.certificates, SASL)
    address = target.controllers[SASL]
    try:
        broker.start()
        sasl_cases.create_users(broker.bootstrap, is_open=True)
        client = RawClient(int(address.rpartition(":")[2]))
        _log_in(client, _ADMINISTRATOR)
        topic = CreateTopicsRequest.CreatableTopic(
            name="stored", num_partitions=1, replication_factor=1
        )
        (created,) = client.call(CreateTopicsRequest(topics=[topic]), 7).topics
        assert created.error_code == ErrorCode.NONE
        idle = [socket.create_connection(("127.0.0.1", client_port(address))) for _ in range(200)]
        broker.kill()
        client.close()
        for each in idle:
            each.close()
        broker.start()
        later = sasl_cases.RawClient(address)
        later.scram("SCRAM-SHA-512", _ADMINISTRATOR, sasl_cases.PASSWORD)
        assert [each.error_code for each in later.responses] == [ErrorCode.NONE] * 3
        assert later.ask(DescribeQuorumRequest(), 2).error_code == ErrorCode.NONE
        later.close()
        admin = RawClient(broker.port)
        names = [each.name for each in admin.call(MetadataRequest(topics=None), 12).topics]
        admin.close()
        assert names == ["stored"]
    finally:
        broker.kill()


def client_port(address: str) -> int:
    return int(address.rpartition(":")[2])
