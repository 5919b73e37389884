"""Stories of metadata: leaders change, and some answers are late to hear of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.fetch import FetchRequest
from kafkalite.protocol.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.spark.truth.crew import Topics
    from tests.spark.truth.stage import Line, Stage

TOPIC = "moving"
PARTITIONS = 3


@dataclass(slots=True)
class Outdated:
    """What there is to find."""

    stale: set[tuple[int, int, str, str]] = field(default_factory=set)
    """(connection, partition, leader epoch or topic id, connection or client)."""
    consequences: dict[int, int] = field(default_factory=dict)
    """A connection → the offsets looked up anew after its stale answer."""


def metadata(stage: Stage, topics: Topics, prefix: str) -> Outdated:
    """Let leaders move and clients ask; some of them are told what was so before."""
    truth = Outdated()
    topics.create(TOPIC, PARTITIONS)

    def ask(line: Line, epoch: int, topic_id: bytes | None = None) -> None:
        asked = [MetadataRequest.MetadataRequestTopic(name=TOPIC)]
        line.ask(MetadataRequest(topics=asked), 12, rewrite=_with(epoch, topic_id))

    # Two clients of the same address: each knows only what it was told itself.
    ahead, behind = stage.line(f"{prefix}-ahead", host=5), stage.line(f"{prefix}-behind", host=5)
    for epoch in (4, 5, 5, 6):
        ask(ahead, epoch)
        stage.wait(100)
    for epoch in (3, 4, 5):
        ask(behind, epoch)
        stage.wait(100)
    # One connection tells what it had told otherwise.
    turned = stage.line(f"{prefix}-turned", host=6)
    ask(turned, 7)
    ask(turned, 6)
    truth.stale |= {
        (turned.number, each, "leader epoch", "connection") for each in range(PARTITIONS)
    }
    _be_lost(turned, topics)
    truth.consequences[turned.number] = 1
    ask(turned, 7)
    # Another broker tells what the first one knows better.
    first, second = (stage.line(f"{prefix}-two-brokers", host=7) for _ in range(2))
    ask(first, 9)
    ask(second, 8)
    truth.stale |= {(second.number, each, "leader epoch", "client") for each in range(PARTITIONS)}
    ask(second, 9)
    # A topic made anew begins its epochs anew, and an answer goes back to the old one.
    again = stage.line(f"{prefix}-again", host=8)
    old, new = topics.ids[TOPIC], bytes(range(16))
    ask(again, 3, old)
    ask(again, 0, new)
    ask(again, 3, old)
    truth.stale |= {(again.number, each, "topic id", "client") for each in range(PARTITIONS)}
    ask(again, 1, new)
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
    """Fetch where a stale leader has nothing, and begin anew where its log ends."""
    part = FetchRequest.FetchPartition(partition=1, fetch_offset=99, partition_max_bytes=1000)
    topic = FetchRequest.FetchTopic(topic_id=topics.ids[TOPIC], partitions=[part])
    answer = line.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), 13)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    wanted = ListOffsetsRequest.ListOffsetsPartition(partition_index=1, timestamp=-1)
    asked = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[wanted])
    line.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 6)
