"""Real clients over TLS: with and without certificates, with the right and a wrong authority."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import aiokafka
import pytest
from aiokafka.errors import KafkaConnectionError
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kafkalite.security.certificates import CertificateAuthority
from kafkalite.testing import Broker
from tests.clients.client_libraries import franz_go_worker, kafkajs_program
from tests.oracle.jars import java_command
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.client

TOPIC = "orders"
VALUES = [b"small", b"x" * 200_000, b"last"]
TIMEOUT_S = 30.0
REFUSED_TIMEOUT_S = 1.5
"""The time in which a client that is refused repeats its attempts."""


def secured(client_auth: str) -> Broker:
    return Broker(
        security="SSL", topics={TOPIC: 1}, config={"listener.name.ssl.ssl.client.auth": client_auth}
    )


def by_librdkafka(config: dict[str, Any], connect_timeout_s: float = TIMEOUT_S) -> list[bytes]:
    """Produce VALUES, and return the records of the topic."""
    producer = Producer({**config, "log_level": 0})
    AdminClient({**config, "log_level": 0}).list_topics(timeout=connect_timeout_s)
    for value in VALUES:
        producer.produce(TOPIC, value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**config, "group.id": "librdkafka", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    try:
        messages = [consumer.poll(TIMEOUT_S) for _ in VALUES]
    finally:
        consumer.close()
    return [message.value() or b"" for message in messages if message is not None]


def by_kafka_python(config: dict[str, Any], connect_timeout_s: float = TIMEOUT_S) -> list[bytes]:
    """Produce VALUES, and return the records of the topic.

    In a process of its own, because kafka-python leaves sockets open when it cannot connect.
    """
    config = {**config, "bootstrap_timeout_ms": connect_timeout_s * 1000}
    command = [sys.executable, "-c", _KAFKA_PYTHON, json.dumps(config), TOPIC]
    done = subprocess.run(
        command, input=json.dumps([value.decode() for value in VALUES]), capture_output=True,
        text=True, check=False, timeout=2 * TIMEOUT_S
    )  # fmt: skip
    if done.returncode:
        raise ConnectionError(done.stderr[-2000:])
    return [value.encode() for value in json.loads(done.stdout)]


_KAFKA_PYTHON = """
import json, sys
from kafka import KafkaConsumer, KafkaProducer
config, topic, values = json.loads(sys.argv[1]), sys.argv[2], json.load(sys.stdin)
producer = KafkaProducer(**config)
for value in values:
    producer.send(topic, value.encode()).get(10)
