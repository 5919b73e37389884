"""Real clients authenticate with tokens of the identity provider, or fail for the right reason."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Producer
from joserfc.jwk import RSAKey

from kafkalite.testing import Broker
from tests.clients.client_libraries import kafkajs_program
from tests.clients.tools import MAIN_CLASSES
from tests.oracle.jars import SHORT_LIVED, java_command
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.client

TOPIC = "t"
INVALID_TOKEN = '{"status":"invalid_token"}'  # noqa: S105 - an answer
WRONG_SECRET = "wrong_secret"  # noqa: S105 - the name of a case
TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker(oidc=True, topics={TOPIC: 1}, log_level="error") as started:
        yield started


@pytest.fixture
def broker(running: Broker) -> Iterator[Broker]:
    """Yield the broker of this module, whose identity provider does not fail."""
    yield running
    running.identity.clear_failures()


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory, running: Broker) -> Path:
    """Return a file with the private key of client `signer`."""
    key = RSAKey.generate_key(2048)
    path = tmp_path_factory.mktemp("keys") / "key.pem"
    path.write_bytes(key.as_pem(private=True))
    public_key = key.as_pem(private=False).decode()
    running.identity.add_client("signer", public_key=public_key, subjects=["alice"])
    return path


# librdkafka


def send_by_librdkafka(config: dict[str, Any]) -> list[KafkaError]:
    """Send a record, and return the first error if that fails."""
    errors: list[KafkaError] = []
    producer = Producer({**config, "error_cb": errors.append, "log_level": 0})
    producer.produce(TOPIC, b"value")
    deadline = time.monotonic() + TIMEOUT_S
    while len(producer) and not errors and time.monotonic() < deadline:
        producer.poll(0.05)
    producer.purge()
    return errors[:1]


def librdkafka_assertions(broker: Broker, key_file: Path, **changes: str) -> dict[str, Any]:
    claims = {"aud": broker.identity.issuer, "iss": "signer", "sub": "alice", **changes}
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "sasl.oauthbearer.token.endpoint.url": broker.identity.token_endpoint,
        "sasl.oauthbearer.assertion.private.key.file": str(key_file),
        **{f"sasl.oauthbearer.assertion.claim.{name}": text for name, text in claims.items()},
    }


def test_librdkafka_authenticates(broker: Broker) -> None:
    assert send_by_librdkafka(broker.client_config("librdkafka")) == []


def test_librdkafka_authenticates_with_an_assertion(broker: Broker, key_file: Path) -> None:
    assert send_by_librdkafka(librdkafka_assertions(broker, key_file)) == []


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (WRONG_SECRET, "invalid_client"),
        ("wrong_audience", INVALID_TOKEN),
        ("wrong_issuer", INVALID_TOKEN),
        ("wrong_key", INVALID_TOKEN),
        ("expired", "expired"),
        ("malformed", "JSON"),
    ],
)
def test_librdkafka_reports_the_failure(broker: Broker, failure: str, reason: str) -> None:
    config = broker.client_config("librdkafka")
    if failure == WRONG_SECRET:
        config["sasl.oauthbearer.client.secret"] = "wrong"
    else:
        broker.identity.fail(failure)
    (error,) = send_by_librdkafka(config)
    assert error.code() == KafkaError._AUTHENTICATION
    assert reason in error.str()


@pytest.mark.parametrize("changes", [{"aud": "http://other"}, {"iss": "x"}, {"sub": "bob"}])
def test_librdkafka_reports_a_refused_assertion(
    broker: Broker, key_file: Path, changes: dict[str, str]
) -> None:
    (error,) = send_by_librdkafka(librdkafka_assertions(broker, key_file, **changes))
    assert error.code() == KafkaError._AUTHENTICATION
    assert "invalid_grant" in error.str()


def test_librdkafka_waits_for_a_slow_provider(broker: Broker) -> None:
    config = broker.client_config("librdkafka")
    broker.identity.fail("slow", delay_ms=200, times=1)
    assert send_by_librdkafka(config) == []


@pytest.mark.endurance
def test_librdkafka_requests_again_after_http_500(broker: Broker) -> None:
    """This client repeats its request after five seconds."""
    failure = broker.identity.fail("http_500", times=1)
    assert send_by_librdkafka(broker.client_config("librdkafka")) == []
    assert failure.firings == 1


def test_tokens_of_a_retired_key_are_refused(running: Broker) -> None:
    del running
    with Broker(oidc=True, topics={TOPIC: 1}, log_level="error") as broker:
        config = broker.client_config("librdkafka")
        assert send_by_librdkafka(config) == []
        (first,) = broker.identity.key_ids
        broker.identity.add_key("ES256")
        assert send_by_librdkafka(config) == []
        broker.identity.retire_key(first)
        assert send_by_librdkafka(config) == []


# aiokafka


async def test_aiokafka_authenticates_with_its_settings(broker: Broker) -> None:
    producer = AIOKafkaProducer(**broker.client_config("aiokafka"))
    await producer.start()
    try:
        assert (await producer.send_and_wait(TOPIC, b"value")).topic == TOPIC
    finally:
        await producer.stop()


# kafkajs

IGNORED = "ILLEGAL_SASL_STATE"
"""This client ignores that the broker refuses its token, and continues with other requests."""


def send_by_kafkajs(config: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    with required():
        command = kafkajs_program("tokens.js")
    return subprocess.run(
        [*command, json.dumps(config), TOPIC, "value"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.endurance
def test_kafkajs_authenticates(broker: Broker) -> None:
    done = send_by_kafkajs(broker.client_config("kafkajs"))
    assert (done.returncode, done.stdout) == (0, f"sent to {TOPIC}\n"), done.stderr


@pytest.mark.endurance
@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (WRONG_SECRET, "the identity provider answers 401"),
        ("expired", IGNORED),
        ("wrong_audience", IGNORED),
        ("wrong_key", IGNORED),
        ("http_500", "the identity provider answers 500"),
        ("malformed", "JSON"),
    ],
)
def test_kafkajs_reports_the_failure(broker: Broker, failure: str, reason: str) -> None:
    config = broker.client_config("kafkajs")
    if failure == WRONG_SECRET:
        config["sasl"]["client_secret"] = "wrong"  # noqa: S105 - see above
    else:
        broker.identity.fail(failure)
    done = send_by_kafkajs(config)
    assert done.returncode == 1
    assert reason in done.stderr


# Java


def list_topics(
    broker: Broker, config: dict[str, Any], directory: Path
) -> subprocess.CompletedProcess[str]:
    """List topics by Kafka's tool, with settings for Java."""
    properties = directory / "client.properties"
    settings = {
        **config,
        "sasl.login.retry.backoff.ms": "10",
        "sasl.login.retry.backoff.max.ms": "50",
        "default.api.timeout.ms": "10000",
        "request.timeout.ms": "5000",
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    prefix = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    allowed = [f"{prefix}.urls={broker.identity.token_endpoint}"]
    key_file = config.get("sasl.oauthbearer.assertion.private.key.file")
    if key_file is not None:
        allowed.append(f"{prefix}.files={key_file}")
    with required():
        command = java_command(
            MAIN_CLASSES["kafka-topics"],
            "--bootstrap-server",
            broker.bootstrap_servers,
            "--command-config",
            str(properties),
            "--list",
            flags=(*SHORT_LIVED, *allowed),
        )
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def java_assertions(broker: Broker, key_file: Path, **changes: str) -> dict[str, Any]:
    claims = {"aud": broker.identity.issuer, "iss": "signer", "sub": "alice", **changes}
    package = "org.apache.kafka.common.security.oauthbearer"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
        "sasl.oauthbearer.jwt.retriever.class": f"{package}.JwtBearerJwtRetriever",
        "sasl.oauthbearer.token.endpoint.url": broker.identity.token_endpoint,
        "sasl.oauthbearer.assertion.private.key.file": str(key_file),
        **{f"sasl.oauthbearer.assertion.claim.{name}": text for name, text in claims.items()},
    }


