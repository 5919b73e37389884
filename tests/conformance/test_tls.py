"""Listeners with TLS: handshakes, principals, authentications and settings as in a real Kafka."""

from __future__ import annotations

import socket
import ssl
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from cryptography import x509

from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.create_acls import CreateAclsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.security.principal_mapper import PrincipalMapper
from tests.conformance import acl_requests, sasl_cases
from tests.conformance.raw import RawClient
from tests.conformance.scenarios.configs import BROKER, SET, alter
from tests.conformance.tls_listeners import (
    LISTENERS,
    MAPPING_RULES,
    OPEN,
    RENEWED,
    SASL,
    SASL_WITH_CERTIFICATE,
    SUBJECTS,
    Certificates,
    SecuredTarget,
    emulated_target,
    real_target,
)
from tests.oracle.requirements import required
from tests.unit.frames import request_frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.oracle

Targets = tuple[SecuredTarget, SecuredTarget]
"""A real Kafka and kafkalite."""

_TIMEOUT_S: Final = 10.0
_METADATA_VERSION: Final = 12
_RELOAD_S: Final = 30.0
_VERSIONS: Final = request_frame(ApiVersionsRequest(), 0)
_ANSWERED: Final = "answered"
_SSL_LISTENERS: Final = [name for name, protocol in LISTENERS.items() if protocol == "SSL"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def targets(
    certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Targets]:
    """Run both brokers, with the users and with a topic for each principal."""
    directory = tmp_path_factory.mktemp("tls")
    emulated = emulated_target(directory / "kafkalite", certificates)
    with required():
        real = real_target(directory / "kafka", certificates)
    try:
        with required():
            real.broker.start()
        emulated.broker.start()
        topics = topic_by_principal(certificates)
        for target in (real, emulated):
            sasl_cases.create_users(target.broker.bootstrap, is_open=True)
            create_visible_topics(target, topics)
        yield real, emulated
    finally:
        real.broker.kill()
        emulated.broker.kill()


def topic_by_principal(certificates: Certificates) -> dict[str, str]:
    """Return the name of a topic for every principal that a certificate can have."""
    names = [certificates.subject(subject) for subject in SUBJECTS]
    mapper = PrincipalMapper(MAPPING_RULES)
    principals = dict.fromkeys(
        f"User:{name}" for name in (*names, *map(mapper.name_of, names), "alice", "bob") if name
    )
    return {principal: f"topic-{number}" for number, principal in enumerate(principals)}


def create_visible_topics(target: SecuredTarget, topics: Mapping[str, str]) -> None:
    """Create topics, each of which one principal may describe."""
    client = RawClient(target.ports[OPEN])
    rows = [
        CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in topics.values()
    ]
    created = client.call(CreateTopicsRequest(topics=rows, timeout_ms=30_000), 7)
    assert not any(each.error_code for each in created.topics)
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=2, resource_name=name, resource_pattern_type=3, principal=principal,
            host="*", operation=8, permission_type=3,
        )
        for principal, name in topics.items()
    ]  # fmt: skip
    response = client.call(CreateAclsRequest(creations=creations), 3)
    assert not any(each.error_code for each in response.results)
    while len(client.call(acl_requests.EVERYTHING, 3).resources) < len(topics):
        pass  # The broker learns the ACLs from the controller.
    client.close()


def result_of(address: tuple[str, int], context: ssl.SSLContext) -> str:
    """Return what a client sees that connects and sends a request: an answer, an alert, the end."""
    with socket.create_connection(address, _TIMEOUT_S) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=address[0]) as connection:
                connection.sendall(_VERSIONS)
                return _ANSWERED if connection.recv(100) else "the end of the connection"
        except ssl.SSLError as error:
            return str(error.reason)
        except ConnectionError as error:
            return type(error).__name__


def of_version(context: ssl.SSLContext, version: ssl.TLSVersion) -> ssl.SSLContext:
    context.minimum_version = context.maximum_version = version
    return context


_MISSING_1_2: Final = ("SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_HANDSHAKE_FAILURE")
_MISSING_1_3: Final = ("SSLV3_ALERT_BAD_CERTIFICATE", "TLSV13_ALERT_CERTIFICATE_REQUIRED")
_UNKNOWN_AUTHORITY: Final = ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "TLSV1_ALERT_UNKNOWN_CA")
_EXPIRED: Final = ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "SSLV3_ALERT_CERTIFICATE_EXPIRED")
ALERTS: Final = {
    *(("REQUIRED", "none", 2, *_MISSING_1_2), ("REQUIRED", "none", 3, *_MISSING_1_3)),
    (SASL_WITH_CERTIFICATE, "none", 2, *_MISSING_1_2),
    (SASL_WITH_CERTIFICATE, "none", 3, *_MISSING_1_3),
    *(
        (listener, certificate, 3, *alerts)
        for listener in ("REQUESTED", "REQUIRED", SASL_WITH_CERTIFICATE)
        for certificate, alerts in (("foreign", _UNKNOWN_AUTHORITY), ("expired", _EXPIRED))
    ),
}
"""All differences: listener, certificate, minor version of TLS 1, and what clients see.

Both brokers send a fatal alert about the certificate, Java and OpenSSL with other numbers.
"""

