"""A broker that begins with what a capture shows, and then lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafkalite.replay.library import Commit, Library, PartitionId
from kafkalite.replay.seeding import Seed
from kafkalite.server.logging import Log
from kafkalite.storage.batch import BatchView, ControlKind, Producer
from kafkalite.testing import Broker
from tests.unit.replay.recorded import batch

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCER = Producer(5, 0, 0)


class SeededBroker(Broker):
    """A broker for tests that begins with a library instead of a capture."""

    def __init__(self, library: Library) -> None:
        self._seed = Seed(library, Log())
        super().__init__(topics=self._seed.topics())

    def _staged(self):  # type: ignore[no-untyped-def]  # noqa: ANN202 - as in Broker
        return self._settings, self._seed


@pytest.fixture
def library() -> Library:
    """Give a topic whose log begins at 10, with a gap, and transactions; and commits of a group."""
    library = Library()
    library.partitions |= {"t": 2, "__consumer_offsets": 50}
    library.internal.add("__consumer_offsets")
    shelf = library.shelf("t", 1)
    for data in (
        batch("a", "b", offset=10),
        batch("c", offset=15),
        batch("aborted", offset=16, producer=PRODUCER, is_transactional=True),
    ):
        shelf.place(BatchView(data), is_as_stored=True)
    shelf.end_transaction(5, 0, ControlKind.ABORT)
    unfinished = batch("unfinished", offset=18, producer=PRODUCER, is_transactional=True)
    shelf.place(BatchView(unfinished), is_as_stored=True)
    library.commits["g"] = {
        PartitionId("t", 1): Commit(11, -1, "note"),
        PartitionId("gone", 0): Commit(3, -1, None),
    }
    return library


@pytest.fixture
def consumer(library: Library) -> Iterator[Consumer]:
    """Give a consumer of the group at a broker that was seeded."""
    with SeededBroker(library) as broker:
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
    # The marker of what was aborted, and that of what was left open, are behind it.
    assert consumer.get_watermark_offsets(TopicPartition("t", 1), timeout=10) == (10, 20)
    assert consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=10) == (0, 0)


@pytest.mark.client
def test_a_group_goes_on_from_its_commits(consumer: Consumer) -> None:
    (committed,) = consumer.committed([TopicPartition("t", 1)], timeout=10)
    assert committed.offset == 11

    consumer.assign([committed])

    assert read(consumer) == [(11, b"b"), (15, b"c")]


def test_topics_of_the_cluster_itself_are_not_taken_over(library: Library) -> None:
    assert Seed(library, Log()).topics() == {"t": 2}
