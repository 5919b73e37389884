"""librdkafka's share consumer: acknowledgements, release and lock expiry."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.testing.broker import Broker

confluent_kafka = pytest.importorskip("confluent_kafka")
if not hasattr(confluent_kafka, "ShareConsumer"):
    pytest.skip("this librdkafka has no share consumer", allow_module_level=True)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.client

_TOPIC, _GROUP = "shared", "sharers"
_CONFIG = {
    "group.share.assignment.interval.ms": 0,
    "group.share.heartbeat.interval.ms": 100,
}
_TIMEOUT_S = 15.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={_TOPIC: 1}, config=_CONFIG) as broker:
        yield broker


def _consumer(broker: Broker) -> Any:  # noqa: ANN401 - the library is not typed
    consumer = confluent_kafka.ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": _GROUP,
            "share.acknowledgement.mode": "explicit",
            "log_level": 0,
        }
    )
    consumer.subscribe([_TOPIC])
    return consumer


def _poll(
    consumer: Any,  # noqa: ANN401
    timeout_s: float = _TIMEOUT_S,
) -> list[Any]:
    """Return messages; none after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        messages = list(consumer.poll(0.1))
        if messages:
            return messages
    return []


def _produce(broker: Broker, *values: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    )
    for value in values:
        producer.produce(_TOPIC, value)
    assert producer.flush(_TIMEOUT_S) == 0


def _start_consumer(broker: Broker) -> Any:  # noqa: ANN401 - the library is not typed
    """Return a consumer that has started at the end of the log, where groups start."""
    consumer = _consumer(broker)
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        _produce(broker, "early")
        early = list(consumer.poll(0.2))
        for message in early:
            consumer.acknowledge(message)
        if early:
            break
    consumer.commit_sync()
    return consumer


def test_released_or_expired_records_go_to_another_consumer(broker: Broker) -> None:
    first = _start_consumer(broker)
    _produce(broker, "a", "b", "c")
    got = _poll(first)
    assert [message.value() for message in got] == [b"a", b"b", b"c"]
    kinds = confluent_kafka.AcknowledgeType
    first.acknowledge(got[0], kinds.ACCEPT)
    first.acknowledge(got[1], kinds.RELEASE)
    assert list(first.commit_sync().values()) == [None]
    second = _consumer(broker)
    redelivered = _poll(second)
    assert [message.value() for message in redelivered] == [b"b"]
    second.acknowledge(redelivered[0], kinds.ACCEPT)
    second.commit_sync()
    broker.clock.advance(seconds=30)
    late = _poll(second)
    assert [message.value() for message in late] == [b"c"]
    second.acknowledge(late[0], kinds.ACCEPT)
    assert list(second.commit_sync().values()) == [None]
    texts = [entry.text for entry in broker.explain(_GROUP) if entry.kind == "expired"]
    assert len(texts) == 1
    assert "rule acquisition-lock" in texts[0]
    first.close()
    second.close()
