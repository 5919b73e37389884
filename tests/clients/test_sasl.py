"""Real clients authenticate by SASL: each mechanism, with the right and with a wrong password."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kafkalite.testing import Broker
from tests.clients.tools import run_tool
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.client

USER = "alice"
PASSWORD = "correct horse, battery=staple"  # noqa: S105 - of a broker that lives for a minute
WRONG = "wrong"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
INVALID = {
    "PLAIN": "Authentication failed: Invalid username or password",
    **{
        mechanism: "Authentication failed during authentication due to invalid credentials with "
        f"SASL mechanism {mechanism}"
        for mechanism in MECHANISMS[1:]
    },
}
"""The message of the broker for a wrong password."""


_KAFKA_PYTHON_PROGRAM = """
import json, logging, sys
from kafka import KafkaProducer
logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
for config in json.loads(sys.argv[1]):
    try:
        producer = KafkaProducer(**config)
        print("sent to", producer.send("t", b"value").get(10).topic)
        producer.close(5)
    except Exception as error:
        print(repr(error))
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(
        security="SASL_PLAINTEXT", users={USER: PASSWORD}, topics={"t": 1}, log_level="error"
    ) as started:
        yield started


def librdkafka(
    broker: Broker, mechanism: str, password: str = PASSWORD, user: str = USER
) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


