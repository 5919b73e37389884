"""Real clients manage SCRAM credentials, authenticate again, and name users that do not exist."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kafkalite.security.sasl.users import LOGIN_MODULES
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


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_unknown_user_gets_the_error_of_a_wrong_password(broker: Broker, mechanism: str) -> None:
    errors: list[KafkaError] = []
    config = librdkafka(broker, mechanism, WRONG, "bob")
    producer = Producer({**config, "error_cb": errors.append})
    deadline = time.monotonic() + 10
    while not errors and time.monotonic() < deadline:
        producer.poll(0.05)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert INVALID[mechanism] in errors[0].str()


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


@pytest.mark.endurance
def test_java_manages_scram_credentials(broker: Broker, tmp_path: Path) -> None:
    with required():
        jar_directory()
    path = tmp_path / "client.properties"
    login = f'username="{USER}" password="{PASSWORD}"'
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.jaas.config={LOGIN_MODULES['SCRAM-SHA-512']} required {login};\n"
    )

    def configs(*arguments: str) -> None:
        output = run_tool(
            "kafka-configs", broker.bootstrap_servers, "--command-config", str(path), *arguments
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
