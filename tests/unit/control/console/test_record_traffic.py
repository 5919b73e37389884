"""The records that requests wrote and returned."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.control.commands.requests import recorded
from kafkalite.control.console.record_traffic import RecordSpan, spans_of
from kafkalite.gateway.call import ConnectionContext
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol._generated.messages.share_fetch import (
    ShareFetchRequest,
    ShareFetchResponse,
)
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.server.request_log import LoggedRequest
from tests.unit.control.console.served_console import ServedConsole, served_console
from tests.unit.exchanges import end, new_exchange
from tests.unit.storage.logs import batch

ID = bytes(range(16))


@pytest.fixture
async def console() -> Any:  # noqa: ANN401 - an iterator
    async with served_console() as found:
        yield found


def spans(console: ServedConsole, request: Any, response: Any, version: int) -> list[RecordSpan]:  # noqa: ANN401 - of any API
    context = ConnectionContext(
        node=console.members.cluster.nodes[1], listener="PLAINTEXT", client_host="/127.0.0.1"
    )
    exchange = end(new_exchange(context, request, version), response)
    return [*spans_of(recorded(LoggedRequest(1, exchange)))]


def produced(error: int = 0, **topic: Any) -> tuple[ProduceRequest, ProduceResponse]:  # noqa: ANN401 - a name or an id
    data = ProduceRequest.PartitionProduceData(
        index=2, records=memoryview(batch(b"a", b"b", b"c").data)
    )
    answer = ProduceResponse.PartitionProduceResponse(index=2, error_code=error, base_offset=7)
    return (
        ProduceRequest(
            acks=1, topic_data=[ProduceRequest.TopicProduceData(partition_data=[data], **topic)]
        ),
        ProduceResponse(
            responses=[ProduceResponse.TopicProduceResponse(partition_responses=[answer], **topic)]
        ),
    )


def test_records_that_a_request_wrote_are_found(console: ServedConsole) -> None:
    assert spans(console, *produced(name="t"), 4) == [RecordSpan("t", 2, 7, 9)]
    assert spans(console, *produced(topic_id=ID), 13) == [RecordSpan(uuid_to_text(ID), 2, 7, 9)]
    assert spans(console, *produced(error=3, name="t"), 4) == []
    assert spans(console, produced(name="t")[0], None, 4) == []


def test_records_that_an_answer_had_are_found(console: ServedConsole) -> None:
    topic = FetchRequest.FetchTopic(
        topic="t", partitions=[FetchRequest.FetchPartition(partition=1, fetch_offset=1)]
    )
    data = FetchResponse.PartitionData(
        partition_index=1, records=memoryview(batch(b"a", b"b", b"c").data)
    )
    empty = FetchResponse.PartitionData(partition_index=0, records=None)
    answer = FetchResponse.FetchableTopicResponse(topic="t", partitions=[empty, data])
    response = FetchResponse(responses=[answer])
    assert spans(console, FetchRequest(topics=[topic]), response, 4) == [RecordSpan("t", 1, 1, 2)]
    # The request of a fetch session does not name what has not changed.
    assert spans(console, FetchRequest(topics=[]), response, 4) == [RecordSpan("t", 1, 0, 2)]


def test_records_that_a_share_consumer_got_are_found(console: ServedConsole) -> None:
    acquired = ShareFetchResponse.AcquiredRecords(first_offset=3, last_offset=4, delivery_count=1)
    data = ShareFetchResponse.PartitionData(partition_index=1, acquired_records=[acquired])
    answer = ShareFetchResponse.ShareFetchableTopicResponse(topic_id=ID, partitions=[data])
    found = spans(console, ShareFetchRequest(), ShareFetchResponse(responses=[answer]), 1)
    assert found == [RecordSpan(uuid_to_text(ID), 1, 3, 4)]


def test_other_requests_have_no_records(console: ServedConsole) -> None:
    assert spans(console, HeartbeatRequest(), HeartbeatResponse(), 4) == []


def test_a_record_is_in_a_span() -> None:
    span = RecordSpan("t", 1, 3, 4)
    assert span.has({"t", "id"}, 1, 3)
    for topics, partition, offset in (({"u"}, 1, 3), ({"t"}, 0, 3), ({"t"}, 1, 5), ({"t"}, 1, 2)):
        assert not span.has(topics, partition, offset)
