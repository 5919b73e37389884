"""Secrets of real clients with a real Kafka: the proxy records none of them."""

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

from kafkalite.client.access import Access, Login
from kafkalite.client.client import KafkaClient
from kafkalite.lab.proxy.tls import client_context
from kafkalite.protocol._generated.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
)
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from tests.clients.served_proxy import ServedProxy
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG, free_port
from tests.unit.lab.proxy.certificates import Certificates

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.client, pytest.mark.oracle]

USER = "observer"
PASSWORD = "correct-horse-battery-staple"  # noqa: S105 - of a broker that lives for a minute
OTHER_PASSWORD = "another-horse-another-staple"  # noqa: S105
STORE_PASSWORD = "a-store-has-a-password-too"  # noqa: S105
_SALT = b"salt-of-a-test-of-captures"
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_KAFKA_PYTHON_PROGRAM = """
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
    """A Kafka with two listeners with SASL, one of them with TLS too."""

    kafka: RealKafka
    tls_port: int
    certificates: Certificates


class _Upstream:
    """The upstream of a proxy: one of the listeners."""

    def __init__(self, kafka: RealKafka, port: int) -> None:
        self.name = kafka.name
        self.port = port
        self.bootstrap = f"127.0.0.1:{port}"
        self.data = kafka.data


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Run a Kafka with one user, and three mechanisms at each listener."""
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
        _create_scram_users(kafka)
        yield Secured(kafka, tls_port, certificates)
    finally:
        kafka.kill()


def _listeners(kafka: RealKafka, tls_port: int) -> dict[str, str]:
    clients = f"PLAINTEXT://{kafka.bootstrap},SECURE://127.0.0.1:{tls_port}"
    listeners = f"{clients},CONTROLLER://{kafka.controller}"
    login = f'username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";'
    jaas_configs = {"PLAIN": f"{_JAAS}.plain.PlainLoginModule required {login}"}
    jaas_configs |= dict.fromkeys(_SCRAM, f"{_JAAS}.scram.ScramLoginModule required;")
    protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT,SECURE:SASL_SSL"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        **{
            f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config": text
            for name in ("plaintext", "secure")
            for mechanism, text in jaas_configs.items()
        },
    }


def _create_scram_users(kafka: RealKafka) -> None:
    admin = AdminClient(_librdkafka_config(kafka.bootstrap, "PLAIN", None))
    for mechanism in (
        ScramMechanism.SCRAM_SHA_256,
        ScramMechanism.SCRAM_SHA_512,
    ):
        _alter_scram(admin, PASSWORD, mechanism)


def _alter_scram(admin: AdminClient, password: str, mechanism: ScramMechanism) -> None:
    row = UserScramCredentialUpsertion(
        USER, ScramCredentialInfo(mechanism, 4096), password.encode(), _SALT
    )
    for future in admin.alter_user_scram_credentials([row]).values():
        future.result(30)


def _librdkafka_config(bootstrap: str, mechanism: str, authority: str | None) -> dict[str, Any]:
    """Return the configuration of librdkafka."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "sasl_plaintext" if authority is None else "sasl_ssl",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        **({} if authority is None else {"ssl.ca.location": authority}),
    }


@contextmanager
def running_proxy(
    secured: Secured, directory: Path, *options: str, has_tls: bool
) -> Iterator[ServedProxy]:
    """Start a proxy in front of one listener, with TLS on both sides or on none."""
    port = secured.tls_port if has_tls else secured.kafka.port
    certificates = secured.certificates
    if has_tls:
        options += ("--tls-cert", certificates.chain, "--tls-key", certificates.key)
        options += ("--upstream-tls", "--upstream-ca", certificates.authority)
    proxy = ServedProxy(_Upstream(secured.kafka, port), directory, options)  # type: ignore[arg-type]
    proxy.open()
    try:
        yield proxy
    finally:
        proxy.close()


def log_in(bootstrap: str, authority: str | None) -> None:
    """Produce a record with each client and each mechanism."""
    for mechanism in _MECHANISMS:
        producer = Producer(_librdkafka_config(bootstrap, mechanism, authority))
        producer.produce("secrets", b"of no importance")
        assert producer.flush(30) == 0
        client_config = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SASL_PLAINTEXT" if authority is None else "SASL_SSL",
            "ssl_cafile": authority,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": USER,
            "sasl_plain_password": PASSWORD,
        }
        subprocess.run(
            [sys.executable, "-c", _KAFKA_PYTHON_PROGRAM, json.dumps(client_config)], check=True
        )


def administrate(bootstrap: str, authority: str | None) -> list[bytes]:
    """Send all kinds of secrets of an administrator; return those that Kafka generated."""
    admin = AdminClient(_librdkafka_config(bootstrap, "PLAIN", authority))
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
        resource = ConfigResource(*node, incremental_configs=[entry])
        for altered in admin.incremental_alter_configs([resource]).values():
            altered.exception(30)  # its result does not matter
    for described in admin.describe_configs([ConfigResource(*node)]).values():
        assert described.result(30)
    return asyncio.run(_tokens(bootstrap, authority))


async def _tokens(bootstrap: str, authority: str | None) -> list[bytes]:
    tls = None if authority is None else client_context(authority, None, None, verify_server=True)
    access = Access(tls, Login("SCRAM-SHA-512", USER, PASSWORD))
    async with KafkaClient([Address.parse(bootstrap)], access) as client:
        token_response = await client.ask_any(
            CreateDelegationTokenRequest(max_lifetime_ms=60_000), Versions(1, 3)
        )
        assert token_response.error_code == 0
        described = await client.ask_any(
            DescribeDelegationTokenRequest(owners=None), Versions(1, 3)
        )
        for change in (
            RenewDelegationTokenRequest(hmac=token_response.hmac, renew_period_ms=-1),
            ExpireDelegationTokenRequest(hmac=token_response.hmac, expiry_time_period_ms=-1),
        ):
            await client.ask_any(change, Versions(1, 2))  # its result does not matter
    return [token_response.hmac, *(token.hmac for token in described.tokens)]


def recorded_bytes(proxy: ServedProxy) -> bytes:
    """Return the content of all files of a proxy."""
    files = sorted(proxy.captures.iterdir())
    assert files
    return b"".join(path.read_bytes() for path in files) + proxy.log().encode()


@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
def test_no_secret_is_written(secured: Secured, tmp_path: Path, *, has_tls: bool) -> None:
    authority = secured.certificates.authority if has_tls else None
    with running_proxy(secured, tmp_path, has_tls=has_tls) as proxy:
        log_in(proxy.bootstrap, authority)
        tokens = administrate(proxy.bootstrap, authority)
    recorded = recorded_bytes(proxy)
    assert b"of no importance either" in recorded
    assert b"keystore.password" in recorded
    assert all(tokens)
    texts = (PASSWORD, OTHER_PASSWORD, STORE_PASSWORD, f"\0{USER}\0{PASSWORD}")
    secrets = [*(text.encode() for text in texts), _SALT, *tokens]
    secrets += [b64encode(secret) for secret in secrets]
    assert [secret for secret in secrets if secret in recorded] == []
    assert b",p=" not in recorded, "the proof of SCRAM"
    assert b",s=" not in recorded, "the salt of SCRAM"


def test_secrets_are_written_on_request(secured: Secured, tmp_path: Path) -> None:
    with running_proxy(secured, tmp_path, "--keep-secrets", has_tls=False) as proxy:
        log_in(proxy.bootstrap, None)
    recorded = recorded_bytes(proxy)
    assert PASSWORD.encode() in recorded
    assert b",p=" in recorded
    assert b",s=" in recorded
