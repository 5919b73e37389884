"""A live broker that is seeded with the topics, records and offsets of a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafkalite.lab.replay.standin.recorded_cluster import (
    CommittedOffset,
    PartitionId,
    RecordedCluster,
)
from kafkalite.lab.replay.standin.seeding import Seed
from kafkalite.server.logging import Log
from kafkalite.storage.batch import BatchProducer, BatchView, ControlKind
from kafkalite.testing import Broker
from tests.unit.lab.replay.recording import batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.cluster.cluster import Cluster

PRODUCER = BatchProducer(5, 0, 0)


class SeededBroker(Broker):
    """A broker for tests that is seeded with a recorded cluster instead of a capture."""

    def __init__(self, recorded_cluster: RecordedCluster) -> None:
        self._seed = Seed(recorded_cluster, Log())
        super().__init__(topics=self._seed.topics())

    def _settings_and_preparation(self):  # type: ignore[no-untyped-def]  # noqa: ANN202 - as in Broker
        return self._settings, lambda broker: self._seed.fill(cast("Cluster", broker.cluster))


@pytest.fixture
def recorded_cluster() -> RecordedCluster:
    """Return a topic with a log start offset, a gap and transactions, and committed offsets."""
    recorded_cluster = RecordedCluster()
    recorded_cluster.partition_counts |= {"t": 2, "__consumer_offsets": 50}
    recorded_cluster.internal_topics.add("__consumer_offsets")
    partition = recorded_cluster.partition("t", 1)
    for data in (
        batch("a", "b", offset=10),
        batch("c", offset=15),
        batch("aborted", offset=16, producer=PRODUCER, is_transactional=True),
    ):
        partition.add_batch(BatchView(data), is_stored_form=True)
    partition.end_transaction(5, 0, ControlKind.ABORT)
    unfinished = batch("unfinished", offset=18, producer=PRODUCER, is_transactional=True)
    partition.add_batch(BatchView(unfinished), is_stored_form=True)
    recorded_cluster.committed_offsets["g"] = {
        PartitionId("t", 1): CommittedOffset(11, -1, "note"),
        PartitionId("gone", 0): CommittedOffset(3, -1, None),
    }
    return recorded_cluster


@pytest.fixture
def consumer(recorded_cluster: RecordedCluster) -> Iterator[Consumer]:
    """Return a consumer of the group at a seeded broker."""
    with SeededBroker(recorded_cluster) as broker:
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "g",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        yield consumer
        consumer.close()


def read(consumer: Consumer) -> list[tuple[int, bytes | None]]:
    found = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        found.append((message.offset() or 0, message.value()))
    return found


@pytest.mark.client
def test_records_keep_their_offsets(consumer: Consumer) -> None:
    consumer.assign([TopicPartition("t", 1, 10)])

    assert read(consumer) == [(10, b"a"), (11, b"b"), (15, b"c")]
    # The markers of the aborted and of the open transaction follow.
    assert consumer.get_watermark_offsets(TopicPartition("t", 1), timeout=10) == (10, 20)
    assert consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=10) == (0, 0)


@pytest.mark.client
def test_group_continues_at_its_committed_offsets(consumer: Consumer) -> None:
    (committed,) = consumer.committed([TopicPartition("t", 1)], timeout=10)
    assert committed.offset == 11

    consumer.assign([committed])

    assert read(consumer) == [(11, b"b"), (15, b"c")]


def test_internal_topics_are_not_created(recorded_cluster: RecordedCluster) -> None:
    assert Seed(recorded_cluster, Log()).topics() == {"t": 2}
