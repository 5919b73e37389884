"""A real client connects while the key store of a broker is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
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

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.client

TOPIC = "orders"
VALUES = [b"small", b"x" * 200_000, b"last"]
TIMEOUT_S = 30.0


def by_librdkafka(config: dict[str, Any]) -> list[bytes]:
    """Produce VALUES, and return the records of the topic."""
    producer = Producer({**config, "log_level": 0})
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
