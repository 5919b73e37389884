"""KAFKA-6262 with real clients: outdated metadata makes a consumer read records again.

Node 1 has led the partition, and does not learn that node 2 leads it now: it names itself as the
leader, and answers OFFSET_OUT_OF_RANGE for the records that node 2 has written. KIP-232 was a
proposal against this. Kafka has leader epochs instead (KIP-320). The tests record what clients do:

- Without leader epochs in Metadata, a consumer reads its records again, as often as it is misled.
- With them, Java and librdkafka ignore metadata with an older epoch while they run. franz-go
  accepts it when it gets nothing else.
- All three accept it when they start, even with the leader epoch of their stored offset, because
  they have no metadata to compare with.
- Leader epochs begin at 0 again when a topic is created again. A stored offset of the deleted topic
  then skips records of the new one. franz-go fails if it first gets the id of the deleted topic.

A consumer of `kafkalite.client` with partition epochs is never misled.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.client import PartitionConsumer, TopicPartition
from kafkalite.testing import Broker
from tests.clients.observer import end_offsets, wait_until
from tests.clients.partition_readers import (
    FRANZ_GO,
    JAVA,
    KAFKALITE,
    LIBRDKAFKA,
    NO_EPOCH,
    OLD_FRANZ_GO,
    OLD_JAVA,
    TOPIC,
    Library,
    Reader,
    Record,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.client import OffsetAndEpochs

pytestmark = pytest.mark.client

FORMER, LEADER, OTHER = 1, 2, 3
"""The nodes. The first one has outdated metadata."""
CONFIG: dict[str, str | float] = {
    "auto.create.topics.enable": False,
    "min.insync.replicas": 1,
    "replica.lag.time.max.ms": 500,
    "kafkalite.partition.epochs": True,
}
MISLEADING_RESPONSES = 10
ALL = [Record(offset, str(offset)) for offset in range(5)]
_TIMEOUT_S = 30.0


def _each(*libraries: Library) -> list[object]:
    """Return parameters; clients in other languages run with the tests that take longer."""
    from_pip = {LIBRDKAFKA, KAFKALITE}
    return [
        pytest.param(each, id=each.name, marks=() if each in from_pip else pytest.mark.endurance)
        for each in libraries
    ]


class Cluster(NamedTuple):
    """Three nodes. Node 1 also leads partition 1 of the topic, so clients are connected to it."""

    broker: Broker

    def servers(self, node: int) -> str:
        """Return the address of a node."""
        return self.broker.nodes[node].bootstrap_servers

    def create(self, leader: int) -> None:
        """Create the topic; the first leader of partition 0 is `leader`, with leader epoch 0."""
        nodes = [leader, *sorted({FORMER, LEADER, OTHER} - {leader})]
        topic = NewTopic(TOPIC, 2, replica_assignment=[nodes, [FORMER, LEADER, OTHER]])
        admin = AdminClient({"bootstrap.servers": self.servers(LEADER)})
        admin.create_topics([topic])[TOPIC].result(_TIMEOUT_S)

    def delete(self) -> None:
        """Delete the topic."""
        admin = AdminClient({"bootstrap.servers": self.servers(LEADER)})
        admin.delete_topics([TOPIC])[TOPIC].result(_TIMEOUT_S)

    def write(self, *values: str) -> None:
        """Write records to partition 0."""
        producer = Producer({"bootstrap.servers": self.servers(LEADER), "acks": 1})
        for value in values:
            producer.produce(TOPIC, value, partition=0)
        assert producer.flush(_TIMEOUT_S) == 0

    def wait_for_end(self, end: int) -> None:
        """Wait until consumers can read up to an offset."""
        servers = self.servers(LEADER)
        wait_until(lambda: end_offsets(servers, TOPIC, 1)[0] == end, f"the end to be {end}")

    def stored_position(self, *, seek: int) -> OffsetAndEpochs:
        """Return the position of an up-to-date consumer at an offset, after the record before."""

        async def read() -> OffsetAndEpochs:
            partition = TopicPartition(TOPIC, 0)
            async with PartitionConsumer(self.servers(LEADER)) as consumer:
                consumer.assign([partition])
                consumer.seek(partition, seek - 1)
                while (position := await consumer.position(partition)).offset < seek:
                    await consumer.poll(1_000)
                return position

        return asyncio.run(read())

    @contextmanager
    def outdated_metadata(self, library: Library) -> Iterator[None]:
        """Let only the former leader answer the client's requests for metadata."""
        faults, client_id = self.broker.faults, library.client_id
        with (
            faults.add(api="Metadata", node=LEADER, client_id=client_id, disconnect=True),
            faults.add(api="Metadata", node=OTHER, client_id=client_id, disconnect=True),
        ):
            yield

    def mislead(self, library: Library) -> None:
        """Let the former leader mislead a client several times."""
        with (
            self.outdated_metadata(library),
            self.broker.faults.add(
                api="Metadata", node=FORMER, client_id=library.client_id, delay_ms=1
            ) as observed,
        ):
            wait_until(lambda: observed.firings >= MISLEADING_RESPONSES, "outdated metadata")


@contextmanager
def _cluster(release: str | None = None) -> Iterator[Cluster]:
    with Broker(3, config=CONFIG, as_version=release, log_level="error") as broker:
        yield Cluster(broker)


@contextmanager
def _former_leader(release: str | None = None) -> Iterator[Cluster]:
    """Yield a cluster whose former leader has 3 records, and whose leader has 5."""
    with _cluster(release) as cluster:
        cluster.create(FORMER)
        cluster.write("0", "1", "2")
        cluster.wait_for_end(3)
        cluster.broker.nodes[FORMER].freeze_metadata()
        cluster.broker.move_leader(TOPIC, 0, LEADER)
        cluster.write("3", "4")
        cluster.wait_for_end(5)
        yield cluster


