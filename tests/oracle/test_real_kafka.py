"""The real Kafka starts, answers a client, and has its data after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import restart

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.oracle


def test_a_topic_survives_a_restart(tmp_path: Path) -> None:
    """Comparison tests use another Kafka, because a restart changes the leader epochs."""
    with required():
        kafka = RealKafka(tmp_path)
        kafka.start()
    try:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_topics([NewTopic("durable", 3, 1)])["durable"].result(timeout=20)
        restart(kafka)
        topics = admin.list_topics(timeout=20).topics
        assert len(topics["durable"].partitions) == 3
    finally:
        kafka.kill()