_CERTIFICATES: Final[Mapping[str, Mapping[str, Any]]] = {
    "none": {},
    "valid": {"subject": "alice"},
    "foreign": {"subject": "alice", "is_foreign": True},
    "expired": {"subject": "alice", "lifetime": timedelta(days=-1)},
}


def test_handshakes_end_as_in_kafka(targets: Targets, certificates: Certificates) -> None:
    found = set()
    results = set()
    for listener in ("NOCERTIFICATE", "REQUESTED", "REQUIRED", "TLS12", "TLS13", SASL,
                     SASL_WITH_CERTIFICATE):  # fmt: skip
        for name, certificate in _CERTIFICATES.items():
            for minor, version in ((2, ssl.TLSVersion.TLSv1_2), (3, ssl.TLSVersion.TLSv1_3)):
                context = of_version(certificates.client(**certificate), version)
                real, emulated = (
                    result_of(("127.0.0.1", target.ports[listener]), context) for target in targets
                )
                results.add(real)
                if real != emulated:
                    found.add((listener, name, minor, real, emulated))
    assert found == ALERTS
    assert results >= {_ANSWERED, "TLSV1_ALERT_PROTOCOL_VERSION"}


_WEAK: Final = {
    ("rsa-1024-sha1", 2): _ANSWERED,
    ("rsa-1024-sha1", 3): _ANSWERED,
    ("trusted-768", 2): _ANSWERED,
    ("trusted-768", 3): _ANSWERED,
    ("rsa-1023", 2): "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
    ("md5", 2): "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
    ("rsa-1023", 3): "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
    ("md5", 3): "SSLV3_ALERT_BAD_CERTIFICATE",
}
"""Client certificate, minor version of TLS 1 → the result at Kafka on Java 17."""


@pytest.mark.parametrize("listener", ["REQUIRED", SASL_WITH_CERTIFICATE])
def test_weak_certificates_of_clients_end_as_in_java(
    targets: Targets, certificates: Certificates, listener: str
) -> None:
    """With TLS 1.3, a client of kafkalite sees the end of the connection instead of an alert."""
    for (name, minor), expected in _WEAK.items():
        version = ssl.TLSVersion.TLSv1_2 if minor == 2 else ssl.TLSVersion.TLSv1_3
        context = of_version(certificates.weak_client(name), version)
        real, emulated = (
            result_of(("127.0.0.1", target.ports[listener]), context) for target in targets
        )
        without_alert = minor == 3 and expected != _ANSWERED
        assert real == expected, (name, minor)
        assert emulated == ("the end of the connection" if without_alert else expected), (
            name,
            minor,
        )


def test_a_client_certificate_without_a_subject(
    targets: Targets, certificates: Certificates
) -> None:
    """Java refuses the certificate, and OpenSSL accepts it."""
    context = certificates.client(x509.Name([]))
    real, emulated = (
        result_of(("127.0.0.1", target.ports["REQUIRED"]), context) for target in targets
    )
    assert real == "SSLV3_ALERT_BAD_CERTIFICATE"
    assert emulated == _ANSWERED


def presented(target: SecuredTarget, certificates: Certificates) -> bytes | None:
    """Return the certificate of the listener RENEWED."""
    address = ("127.0.0.1", target.ports[RENEWED])
    context = certificates.client()
    with (
        socket.create_connection(address, _TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=address[0]) as connection,
    ):
        return connection.getpeercert(binary_form=True)


def test_a_changed_key_store_is_loaded(targets: Targets, certificates: Certificates) -> None:
    """Kafka loads it when a client sets its path again, and kafkalite for the next connection."""
    before = [presented(target, certificates) for target in targets]
    certificates.renew()
    real, emulated = (presented(target, certificates) for target in targets)
    assert real == before[0]
    assert emulated != before[1]

    key = f"listener.name.{RENEWED.lower()}.ssl.keystore.location"
    for target in targets:
        client = RawClient(target.ports[OPEN])
        altered = client.call(alter(BROKER, "1", (key, SET, certificates.renewed)), 1)
        client.close()
        assert not altered.responses[0].error_code, altered
    deadline_s = time.monotonic() + _RELOAD_S
    while presented(targets[0], certificates) != emulated:
        assert time.monotonic() < deadline_s
    assert presented(targets[1], certificates) == emulated


