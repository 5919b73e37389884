"""Secrets of real clients on their way to a real Kafka: the proxy writes none of them down."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafkalite.control.access import Access, Login
from kafkalite.control.kafka_client import KafkaClient
from kafkalite.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kafkalite.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkalite.protocol.versions import Versions
from kafkalite.proxy.tls import towards_cluster
from kafkalite.server.addresses import Address
from tests.clients.served_proxy import ServedProxy
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG, free_port
from tests.unit.proxy.certificates import Certificates

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.client, pytest.mark.oracle]

USER = "observer"
PASSWORD = "correct-horse-battery-staple"  # noqa: S105 - of a broker that lives for a minute
OTHER_PASSWORD = "another-horse-another-staple"  # noqa: S105
STORE_PASSWORD = "a-store-has-a-password-too"  # noqa: S105
_SALT = b"salt-of-a-test-of-captures"
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_IN_PYTHON = """
import json, sys
from kafka import KafkaProducer
producer = KafkaProducer(**json.loads(sys.argv[1]))
producer.send("secrets", b"of no importance either").get(30)
producer.close()
"""
_MECHANISMS = ("PLAIN", *_SCRAM)
_JAAS = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Secured:
    """A Kafka with two listeners that want a password, one of them TLS as well."""

    kafka: RealKafka
    tls_port: int
    certificates: Certificates


class _Behind:
    """What a proxy is put in front of: one of the listeners."""

    def __init__(self, kafka: RealKafka, port: int) -> None:
        self.name = kafka.name
        self.port = port
        self.bootstrap = f"127.0.0.1:{port}"
        self.data = kafka.data


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Run a Kafka that knows one user, by three mechanisms at either listener."""
    directory = tmp_path_factory.mktemp("secured")
    certificates = Certificates(directory)
    store = directory / "store.pem"
    store.write_text(Path(certificates.key).read_text() + Path(certificates.chain).read_text())
    tls_port = free_port()
    config = {
        **COMMON_CONFIG,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "delegation.token.secret.key": "signs-all-tokens",
    }
    with required():
        kafka = RealKafka(directory / "kafka", config)
        config |= _listeners(kafka, tls_port)  # which only it can name
        kafka.start()
    try:
        _have_scram(kafka)
        yield Secured(kafka, tls_port, certificates)
    finally:
        kafka.kill()


def _listeners(kafka: RealKafka, tls_port: int) -> dict[str, str]:
    clients = f"PLAINTEXT://{kafka.bootstrap},SECURE://127.0.0.1:{tls_port}"
    both = f"{clients},CONTROLLER://{kafka.controller}"
    login = f'username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";'
    wanted = {"PLAIN": f"{_JAAS}.plain.PlainLoginModule required {login}"}
    wanted |= dict.fromkeys(_SCRAM, f"{_JAAS}.scram.ScramLoginModule required;")
    protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT,SECURE:SASL_SSL"
    return {
        "listeners": both,
        "advertised.listeners": both,
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        **{
            f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config": text
            for name in ("plaintext", "secure")
            for mechanism, text in wanted.items()
        },
    }


def _have_scram(kafka: RealKafka) -> None:
    admin = AdminClient(_native(kafka.bootstrap, "PLAIN", None))
    for mechanism in (
        ScramMechanism.SCRAM_SHA_256,
        ScramMechanism.SCRAM_SHA_512,
    ):
        _alter_scram(admin, PASSWORD, mechanism)


def _alter_scram(admin: AdminClient, password: str, mechanism: ScramMechanism) -> None:
    row = UserScramCredentialUpsertion(
        USER, ScramCredentialInfo(mechanism, 4096), password.encode(), _SALT
    )
    for done in admin.alter_user_scram_credentials([row]).values():
        done.result(30)