@pytest.mark.endurance
def test_java_authenticates(broker: Broker, tmp_path: Path) -> None:
    done = list_topics(broker, broker.client_config("java"), tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, [TOPIC]), done.stderr


@pytest.mark.endurance
def test_java_authenticates_with_an_assertion(
    broker: Broker, key_file: Path, tmp_path: Path
) -> None:
    done = list_topics(broker, java_assertions(broker, key_file), tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, [TOPIC]), done.stderr


@pytest.mark.endurance
def test_java_authenticates_a_client_with_an_assertion(
    broker: Broker, key_file: Path, tmp_path: Path
) -> None:
    """The client credentials grant with an assertion in place of a secret (KIP-1258)."""
    config = java_assertions(broker, key_file, sub="signer")
    del config["sasl.oauthbearer.jwt.retriever.class"]
    config["sasl.oauthbearer.client.credentials.client.id"] = "signer"
    done = list_topics(broker, config, tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, [TOPIC]), done.stderr


@pytest.mark.endurance
@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (WRONG_SECRET, "invalid_client"),
        ("expired", INVALID_TOKEN),
        ("wrong_audience", INVALID_TOKEN),
        ("wrong_key", INVALID_TOKEN),
        ("http_500", "response code 500"),
        ("malformed", "JsonEOFException"),
    ],
)
def test_java_reports_the_failure(
    broker: Broker, tmp_path: Path, failure: str, reason: str
) -> None:
    config = broker.client_config("java")
    if failure == WRONG_SECRET:
        config["sasl.jaas.config"] = config["sasl.jaas.config"].replace("kafkalite-secret", "wrong")
    else:
        broker.identity.fail(failure)
    done = list_topics(broker, config, tmp_path)
    assert done.returncode == 1
    assert reason in done.stdout + done.stderr


@pytest.mark.endurance
def test_java_reports_a_refused_assertion(broker: Broker, key_file: Path, tmp_path: Path) -> None:
    done = list_topics(broker, java_assertions(broker, key_file, sub="bob"), tmp_path)
    assert done.returncode == 1
    assert "invalid_grant" in done.stdout + done.stderr
