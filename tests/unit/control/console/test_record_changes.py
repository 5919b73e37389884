"""Changes of the records of partitions, and what they cost a producer."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.console.source import TopicRecords
from kafkalite.control.internal_requests import answer_of
from kafkalite.metadata.creation import NewTopic
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from tests.unit.control.console.served_console import ServedConsole, served_console
from tests.unit.control.group_members import TOPIC
from tests.unit.storage.logs import batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

BOTH = TopicRecords(TOPIC, 0, 1)
_REPEATS = 5


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


def request_of(console: ServedConsole, partition: int, count: int) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(
        index=partition, records=memoryview(batch(*[b"v"] * count).data)
    )
    topic = ProduceRequest.TopicProduceData(
        topic_id=console.members.topic_id(), partition_data=[data]
    )
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic])


async def produce(console: ServedConsole, partition: int = 0, count: int = 1) -> None:
    answer = await answer_of(console.broker, request_of(console, partition, count))
    assert answer.responses[0].partition_responses[0].error_code == 0


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Count calls of functions in Python and C."""
    count = [0]

    def note(_frame: object, event: str, _argument: object) -> None:
        count[0] += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        yield count
    finally:
        sys.setprofile(None)


async def calls_of_produce(
    console: ServedConsole, count: int = 1, *, watched: Sequence[TopicRecords] = ()
) -> int:
    """Return the calls of a produce request, the fewest of some, without those of timers."""
    found = []
    for _ in range(_REPEATS):
        changes = console.source.changes(watched)
        request = request_of(console, 0, count)
        with counted_calls() as calls:
            await answer_of(console.broker, request)
        found.append(calls[0])
        changes.close()
    return min(found)


async def test_each_change_is_noticed(console: ServedConsole) -> None:
    changes = console.source.changes([BOTH])
    assert not await changes.next(0)
    for partition in (1, 0):
        await produce(console, partition)
        await produce(console, partition)
        assert await changes.next(10)
        assert not await changes.next(0)
    changes.close()


async def test_other_partitions_are_not_noticed(console: ServedConsole) -> None:
    changes = console.source.changes([TopicRecords(TOPIC, 1, 1)])
    await produce(console, 0)
    assert not await changes.next(0)
    await produce(console, 1)
    assert await changes.next(10)
    changes.close()


async def test_a_topic_that_is_created_later_is_noticed(console: ServedConsole) -> None:
    changes = console.source.changes([TopicRecords("later", 0, 5)])
    assert not await changes.next(0)
    console.members.cluster.metadata.create_topics([NewTopic("later", 2)])
    assert await changes.next(10)
    assert not await changes.next(0)
    changes.close()


async def test_without_a_page_a_producer_pays_nothing(console: ServedConsole) -> None:
    before = await calls_of_produce(console)
    watched = await calls_of_produce(console, watched=[BOTH])
    changes = console.source.changes([BOTH])
    await produce(console)
    # The page has been notified, and does not wait yet.
    notified = await calls_of_produce(console)
    changes.close()
    # Other parts of the broker can have less to do than at first.
    assert notified <= before
    assert await calls_of_produce(console) <= before
    assert watched > notified


async def test_the_cost_of_a_page_does_not_depend_on_the_records(console: ServedConsole) -> None:
    count = 1_000
    plain = [await calls_of_produce(console, each) for each in (1, count)]
    watched = [await calls_of_produce(console, each, watched=[BOTH]) for each in (1, count)]
    assert watched[1] - plain[1] < watched[0] - plain[0] + count // 10
