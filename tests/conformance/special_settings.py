"""A real Kafka and kafkalite with settings, listeners and a feature level that few tests need."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.protocol._generated.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient
from tests.conformance.sasl_kafka import SETTINGS, USERS, kafka_with_sasl
from tests.oracle.real_kafka import FAST_START
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LONGEST_MS: Final = str((1 << 63) - 1)
_LEVELS: Final = {"transaction.version": "0"}
_SPECIAL: Final = {
    "allow.everyone.if.no.acl.found": "yes",
    "delegation.token.expiry.time.ms": _LONGEST_MS,
    "delegation.token.max.lifetime.ms": _LONGEST_MS,
    "group.consumer.max.size": "2",
    "group.streams.topology.description.plugin.class": (
        "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
    ),
    "offsets.retention.check.interval.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.prune.interval.ms": "300",
}

HOST_NAME: Final = "client.test"
"""A name that Java resolves, and that has no address on this machine otherwise."""
_HOSTS: Final = f"127.0.0.1 localhost\n10.1.2.3 {HOST_NAME}\n"


class SpecialBroker(NamedTuple):
    """The ports of a broker."""

    port: int
    """The listener without authentication."""
    sasl_port: int
    tls_port: int = -1
    """The listener with TLS and without a key store; only Kafka has it."""


@contextmanager
def special_kafka(directory: Path) -> Iterator[SpecialBroker]:
    """Run a real Kafka with all special settings."""
    sasl_port, tls_port = free_port(), free_port()
    hosts = directory / "hosts"
    hosts.write_text(_HOSTS)
    kafka = kafka_with_sasl(
        directory,
        sasl_port,
        settings=_SPECIAL,
        features=_LEVELS,
        tls_port=tls_port,
        flags=(*FAST_START, f"-Djdk.net.hosts.file={hosts}"),
    )
    try:
        with required():
            kafka.start()
        yield SpecialBroker(kafka.port, sasl_port, tls_port)
    finally:
        kafka.kill()


@contextmanager
def special_kafkalite() -> Iterator[SpecialBroker]:
    """Run two brokers with all special settings, because each has one listener."""
    config = {**COMMON_CONFIG, **SETTINGS, **_SPECIAL, **_LEVELS}
    with (
        Broker(config=config, log_level="error") as plain,
        Broker(security="SASL_PLAINTEXT", users=USERS, config=config, log_level="error") as sasl,
    ):
        yield SpecialBroker(port_of(plain), port_of(sasl))


def port_of(broker: Broker) -> int:
    """Return the port of a broker with one listener."""
    return int(broker.bootstrap_servers.rpartition(":")[2])


def authenticated(broker: SpecialBroker, name: str) -> RawClient:
    """Return a connection of a user."""
    client = RawClient(broker.sasl_port)
    assert not _authenticate(client, name, USERS[name]).error_code
    return client


def authentication(broker: SpecialBroker, name: str, password: str) -> SaslAuthenticateResponse:
    """Return the answer to an authentication by PLAIN on a connection of its own."""
    client = RawClient(broker.sasl_port)
    try:
        return _authenticate(client, name, password)
    finally:
        client.close()


def _authenticate(client: RawClient, name: str, password: str) -> SaslAuthenticateResponse:
    client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = f"\0{name}\0{password}".encode()
    answer: SaslAuthenticateResponse = client.call(SaslAuthenticateRequest(auth_bytes=token), 2)
    return answer