# --- running consumers ---


@pytest.mark.parametrize("library", _each(JAVA, LIBRDKAFKA, KAFKALITE))
def test_a_running_consumer_ignores_an_older_leader_epoch(library: Library) -> None:
    with _former_leader() as cluster, Reader(library, cluster.servers(LEADER)) as reader:
        reader.wait_for_value("4")
        cluster.mislead(library)
        cluster.write("5")
        reader.wait_for_value("5")
    assert reader.records == [*ALL, Record(5, "5")]
    assert reader.failures == []


@pytest.mark.parametrize(
    ("library", "release"),
    [
        pytest.param(FRANZ_GO, None, id="franz-go", marks=pytest.mark.endurance),
        pytest.param(OLD_FRANZ_GO, "3.9", id="older-franz-go", marks=pytest.mark.endurance),
        pytest.param(OLD_JAVA, "3.9", id="older-java", marks=pytest.mark.endurance),
    ],
)
def test_a_running_consumer_reads_all_records_again(library: Library, release: str | None) -> None:
    with _former_leader(release) as cluster, Reader(library, cluster.servers(LEADER)) as reader:
        reader.wait_for_value("4")
        cluster.mislead(library)
        reader.wait_for(lambda: len(reader.records) > len(ALL))
        assert reader.records[: len(ALL) + 1] == [*ALL, Record(0, "0")]


# --- consumers that start with a stored offset ---


@pytest.mark.parametrize("has_epoch", [False, True])
@pytest.mark.parametrize("library", _each(JAVA, LIBRDKAFKA, FRANZ_GO))
def test_a_consumer_that_starts_reads_all_records_again(
    library: Library, *, has_epoch: bool
) -> None:
    with _former_leader() as cluster:
        stored = cluster.stored_position(seek=5)
        assert stored.leader_epoch == 1
        epoch = str(stored.leader_epoch) if has_epoch else NO_EPOCH
        with (
            cluster.outdated_metadata(library),
            Reader(library, cluster.servers(FORMER), stored.offset, epoch) as reader,
        ):
            reader.wait_for(lambda: len(reader.records) >= 3)
    assert reader.records[:3] == ALL[:3]


def test_a_consumer_that_starts_with_both_epochs_waits_for_the_present_leader() -> None:
    with _former_leader() as cluster:
        stored = cluster.stored_position(seek=5)
        epochs = stored.offset_epoch.hex()
        with Reader(KAFKALITE, cluster.servers(FORMER), stored.offset, epochs) as reader:
            cluster.write("5")
            reader.wait_for_value("5")
    assert (reader.records, reader.failures) == ([Record(5, "5")], [])


# --- topics that were created again ---


@contextmanager
def _recreated(*, is_former_stale: bool) -> Iterator[tuple[Cluster, OffsetAndEpochs]]:
    """Yield a cluster with a topic that was created again, and an offset of the deleted one.

    The leader epoch is 0 in both.
    """
    with _cluster() as cluster:
        cluster.create(LEADER)
        cluster.write("0", "1")
        cluster.wait_for_end(2)
        stored = cluster.stored_position(seek=2)
        if is_former_stale:
            cluster.broker.nodes[FORMER].freeze_metadata()
        cluster.delete()
        cluster.create(LEADER)
        cluster.write("other 0", "other 1", "other 2")
        cluster.wait_for_end(3)
        yield cluster, stored


@pytest.mark.parametrize(
    ("library", "node"),
    [
        pytest.param(JAVA, LEADER, id="java-live", marks=pytest.mark.endurance),
        pytest.param(JAVA, FORMER, id="java-stale", marks=pytest.mark.endurance),
        pytest.param(LIBRDKAFKA, LEADER, id="librdkafka-live"),
        pytest.param(LIBRDKAFKA, FORMER, id="librdkafka-stale"),
        pytest.param(FRANZ_GO, LEADER, id="franz-go-live", marks=pytest.mark.endurance),
    ],
)
def test_a_stored_offset_of_a_deleted_topic_skips_records_of_the_new_one(
    library: Library, node: int
) -> None:
    with _recreated(is_former_stale=node == FORMER) as (cluster, stored):
        epoch = str(stored.leader_epoch)
        with Reader(library, cluster.servers(node), stored.offset, epoch) as reader:
            reader.wait_for_value("other 2")
    assert (stored.leader_epoch, reader.records) == (0, [Record(2, "other 2")])
    assert reader.failures == []


@pytest.mark.endurance
def test_franz_go_keeps_the_id_of_a_deleted_topic() -> None:
    with _recreated(is_former_stale=True) as (cluster, stored):
        epoch = str(stored.leader_epoch)
        with Reader(FRANZ_GO, cluster.servers(FORMER), stored.offset, epoch) as reader:
            reader.wait_for(lambda: bool(reader.failures))
    assert reader.records == []
    assert reader.failures[0].startswith("UNKNOWN_TOPIC_ID")


@pytest.mark.parametrize("node", [LEADER, FORMER])
def test_partition_epochs_show_that_a_stored_offset_is_of_a_deleted_topic(node: int) -> None:
    with _recreated(is_former_stale=node == FORMER) as (cluster, stored):
        epochs = stored.offset_epoch.hex()
        with Reader(KAFKALITE, cluster.servers(node), stored.offset, epochs) as reader:
            reader.wait_for(lambda: bool(reader.failures))
    assert (reader.records, reader.failures) == ([], ["InvalidPartitionEpochError"])