def test_clients_without_a_common_suite_or_trust_fail_as_in_kafka(
    targets: Targets, certificates: Certificates
) -> None:
    other_suite = of_version(certificates.client(), ssl.TLSVersion.TLSv1_2)
    other_suite.set_ciphers("AES128-SHA256")  # needs a key of RSA
    without_trust = ssl.create_default_context()
    for context in (other_suite, without_trust):
        real, emulated = (
            result_of(("127.0.0.1", target.ports["NOCERTIFICATE"]), context) for target in targets
        )
        assert emulated == real != _ANSWERED


def bytes_until_end(port: int, sent: bytes) -> bytes:
    """Send bytes to a listener; return everything that it sends before it closes."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as connection:
        connection.sendall(sent)
        while chunk := connection.recv(1000):
            received += chunk
    return received


@pytest.mark.parametrize(
    "sent",
    [
        _VERSIONS,
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello",
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"\x17\x03\x03\x00\x02aa",
    ],
)
def test_bytes_that_are_not_tls_have_the_answer_of_kafka(targets: Targets, sent: bytes) -> None:
    real, emulated = (bytes_until_end(target.ports["REQUIRED"], sent) for target in targets)
    assert emulated == real


def visible_topics(
    target: SecuredTarget, listener: str, context: ssl.SSLContext, *, is_alice: bool = False
) -> list[str] | None:
    """Return the topics that a client sees, None if its connection is closed.

    With `is_alice`, it authenticates by SASL.
    """
    client = sasl_cases.RawClient(f"127.0.0.1:{target.ports[listener]}", context)
    try:
        if is_alice:
            client.log_in()
        response = client.ask(MetadataRequest(topics=None), _METADATA_VERSION)
        return response and sorted(topic.name for topic in response.topics)
    finally:
        client.close()


@pytest.mark.parametrize("subject", SUBJECTS)
def test_principals_of_certificates_are_those_of_kafka(
    targets: Targets, certificates: Certificates, subject: str
) -> None:
    """The one topic that a client sees shows its principal."""
    real, emulated = targets
    for listener in ("REQUESTED", "REQUIRED", "MAPPED", "UNMAPPED"):
        context = certificates.client(subject)
        visible = visible_topics(emulated, listener, context)
        assert visible == visible_topics(real, listener, context)
        if listener == "UNMAPPED" and subject != "alice":
            assert visible is None
        else:
            assert visible is not None
            assert len(visible) == 1


def test_clients_without_certificate_are_anonymous(
    targets: Targets, certificates: Certificates
) -> None:
    for listener in ("NOCERTIFICATE", "REQUESTED"):
        real, emulated = (
            visible_topics(target, listener, certificates.client()) for target in targets
        )
        assert emulated == real
        assert real == sorted(topic_by_principal(certificates).values())


def test_the_principal_of_sasl_replaces_that_of_the_certificate(
    targets: Targets, certificates: Certificates
) -> None:
    topic = topic_by_principal(certificates)["User:alice"]
    for listener, subject in ((SASL, None), (SASL_WITH_CERTIFICATE, "capitals")):
        context = certificates.client(subject)
        for target in targets:
            assert visible_topics(target, listener, context, is_alice=True) == [topic]


_SASL_CASES: Final = (
    "plain-0", "plain-3", "bare-plain-", "mechanism-", "again", "afterwards", "SCRAM-", "final",
    "raw-", "during-Sasl",
)  # fmt: skip
"""The start of the names of authentications that are repeated over TLS."""


@pytest.mark.parametrize(
    "name", [name for name in sasl_cases.CASES if name.startswith(_SASL_CASES)]
)
def test_an_authentication_over_tls_has_the_same_answers(
    targets: Targets, certificates: Certificates, name: str
) -> None:
    real, emulated = (
        sasl_cases.run(
            f"127.0.0.1:{target.ports[SASL]}", sasl_cases.CASES[name], certificates.client()
        )
        for target in targets
    )
    assert emulated == real


def test_each_listener_returns_its_own_address(
    targets: Targets, certificates: Certificates
) -> None:
    for target in targets:
        for listener in _SSL_LISTENERS:
            client = sasl_cases.RawClient(
                f"127.0.0.1:{target.ports[listener]}", certificates.client("alice")
            )
            (broker,) = client.ask(MetadataRequest(topics=[]), _METADATA_VERSION).brokers
            client.close()
            assert (broker.host, broker.port) == ("127.0.0.1", target.ports[listener])


def described_settings(target: SecuredTarget) -> dict[str, Any]:
    """Return the settings of TLS, SASL and listeners as a broker describes them."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=None
    )
    client = RawClient(target.ports[OPEN])
    response = client.call(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
    client.close()
    (result,) = response.results
    return {
        config.name: config
        for config in result.configs
        if config.name.startswith(("ssl.", "sasl.", "listener.name."))
    }


def test_settings_of_tls_are_described_as_in_kafka(targets: Targets) -> None:
    real, emulated = map(described_settings, targets)
    # The mechanisms that are enabled by default are kafkalite's own.
    for described in (real, emulated):
        described["sasl.enabled.mechanisms"].synonyms.pop()
    assert emulated == real
