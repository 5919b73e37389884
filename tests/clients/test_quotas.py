"""Real clients with quotas."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from kafkalite.client.client import KafkaClient
from kafkalite.protocol._generated.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkalite.server.addresses import Address
from kafkalite.testing import Broker
from tests.clients.tools import Output, run_tool
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.client

_TIMEOUT_S = 30.0
_CONNECTION_RATE = "connection_creation_rate"


def _set_quota(bootstrap: str, client_id: str, key: str, value: float) -> None:
    """Set a quota of a client id, as `kafka-configs --alter --entity-type clients` does."""
    _set_quota_of(bootstrap, ("client-id", client_id), key, value)


def _set_quota_of(bootstrap: str, entity: tuple[str, str], key: str, value: float) -> None:
    """Set a quota of an entity: its type and its name."""
    entity_type, entity_name = entity
    entry = AlterClientQuotasRequest.EntryData(
        entity=[
            AlterClientQuotasRequest.EntityData(entity_type=entity_type, entity_name=entity_name)
        ],
        ops=[AlterClientQuotasRequest.OpData(key=key, value=value)],
    )

    async def alter() -> Any:  # noqa: ANN401 - the response class
        async with KafkaClient([Address.parse(bootstrap)]) as client:
            return await client.ask_any(
                AlterClientQuotasRequest(entries=[entry]), AlterClientQuotasRequest.versions
            )

    (altered,) = asyncio.run(alter()).entries
    assert altered.error_code == 0


def test_librdkafka_receives_throttle_times_and_sends_everything() -> None:
    throttles: list[Any] = []
    # Two windows of a second: after one second's bytes, each further byte is throttled.
    with Broker(topics={"t": 1}, config={"quota.window.num": "2"}) as broker:
        _set_quota(broker.bootstrap_servers, "slow", "producer_byte_rate", 10_000)
        producer = Producer({
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": "slow",
            "linger.ms": 0,
            "throttle_cb": throttles.append,
        })  # fmt: skip
        for _ in range(4):
            producer.produce("t", b"x" * 3_000)
            assert producer.flush(_TIMEOUT_S) == 0
        entries = broker.explain(topic="t")
    assert throttles
    assert all(event.throttle_time > 0 for event in throttles)
    assert "producer_byte_rate" in "\n".join(entry.text for entry in entries)


def test_other_clients_are_not_throttled() -> None:
    throttles: list[Any] = []
    with Broker(topics={"t": 1}, config={"quota.window.num": "2"}) as broker:
        _set_quota(broker.bootstrap_servers, "slow", "producer_byte_rate", 1)
        producer = Producer({
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": "fast",
            "throttle_cb": throttles.append,
        })  # fmt: skip
        producer.produce("t", b"x" * 100_000)
        assert producer.flush(_TIMEOUT_S) == 0
    assert throttles == []


def test_librdkafka_connects_at_the_rate_of_its_address() -> None:
    """Each of its clients needs at least one connection; two windows of a second allow two."""
    with Broker(topics={"t": 1}, config={"quota.window.num": "2"}, log_level="error") as broker:
        address = Address.parse(broker.bootstrap_servers)
        _set_quota_of(broker.bootstrap_servers, ("ip", address.host), _CONNECTION_RATE, 2)
        producers = [
            Producer({
                "bootstrap.servers": broker.bootstrap_servers,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
            })
            for _ in range(3)
        ]  # fmt: skip
        for producer in producers:
            producer.produce("t", b"value")
        for producer in producers:
            # Refused connections are tried again.
            assert producer.flush(_TIMEOUT_S) == 0


_ADMIN, _OTHER = "alice", "bob"
_USERS = ("--entity-type", "users")
_CLIENTS = ("--entity-type", "clients")
_ADDRESSES = ("--entity-type", "ips")
_DEFAULT = "--entity-default"
_SCRAM_OF = (
    "SCRAM credential configs for user-principal '{0}' are "
    "SCRAM-SHA-256=iterations=4096, SCRAM-SHA-512=iterations=4096"
)
_QUOTAS = (
    ((*_USERS, "--entity-name", _OTHER), "producer_byte_rate=1000"),
    ((*_USERS, _DEFAULT), "request_percentage=50"),
    ((*_CLIENTS, _DEFAULT), "consumer_byte_rate=3000"),
    ((*_USERS, "--entity-name", _OTHER, *_CLIENTS, "--entity-name", "app"),
     "controller_mutation_rate=5"),
    ((*_ADDRESSES, "--entity-name", "127.0.0.1"), "connection_creation_rate=100"),
)  # fmt: skip
_DESCRIBED = (
    (_USERS, [
        "Quota configs for the default user-principal are request_percentage=50.0",
        "Quota configs for user-principal 'bob' are producer_byte_rate=1000.0",
        _SCRAM_OF.format(_ADMIN),
        _SCRAM_OF.format(_OTHER),
    ]),
    (("--user", _OTHER), [
        "Quota configs for user-principal 'bob' are producer_byte_rate=1000.0",
        _SCRAM_OF.format(_OTHER),
    ]),
    (("--user-defaults",), [
        "Quota configs for the default user-principal are request_percentage=50.0",
    ]),
    (("--client-defaults",), [
        "Quota configs for the default client-id are consumer_byte_rate=3000.0",
    ]),
    ((*_USERS, *_CLIENTS), [
        "Quota configs for user-principal 'bob', client-id 'app' are controller_mutation_rate=5.0",
    ]),
    (_ADDRESSES, ["Quota configs for ip '127.0.0.1' are connection_creation_rate=100.0"]),
    (("--entity-type", "topics"), ["Dynamic configs for topic t are:"]),
)  # fmt: skip
"""Arguments of `kafka-configs --describe`, and the lines that it prints, in any order."""


@pytest.mark.endurance
def test_kafka_configs_manages_quotas_of_a_secured_broker(tmp_path: Path) -> None:
    with required():
        jar_directory()
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{_ADMIN}",
    }
    users = {_ADMIN: "secret", _OTHER: "password"}
    with Broker(
        security="SASL_PLAINTEXT", users=users, config=config, topics={"t": 1}, log_level="error"
    ) as broker:

        def configs(user: str, *arguments: str) -> Output:
            properties = tmp_path / f"{user}.properties"
            properties.write_text(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
                "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule "
                f'required username="{user}" password="{users[user]}";\n'
            )
            command_config = ("--command-config", str(properties))
            return run_tool("kafka-configs", broker.bootstrap_servers, *command_config, *arguments)

        for entity, quota in _QUOTAS:
            altered = configs(_ADMIN, "--alter", *entity, "--add-config", quota)
            assert altered.status == 0, altered
        for arguments, lines in _DESCRIBED:
            described = configs(_ADMIN, "--describe", *arguments)
            assert described.status == 0, described
            assert sorted(described.lines) == sorted(lines)
        refused = configs(_OTHER, "--describe", *_USERS)
        assert refused.status == 1
        assert "ClusterAuthorizationException: Cluster authorization failed" in refused.stderr
