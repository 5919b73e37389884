"""Real clients authenticate with signed tokens of an identity provider, valid and invalid ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from kafkalite.testing import Broker
from tests.clients.identity_provider import LIFETIME_S, IdentityProvider
from tests.clients.tools import Output, run_tool
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.client

_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
INVALID = '{"status":"invalid_token"}'


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    provider = IdentityProvider()
    with provider.running():
        yield provider


@pytest.fixture
def broker(provider: IdentityProvider) -> Iterator[Broker]:
    config = provider.broker_config("SASL_PLAINTEXT")
    with Broker(
        security="SASL_PLAINTEXT", config=config, topics={"t": 1}, log_level="error"
    ) as started:
        yield started


def librdkafka(broker: Broker, provider: IdentityProvider) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (provider.token(), time.time() + LIFETIME_S),
        "log_level": 0,
    }


def test_librdkafka_produces_and_consumes(broker: Broker, provider: IdentityProvider) -> None:
    config = librdkafka(broker, provider)
    producer = Producer(config)
    producer.produce("t", b"value")
    assert producer.flush(10) == 0
    consumer = Consumer({**config, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    message = consumer.poll(10)
    consumer.close()
    assert message is not None
    assert message.value() == b"value"
    assert provider.requests == ["/keys"]


def test_librdkafka_requests_its_token_from_the_endpoint(
    broker: Broker, provider: IdentityProvider
) -> None:
    config = librdkafka(broker, provider)
    del config["oauth_cb"]
    producer = Producer({
        **config,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
    })  # fmt: skip
    producer.produce("t", b"value")
    assert producer.flush(10) == 0
    assert "/token" in provider.requests


def test_librdkafka_reports_a_token_of_another_key(
    broker: Broker, provider: IdentityProvider
) -> None:
    provider.signer = provider.invalid
    errors: list[KafkaError] = []
    producer = Producer({**librdkafka(broker, provider), "error_cb": errors.append})
    deadline = time.monotonic() + 10
    while not errors and time.monotonic() < deadline:
        producer.poll(0.05)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert INVALID in errors[0].str()


async def test_aiokafka_produces(broker: Broker, provider: IdentityProvider) -> None:
    class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
        async def token(self) -> str:
            return provider.token()

    producer = AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(),
    )
    await producer.start()
    try:
        record = await producer.send_and_wait("t", b"value")
    finally:
        await producer.stop()
    assert record.topic == "t"


def java_properties(directory: Path, provider: IdentityProvider) -> str:
    path = directory / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=OAUTHBEARER\n"
        f"sasl.login.callback.handler.class={_PACKAGE}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={provider.url}/token\n"
        f"sasl.jaas.config={_PACKAGE}.OAuthBearerLoginModule required "
        'clientId="alice" clientSecret="secret" scope="produce";\n'
    )
    return str(path)


@pytest.mark.endurance
def test_java_produces_and_consumes_with_tokens_of_the_endpoint(
    broker: Broker,
    provider: IdentityProvider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with required():
        jar_directory()
    properties = java_properties(tmp_path, provider)
    monkeypatch.setenv(
        "JAVA_TOOL_OPTIONS",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.url}/token",
    )

    def tool(name: str, *arguments: str, text: str = "") -> Output:
        return run_tool(
            name, broker.bootstrap_servers, "--command-config", properties, *arguments, text=text
        )

    produced = tool("kafka-console-producer", "--topic", "t", text="apple\npear\n")
    assert produced.status == 0, produced
    consumed = tool(
        *("kafka-console-consumer", "--topic", "t", "--from-beginning", "--max-messages", "2")
    )
    assert (consumed.status, consumed.lines) == (0, ["apple", "pear"]), consumed
    assert provider.requests.count("/token") == 2
    provider.signer = provider.invalid
    refused = tool("kafka-topics", "--list")
    assert refused.status == 1
    assert INVALID in refused.stdout + refused.stderr
