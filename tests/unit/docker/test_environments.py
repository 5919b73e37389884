"""Contracts of the images: their environments start the broker that they describe."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from kafkalite.cli import process
from kafkalite.cli.parsing import CommandParser
from kafkalite.cli.serve import add_options
from kafkalite.client import Access, Login, PartitionConsumer, Producer, TopicPartition, connection
from kafkalite.client.client import KafkaClient
from kafkalite.client.connection import connect
from kafkalite.docker.start import plan_from, topic_creator
from kafkalite.docker.variables import Image
from kafkalite.security.certificates import CertificateAuthority
from kafkalite.server.addresses import Address
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from tests.unit.docker.environments import FORMS, HOSTNAME, Form

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from kafkalite.docker.start import Plan
    from kafkalite.server.settings import Settings

_resolve = socket.getaddrinfo


@pytest.fixture(autouse=True)
def names_of_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every host name be this machine, as in the network of a compose file."""

    def resolve(host: str | bytes | None, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as socket's
        text = host.decode() if isinstance(host, bytes) else host
        is_here = text in (None, "localhost") or ":" in str(text)
        return _resolve(host if is_here else "127.0.0.1", *arguments, **keywords)

    async def connect_here(protocol: Any, address: Address, tls: Any) -> Any:  # noqa: ANN401
        here = address.host if address.host == "localhost" else "127.0.0.1"
        return await connect(protocol, address._replace(host=here), tls)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(connection, "connect", connect_here)


@pytest.fixture
def free_port() -> Callable[[str], str]:
    """Return a function from a port in an environment to a free port of this machine."""
    sockets: dict[str, int] = {}

    def free(port: str) -> str:
        if port not in sockets:
            with socket.create_server(("127.0.0.1", 0)) as server:
                sockets[port] = server.getsockname()[1]
        return str(sockets[port])

    return free


def plan_of(form: Form, root: Path) -> Plan:
    for path, text in form.files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return plan_from({**form.environment, "KAFKALITE_ROOT": str(root)}, HOSTNAME)


def settings_of(plan: Plan, free: Callable[[str], str]) -> Settings:
    """Return the settings of `kafkalite serve`, with free ports in place of those of the form."""
    arguments = [
        re.sub(r":(\d+)(?=,|$)", lambda match: f":{free(match[1])}", text)
        if text.startswith(("--config=listeners=", "--config=advertised.listeners="))
        else text
        for text in plan.arguments
    ]
    parser = CommandParser()
    add_options(parser)
    return process.settings_from(parser.parse_args(arguments), Log(Level.ERROR))


async def exchange_record(address: str, access: Access) -> None:
    """Send a record through the address and its advertised address, and receive it."""
    partition = TopicPartition("exchanged", 0)
    async with KafkaClient([Address.parse(address)], access) as client:
        await client.check_reachable()
    async with Producer(address, access=access) as producer:
        sent = await producer.send(partition, address.encode())
    async with PartitionConsumer(address, access=access, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, sent.first_offset)
        (record,) = await consumer.poll(10_000)
        assert record.value == address.encode()


async def check_broker(
    form: Form, plan: Plan, free: Callable[[str], str], tls: ssl.SSLContext | None = None
) -> None:
    settings = settings_of(plan, free)
    settings = settings._replace(topics={**settings.topics, "exchanged": 1})
    broker = Broker(settings, Log(Level.ERROR), prepare=topic_creator(plan.translation.topics))
    await broker.start()
    try:
        assert broker.cluster_id == form.cluster_id or form.cluster_id is None
        assert broker.cluster is not None
        image = broker.cluster.metadata.image
        assert {name: len(image.topics[name].partitions) for name in form.topics} == form.topics
        protocols = broker.protocol_by_listener()
        for spec in settings.listeners:
            if spec.name not in form.advertised:
                continue
            host, _, port = form.advertised[spec.name].rpartition(":")
            advertised = f"{host}:{free(port)}"
            assert broker.bootstrap_by_listener()[spec.name] == advertised
            protocol = protocols[spec.name]
            login = Login(*form.login) if form.login and protocol.uses_sasl else None
            access = Access(tls if protocol.uses_tls else None, login)
            await exchange_record(f"127.0.0.1:{spec.listen_address.port}", access)
    finally:
        await broker.stop()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.image.value}: {form.name}")