def _native(bootstrap: str, mechanism: str, authority: str | None) -> dict[str, Any]:
    """Return what librdkafka is to be told."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "sasl_plaintext" if authority is None else "sasl_ssl",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        **({} if authority is None else {"ssl.ca.location": authority}),
    }


@contextmanager
def proxied(
    secured: Secured, directory: Path, *options: str, by_tls: bool
) -> Iterator[ServedProxy]:
    """Put a proxy in front of one of the listeners; it speaks TLS to both sides or to neither."""
    port = secured.tls_port if by_tls else secured.kafka.port
    certificates = secured.certificates
    if by_tls:
        options += ("--tls-cert", certificates.chain, "--tls-key", certificates.key)
        options += ("--upstream-tls", "--upstream-ca", certificates.authority)
    proxy = ServedProxy(_Behind(secured.kafka, port), directory, options)  # type: ignore[arg-type]
    proxy.open()
    try:
        yield proxy
    finally:
        proxy.close()


def log_in(bootstrap: str, authority: str | None) -> None:
    """Produce a record as each client can, by each mechanism."""
    for mechanism in _MECHANISMS:
        native = Producer(_native(bootstrap, mechanism, authority))
        native.produce("secrets", b"of no importance")
        assert native.flush(30) == 0
        wanted = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SASL_PLAINTEXT" if authority is None else "SASL_SSL",
            "ssl_cafile": authority,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": USER,
            "sasl_plain_password": PASSWORD,
        }
        subprocess.run([sys.executable, "-c", _IN_PYTHON, json.dumps(wanted)], check=True)


def administrate(bootstrap: str, authority: str | None) -> list[bytes]:
    """Send every kind of secret that an administrator has; return those that Kafka has made."""
    admin = AdminClient(_native(bootstrap, "PLAIN", authority))
    _alter_scram(admin, OTHER_PASSWORD, ScramMechanism.SCRAM_SHA_256)
    _alter_scram(admin, PASSWORD, ScramMechanism.SCRAM_SHA_256)
    login = f'username="x" password="{OTHER_PASSWORD}";'
    settings = {
        "listener.name.secure.ssl.keystore.password": STORE_PASSWORD,
        "listener.name.secure.plain.sasl.jaas.config": (
            f"{_JAAS}.plain.PlainLoginModule required {login}"
        ),
        "not.a.setting.but.a.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
    }
    node = (ConfigResource.Type.BROKER, "1")
    for name, value in settings.items():
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        asked = ConfigResource(*node, incremental_configs=[entry])
        for altered in admin.incremental_alter_configs([asked]).values():
            altered.exception(30)  # whether Kafka likes it is not the question
    for told in admin.describe_configs([ConfigResource(*node)]).values():
        assert told.result(30)
    return asyncio.run(_tokens(bootstrap, authority))


async def _tokens(bootstrap: str, authority: str | None) -> list[bytes]:
    tls = None if authority is None else towards_cluster(authority, None, None, is_checked=True)
    access = Access(tls, Login("SCRAM-SHA-512", USER, PASSWORD))
    async with KafkaClient([Address.parse(bootstrap)], access) as client:
        made = await client.ask_any(
            CreateDelegationTokenRequest(max_lifetime_ms=60_000), Versions(1, 3)
        )
        assert made.error_code == 0
        told = await client.ask_any(DescribeDelegationTokenRequest(owners=None), Versions(1, 3))
    return [made.hmac, *(each.hmac for each in told.tokens)]


def written(proxy: ServedProxy) -> bytes:
    """Return all that a proxy has left behind."""
    files = sorted(proxy.captures.iterdir())
    assert files
    return b"".join(each.read_bytes() for each in files) + proxy.log().encode()


@pytest.mark.parametrize("by_tls", [False, True], ids=["plain", "tls"])
def test_no_secret_is_written(secured: Secured, tmp_path: Path, *, by_tls: bool) -> None:
    authority = secured.certificates.authority if by_tls else None
    with proxied(secured, tmp_path, by_tls=by_tls) as proxy:
        log_in(proxy.bootstrap, authority)
        tokens = administrate(proxy.bootstrap, authority)
    found = written(proxy)
    assert b"of no importance either" in found
    assert b"keystore.password" in found
    assert all(tokens)
    texts = (PASSWORD, OTHER_PASSWORD, STORE_PASSWORD, f"\0{USER}\0{PASSWORD}")
    secrets = [*(each.encode() for each in texts), _SALT, *tokens]
    secrets += [b64encode(each) for each in secrets]
    assert [each for each in secrets if each in found] == []
    assert b",p=" not in found, "the proof of SCRAM"
    assert b",s=" not in found, "the salt of SCRAM"


def test_unless_that_is_asked_for(secured: Secured, tmp_path: Path) -> None:
    with proxied(secured, tmp_path, "--keep-secrets", by_tls=False) as proxy:
        log_in(proxy.bootstrap, None)
    found = written(proxy)
    assert PASSWORD.encode() in found
    assert b",p=" in found
    assert b",s=" in found
