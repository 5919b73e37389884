"""Scenarios of leader changes and stale metadata responses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import Batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.spark.truth.simulation import Line, Stage
    from tests.spark.truth.tracked_group import Topics

TOPIC = "moving"
PLACES = "places"
EARLIEST, LATEST = -2, -1
PARTITIONS = 3


@dataclass(slots=True)
class Outdated:
    """Expected results."""

    stale: set[tuple[int, int, str, str]] = field(default_factory=set)
    """(connection, partition, leader epoch or topic id, connection or client)."""
    consequences: dict[int, int] = field(default_factory=dict)
    """Connection → offsets looked up after its stale response."""
    resets: dict[int, tuple[str, int, str | None, int | None, int | None, int | None]] = field(
        default_factory=dict
    )
    """Connection → cause, fetch offset, how it was reset, new offset, records read again, records
    skipped."""
    refused: dict[tuple[str, str], tuple[int, int | None]] = field(default_factory=dict)
    """(client id, error) → number of occurrences, and leader epoch in the request."""


def metadata(stage: Stage, topics: Topics, prefix: str) -> Outdated:
    """Move leaders and send some clients outdated responses."""
    truth = Outdated()
    topics.create(TOPIC, PARTITIONS)

    def ask(line: Line, epoch: int, topic_id: bytes | None = None) -> None:
        asked = [MetadataRequest.MetadataRequestTopic(name=TOPIC)]
        line.ask(MetadataRequest(topics=asked), 12, rewrite=_with(epoch, topic_id))

    # Two clients with the same address: each knows only its own responses.
    ahead, behind = stage.line(f"{prefix}-ahead", host=5), stage.line(f"{prefix}-behind", host=5)
    for epoch in (4, 5, 5, 6):
        ask(ahead, epoch)
        stage.wait(100)
    for epoch in (3, 4, 5):
        ask(behind, epoch)
        stage.wait(100)
    # The same connection returns an older epoch.
    turned = stage.line(f"{prefix}-turned", host=6)
    ask(turned, 7)
    ask(turned, 6)
    truth.stale |= {
        (turned.number, index, "leader epoch", "connection") for index in range(PARTITIONS)
    }
    _be_lost(turned, topics)
    truth.consequences[turned.number] = 1
    ask(turned, 7)
    # Another broker returns an older epoch than the first one.
    first, second = (stage.line(f"{prefix}-two-brokers", host=7) for _ in range(2))
    ask(first, 9)
    ask(second, 8)
    truth.stale |= {(second.number, index, "leader epoch", "client") for index in range(PARTITIONS)}
    ask(second, 9)
    # A recreated topic starts with new epochs, and a response has the old topic.
    again = stage.line(f"{prefix}-again", host=8)
    old, new = topics.ids[TOPIC], bytes(range(16))
    ask(again, 3, old)
    ask(again, 0, new)
    ask(again, 3, old)
    truth.stale |= {(again.number, index, "topic id", "client") for index in range(PARTITIONS)}
    ask(again, 1, new)
    truth.resets[turned.number] = ("beyond the end", 99, "latest", 0, 0, 0)
    _lose_places(stage, topics, prefix, truth)
    return truth


def _with(epoch: int, topic_id: bytes | None) -> Callable[[Any], None]:
    def rewrite(answer: Any) -> None:  # noqa: ANN401 - a MetadataResponse
        for topic in answer.topics:
            if topic_id is not None:
                topic.topic_id = topic_id
            for partition in topic.partitions:
                partition.leader_epoch = epoch

    return rewrite


def _be_lost(line: Line, topics: Topics) -> None:
    """Fetch beyond the end of a stale leader's log, and reset to its end."""
    assert _fetch(line, topics, (TOPIC, 1, 99)) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert _look_up(line, TOPIC, 1, LATEST) == 0


def _lose_places(stage: Stage, topics: Topics, prefix: str, truth: Outdated) -> None:
    """Let consumers fetch out of range for several causes."""
    topics.create(PLACES, 3)
    writer = stage.line(f"{prefix}-writer", host=15)
    for partition in (0, 1):
        batch = Batch(values=(b"v",) * 10).encode()
        data = ProduceRequest.PartitionProduceData(index=partition, records=batch)
        topic = ProduceRequest.TopicProduceData(topic_id=topics.ids[PLACES], partition_data=[data])
        writer.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 13)

    def consumer(name: str) -> Line:
        return stage.line(f"{prefix}-{name}", host=15)

    # A broker that is behind makes a valid consumer start over.
    rewound = consumer("rewound")
    assert _fetch(rewound, topics, (PLACES, 0, 8)) == ErrorCode.NONE
    code = _fetch(rewound, topics, (PLACES, 0, 10), _refusing(ErrorCode.OFFSET_OUT_OF_RANGE))
    assert code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert _look_up(rewound, PLACES, 0, EARLIEST) == 0
    truth.resets[rewound.number] = ("broker behind", 10, "earliest", 0, 10, 0)
    # The records were deleted.
    late = consumer("late")
    cut = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=1, offset=6)
    topic_ = DeleteRecordsRequest.DeleteRecordsTopic(name=PLACES, partitions=[cut])
    deleted = writer.ask(DeleteRecordsRequest(topics=[topic_], timeout_ms=1000), 2)
    assert deleted.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert _fetch(late, topics, (PLACES, 1, 2)) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert _look_up(late, PLACES, 1, EARLIEST) == 6
    truth.resets[late.number] = ("deleted", 2, "earliest", 6, 0, 4)
    # The capture has no end of this log, and the consumer does not continue.
    lost = consumer("lost")
    assert _fetch(lost, topics, (PLACES, 2, 3)) == ErrorCode.OFFSET_OUT_OF_RANGE
    truth.resets[lost.number] = ("unknown", 3, None, None, None, None)
    # One client knows a newer leader than the broker, the other an older one.
    for _ in range(3):
        code = _fetch(consumer("ahead"), topics, (PLACES, 0, 1), epoch=7)
        assert code == ErrorCode.UNKNOWN_LEADER_EPOCH
    _fetch(consumer("behind"), topics, (PLACES, 0, 1), _refusing(ErrorCode.FENCED_LEADER_EPOCH))
    truth.refused = {
        (f"{prefix}-ahead", "UNKNOWN_LEADER_EPOCH"): (3, 7),
        (f"{prefix}-behind", "FENCED_LEADER_EPOCH"): (1, None),
    }


def _refusing(code: ErrorCode) -> Callable[[Any], None]:
    def rewrite(answer: Any) -> None:  # noqa: ANN401 - a FetchResponse
        partition = answer.responses[0].partitions[0]
        partition.error_code, partition.high_watermark, partition.records = int(code), -1, None

    return rewrite


def _fetch(
    line: Line,
    topics: Topics,
    position: tuple[str, int, int],
    rewrite: Callable[[Any], None] | None = None,
    *,
    epoch: int = -1,
) -> int:
    """Fetch at (topic, partition, offset), and return the error."""
    name, partition, offset = position
    part = FetchRequest.FetchPartition(
        partition=partition,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        partition_max_bytes=1000,
    )
    topic = FetchRequest.FetchTopic(topic_id=topics.ids[name], partitions=[part])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])
    answer = line.ask(request, 13, rewrite=rewrite)
    return int(answer.responses[0].partitions[0].error_code)


def _look_up(line: Line, name: str, partition: int, timestamp: int) -> int:
    part = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    asked = ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=[part])
    answer = line.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 6)
    return int(answer.topics[0].partitions[0].offset)