def python_client(broker: Broker, mechanism: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_authenticates(broker: Broker, mechanism: str) -> None:
    producer = Producer(librdkafka(broker, mechanism))
    producer.produce("t", mechanism.encode())
    assert producer.flush(10) == 0
    consumer = Consumer({**librdkafka(broker, mechanism), "group.id": mechanism})
    consumer.assign([TopicPartition("t", 0, 0)])
    message = consumer.poll(10)
    consumer.close()
    assert message is not None
    assert message.error() is None


@pytest.mark.parametrize("user", [USER, "bob"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_reports_a_wrong_password(broker: Broker, mechanism: str, user: str) -> None:
    errors: list[KafkaError] = []
    config = librdkafka(broker, mechanism, WRONG, user)
    producer = Producer({**config, "error_cb": errors.append})
    deadline = time.monotonic() + 10
    while not errors and time.monotonic() < deadline:
        producer.poll(0.05)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert INVALID[mechanism] in errors[0].str()


def test_librdkafka_reports_a_mechanism_that_is_not_enabled(broker: Broker) -> None:
    errors: list[KafkaError] = []
    config = {**librdkafka(broker, "OAUTHBEARER"), "error_cb": errors.append}
    for key in ("sasl.username", "sasl.password"):
        del config[key]
    config |= {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=alice",
    }
    producer = Producer(config)
    deadline = time.monotonic() + 10
    while not errors and time.monotonic() < deadline:
        producer.poll(0.05)
    assert "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN" in errors[0].str()


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_authenticates(broker: Broker, mechanism: str) -> None:
    producer = AIOKafkaProducer(**python_client(broker, mechanism, PASSWORD))
    await producer.start()
    try:
        record = await producer.send_and_wait("t", b"value")
    finally:
        await producer.stop()
    assert record.topic == "t"


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_reports_a_wrong_password(
    broker: Broker, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer = AIOKafkaProducer(**python_client(broker, mechanism, WRONG))
    with caplog.at_level(logging.ERROR), pytest.raises(AiokafkaError):
        async with asyncio.timeout(10):
            await producer.start()
    await producer.stop()
    assert INVALID[mechanism] in caplog.text


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_authenticates_unless_its_password_is_wrong(
    broker: Broker, mechanism: str
) -> None:
    configs = [python_client(broker, mechanism, password) for password in (PASSWORD, WRONG)]
    configs[1]["bootstrap_timeout_ms"] = 1000  # it retries for so long
    # A process of its own: importing this client warns.
    done = subprocess.run(
        [sys.executable, "-c", _KAFKA_PYTHON_PROGRAM, json.dumps(configs)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    accepted, refused = done.stdout.splitlines()
    assert accepted == "sent to t"
    assert "Unable to bootstrap" in refused
    # This client often ignores an answer that arrives together with the end of the connection.
    assert INVALID[mechanism] in done.stderr or "socket disconnected" in done.stderr


def test_librdkafka_manages_scram_credentials(broker: Broker) -> None:
    admin = AdminClient(librdkafka(broker, "PLAIN"))
    mechanism = ScramMechanism.SCRAM_SHA_256
    info = ScramCredentialInfo(mechanism, 8192)
    for future in admin.alter_user_scram_credentials([
        UserScramCredentialUpsertion("carol", info, b"carol's password")
    ]).values():  # fmt: skip
        future.result(10)
    described = cast("Any", admin.describe_user_scram_credentials(["carol"]))["carol"].result(10)
    assert [(each.mechanism, each.iterations) for each in described.scram_credential_infos] == [
        (mechanism, 8192)
    ]
    producer = Producer(librdkafka(broker, "SCRAM-SHA-256", "carol's password", "carol"))
    producer.produce("t", b"by carol")
    assert producer.flush(10) == 0
    deletion = UserScramCredentialDeletion("carol", mechanism)
    for future in admin.alter_user_scram_credentials([deletion]).values():
        future.result(10)
    errors: list[KafkaError] = []
    config = librdkafka(broker, "SCRAM-SHA-256", "carol's password", "carol")
    producer = Producer({**config, "error_cb": errors.append})
    deadline = time.monotonic() + 10
    while not errors and time.monotonic() < deadline:
        producer.poll(0.05)
    assert errors[0].code() == KafkaError._AUTHENTICATION


def test_librdkafka_authenticates_with_an_unsecured_token() -> None:
    config = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
    with Broker(security="SASL_PLAINTEXT", config=config, topics={"t": 1}) as broker:
        producer = Producer({
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=alice",
        })  # fmt: skip
        producer.produce("t", b"value")
        assert producer.flush(10) == 0


@pytest.mark.endurance
def test_librdkafka_authenticates_again_before_its_session_ends() -> None:
    """The client begins at a time of its own, which depends on the lifetime of the session."""
    config = {"connections.max.reauth.ms": 1500}
    users = {USER: PASSWORD}
    with Broker(security="SASL_PLAINTEXT", users=users, config=config, topics={"t": 1}) as broker:
        errors: list[KafkaError] = []
        producer = Producer({**librdkafka(broker, "SCRAM-SHA-512"), "error_cb": errors.append})
        end = time.monotonic() + 4
        while time.monotonic() < end:
            producer.produce("t", b"value")
            producer.poll(0.05)
        assert producer.flush(10) == 0
        assert errors == []


_LOGIN = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{_LOGIN}.plain.PlainLoginModule",
    **dict.fromkeys(MECHANISMS[1:], f"{_LOGIN}.scram.ScramLoginModule"),
}


def java_properties(directory: Path, mechanism: str, password: str) -> Path:
    """Return a file with the settings of a Java client."""
    path = directory / f"{mechanism}.properties"
    login = f'username="{USER}" password="{password}"'
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={_MODULES[mechanism]} required {login};\n"
    )
    return path


@pytest.mark.endurance
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java_authenticates_unless_its_password_is_wrong(
    broker: Broker, mechanism: str, tmp_path: Path
) -> None:
    with required():
        jar_directory()
    properties = java_properties(tmp_path, mechanism, PASSWORD)
    listed = run_tool(
        "kafka-topics", broker.bootstrap_servers, "--list", "--command-config", str(properties)
    )
    assert (listed.status, "t" in listed.lines) == (0, True), listed
    properties = java_properties(tmp_path, mechanism, WRONG)
    refused = run_tool(
        "kafka-topics", broker.bootstrap_servers, "--list", "--command-config", str(properties)
    )
    assert refused.status == 1
    assert INVALID[mechanism] in refused.stdout + refused.stderr


@pytest.mark.endurance
def test_java_manages_scram_credentials(broker: Broker, tmp_path: Path) -> None:
    with required():
        jar_directory()
    properties = str(java_properties(tmp_path, "SCRAM-SHA-512", PASSWORD))

    def configs(*arguments: str) -> None:
        output = run_tool(
            "kafka-configs", broker.bootstrap_servers, "--command-config", properties, *arguments
        )
        assert output.status == 0, output

    def errors_of_dave() -> list[KafkaError]:
        errors: list[KafkaError] = []
        config = librdkafka(broker, "SCRAM-SHA-256", "pw", "dave")
        producer = Producer({**config, "error_cb": errors.append})
        producer.produce("t", b"by dave")
        deadline = time.monotonic() + 10
        while len(producer) and not errors and time.monotonic() < deadline:
            producer.poll(0.05)
        return errors

    user = ("--entity-type", "users", "--entity-name", "dave")
    configs("--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=pw]")
    assert errors_of_dave() == []
    configs("--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert [error.code() for error in errors_of_dave()][:1] == [KafkaError._AUTHENTICATION]