producer.close()
consumer = KafkaConsumer(topic, **config, auto_offset_reset="earliest", consumer_timeout_ms=10_000)
print(json.dumps([next(consumer).value.decode() for _ in values]))
consumer.close()
"""


def by_aiokafka(config: dict[str, Any], connect_timeout_s: float = TIMEOUT_S) -> list[bytes]:
    """Produce VALUES, and return the records of the topic."""

    async def run() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(
            **config, request_timeout_ms=int(connect_timeout_s * 1000)
        )
        try:
            await producer.start()
            for value in VALUES:
                await producer.send_and_wait(TOPIC, value)
        finally:
            await producer.stop()  # also after a start that failed
        async with aiokafka.AIOKafkaConsumer(
            TOPIC, **config, auto_offset_reset="earliest"
        ) as consumer:
            return [(await consumer.getone()).value for _ in VALUES]

    return asyncio.run(run())


CLIENTS: dict[str, tuple[Callable[..., list[bytes]], type[Exception]]] = {
    "librdkafka": (by_librdkafka, KafkaException),
    "kafka-python": (by_kafka_python, ConnectionError),
    "aiokafka": (by_aiokafka, KafkaConnectionError),
}
"""Library → function, and the exception of a client that cannot connect."""

CERTIFICATE_KEYS = {
    "librdkafka": ("ssl.certificate.location", "ssl.key.location"),
    "kafka-python": ("ssl_certfile", "ssl_keyfile"),
}


def without_certificate(library: str, config: dict[str, Any]) -> dict[str, Any]:
    if library == "aiokafka":
        context = create_ssl_context(cadata=trusted_pem(config["ssl_context"]))
        return {**config, "ssl_context": context}
    return {key: value for key, value in config.items() if key not in CERTIFICATE_KEYS[library]}


def trusted_pem(context: Any) -> bytes:  # noqa: ANN401 - an SSL context
    (authority,) = context.get_ca_certs(binary_form=True)
    return bytes(authority)


def with_authority(library: str, config: dict[str, Any], path: str) -> dict[str, Any]:
    if library == "aiokafka":
        return {**config, "ssl_context": create_ssl_context(cafile=path)}
    return {
        **config,
        {"librdkafka": "ssl.ca.location", "kafka-python": "ssl_cafile"}[library]: path,
    }


@pytest.mark.parametrize("library", CLIENTS)
def test_clients_with_a_certificate_are_served(library: str) -> None:
    use, _ = CLIENTS[library]
    with secured("required") as broker:
        assert use(broker.client_config(library)) == VALUES


@pytest.mark.parametrize("library", CLIENTS)
def test_clients_without_a_certificate_are_served_unless_it_is_required(library: str) -> None:
    use, error = CLIENTS[library]
    with secured("requested") as broker:
        assert use(without_certificate(library, broker.client_config(library))) == VALUES
    with secured("required") as broker, pytest.raises(error):
        use(without_certificate(library, broker.client_config(library)), REFUSED_TIMEOUT_S)


@pytest.mark.parametrize("library", CLIENTS)
def test_clients_that_trust_another_authority_do_not_connect(library: str, tmp_path: Path) -> None:
    use, error = CLIENTS[library]
    other = tmp_path / "other.pem"
    other.write_bytes(CertificateAuthority.create("other").pem)
    with secured("none") as broker, pytest.raises(error):
        use(with_authority(library, broker.client_config(library), str(other)), REFUSED_TIMEOUT_S)


def test_a_key_store_is_replaced_while_clients_are_connected(tmp_path: Path) -> None:
    with Broker(security="SSL", topics={TOPIC: 1}, data_directory=tmp_path / "data") as broker:
        config = broker.client_config("librdkafka")
        admin = AdminClient(config)
        authority = CertificateAuthority.load(
            (tmp_path / "data" / "ca.pem").read_bytes(),
            (tmp_path / "data" / "ca-key.pem").read_bytes(),
        )
        renamed = authority.issue("127.0.0.1", ("127.0.0.1",))
        renewed = authority.issue("127.0.0.1", ("localhost", "127.0.0.1", "::1"))
        for issued, message in ((renamed, "SubjectAltNames do not match"), (renewed, None)):
            path = tmp_path / "new.pem"
            path.write_bytes(authority.chain_pem(issued))
            entry = ConfigEntry(
                "listener.name.ssl.ssl.keystore.location",
                str(path),
                incremental_operation=AlterConfigOpType.SET,
            )
            resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
            (change,) = admin.incremental_alter_configs([resource]).values()
            if message is None:
                change.result(TIMEOUT_S)
            else:
                with pytest.raises(KafkaException, match=message):
                    change.result(TIMEOUT_S)
        assert by_librdkafka(config) == VALUES


@pytest.mark.endurance
@pytest.mark.parametrize("client_auth", ["none", "required"])
def test_tools_of_kafka_use_the_settings_for_java(client_auth: str, tmp_path: Path) -> None:
    with required(), secured(client_auth) as broker:
        config = broker.client_config("java")
        properties = tmp_path / "client.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        command = java_command(
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server",
            config["bootstrap.servers"],
            "--command-config",
            str(properties),
            "--list",
        )
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert TOPIC in done.stdout.split()


@pytest.mark.endurance
def test_franz_go_uses_its_settings() -> None:
    with required():
        command = [*franz_go_worker(), "secured"]
    with secured("required") as broker:
        config = broker.client_config("franz-go")
        done = subprocess.run(
            [*command, json.dumps(config), TOPIC, "two apples"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stdout == "two apples\n"
        del config["tls"]["cert_file"]
        refused = subprocess.run(
            [*command, json.dumps(config), TOPIC, "two apples"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert "certificate required" in refused.stderr


@pytest.mark.endurance
def test_kafkajs_uses_its_settings() -> None:
    with required():
        command = kafkajs_program("secured.js")
    with secured("required") as broker:
        config = broker.client_config("kafkajs")
        done = subprocess.run(
            [*command, json.dumps(config), TOPIC, "two apples"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stdout == "two apples\n"
