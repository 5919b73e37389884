"""Real clients with quotas."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Producer

from kafkalite.client.client import KafkaClient
from kafkalite.protocol._generated.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkalite.server.addresses import Address
from kafkalite.testing import Broker

pytestmark = pytest.mark.client

_TIMEOUT_S = 30.0


def _set_quota(bootstrap: str, client_id: str, key: str, value: float) -> None:
    """Set a quota of a client id, as `kafka-configs --alter --entity-type clients` does."""
    entry = AlterClientQuotasRequest.EntryData(
        entity=[
            AlterClientQuotasRequest.EntityData(entity_type="client-id", entity_name=client_id)
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