def test_environment_starts_the_broker_that_it_describes(
    form: Form, tmp_path: Path, free_port: Callable[[str], str]
) -> None:
    plan = plan_of(form, tmp_path)
    names = {spec.name for spec in plan.settings.listeners}
    assert names >= form.advertised.keys()
    translation = plan.translation
    assert form.config.items() <= translation.config.items()
    assert any("ZooKeeper" in notice for notice in translation.notices) is form.has_zookeeper
    asyncio.run(check_broker(form, plan, free_port))


def test_there_are_forms_of_every_image() -> None:
    assert {form.image for form in FORMS} == set(Image)
    assert len(FORMS) >= 30


class Stores:
    """Key stores of a broker and of a client, of one authority."""

    password = "store-password"  # noqa: S105 - of files of the test

    def __init__(self, directory: Path) -> None:
        authority = CertificateAuthority.create()
        broker = authority.issue("broker", ["localhost", "127.0.0.1"])
        client = authority.issue("client")
        encryption = BestAvailableEncryption(self.password.encode())
        self.key_store = pkcs12.serialize_key_and_certificates(
            b"broker", broker.key, broker.certificate, [authority.certificate], encryption
        )
        self.trust_store = pkcs12.serialize_key_and_certificates(
            None, None, None, [authority.certificate], encryption
        )
        self.chain_pem = broker.certificate_pem + authority.pem
        self.key_pem = broker.key_pem
        self.authority_pem = authority.pem
        own = directory / "client.pem"
        own.write_bytes(authority.chain_pem(client))
        self.client = ssl.create_default_context(cadata=authority.pem.decode())
        self.client.load_cert_chain(own)


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


def write(root: Path, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def test_key_stores_in_the_directory_of_secrets(
    stores: Stores, tmp_path: Path, free_port: Callable[[str], str]
) -> None:
    password = stores.password.encode()
    write(
        tmp_path,
        {
            "/etc/kafka/secrets/broker.keystore.jks": stores.key_store,
            "/etc/kafka/secrets/broker.truststore.jks": stores.trust_store,
            "/etc/kafka/secrets/creds": password + b"\n",
        },
    )
    form = Form(
        "client certificates",
        Image.CONFLUENT,
        {
            "KAFKA_BROKER_ID": "1",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_ADVERTISED_LISTENERS": "SSL://localhost:9093",
            "KAFKA_SECURITY_INTER_BROKER_PROTOCOL": "SSL",
            "KAFKA_SSL_KEYSTORE_FILENAME": "broker.keystore.jks",
            "KAFKA_SSL_KEYSTORE_CREDENTIALS": "creds",
            "KAFKA_SSL_KEY_CREDENTIALS": "creds",
            "KAFKA_SSL_TRUSTSTORE_FILENAME": "broker.truststore.jks",
            "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "creds",
            "KAFKA_SSL_CLIENT_AUTH": "required",
        },
        {"SSL": "localhost:9093"},
    )
    asyncio.run(check_broker(form, plan_of(form, tmp_path), free_port, stores.client))


@pytest.mark.parametrize("kind", ["JKS", "PEM"])
def test_key_stores_in_the_directory_of_certificates(
    kind: str, stores: Stores, tmp_path: Path, free_port: Callable[[str], str]
) -> None:
    directory = "/opt/bitnami/kafka/config/certs"
    write(
        tmp_path,
        {
            f"{directory}/kafka.keystore.jks": stores.key_store,
            f"{directory}/kafka.truststore.jks": stores.trust_store,
            f"{directory}/kafka.keystore.pem": stores.chain_pem,
            f"{directory}/kafka.keystore.key": stores.key_pem,
            f"{directory}/kafka.truststore.pem": stores.authority_pem,
        },
    )
    form = Form(
        "SASL with TLS",
        Image.BITNAMI,
        {
            "KAFKA_CFG_LISTENERS": "SASL_SSL://:9093,CONTROLLER://:9094",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "SASL_SSL://localhost:9093",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": ("SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"),
            "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "SASL_SSL",
            "KAFKA_CFG_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "SCRAM-SHA-512",
            "KAFKA_CLIENT_USERS": "alice",
            "KAFKA_CLIENT_PASSWORDS": "pw-11",
            "KAFKA_TLS_TYPE": kind,
            **({"KAFKA_CERTIFICATE_PASSWORD": stores.password} if kind == "JKS" else {}),
        },
        {"SASL_SSL": "localhost:9093"},
        login=("SCRAM-SHA-512", "alice", "pw-11"),
    )
    asyncio.run(check_broker(form, plan_of(form, tmp_path), free_port, stores.client))
