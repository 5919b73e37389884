"""Clean traffic to mutilate: a few connections that do what clients do, made without a broker."""

# ruff: noqa: ANN401 - messages of any API
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.model import Direction, Endpoint
from kafkalite.protocol import codec
from tests.captures.damage import Talk
from tests.unit.frames import framed, request_content, response_content

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tests.captures.damage import Wired

START_NS: Final = 1_700_000_000_000_000_000
MS: Final = 1_000_000
BROKER: Final = Endpoint("10.1.2.3", 9092)
PRODUCE, FETCH, METADATA, OFFSET_COMMIT, HEARTBEAT, SASL_HANDSHAKE, VERSIONS = (
    0, 1, 3, 8, 12, 17, 18,
)  # fmt: skip


@dataclass(slots=True)
class Said:
    """What a connection says, in order, and the frames without their lengths."""

    client: Endpoint
    talk: Talk
    frames: dict[Direction, list[bytes]] = field(
        default_factory=lambda: {Direction.REQUEST: [], Direction.RESPONSE: []}
    )


def request_frame(
    api_key: int, version: int, correlation_id: int, message: Any, client_id: str = "tester"
) -> bytes:
    """Return a request: header and body."""
    assert api_key == message.API_KEY
    return request_content(
        message, version, correlation_id=correlation_id, client_id=client_id.encode()
    )


def response_frame(api_key: int, version: int, correlation_id: int, message: Any) -> bytes:
    """Return a response: header and body."""
    assert api_key == message.API_KEY
    return response_content(message, version, correlation_id=correlation_id)


def commit_request(group: str, offset: int, topics: int = 2) -> Any:
    """Return an OffsetCommit request."""
    kind = codec.request_class(OFFSET_COMMIT)
    partition = kind.OffsetCommitRequestPartition(partition_index=1, committed_offset=offset)
    return kind(
        group_id=group,
        member_id="member-1",
        generation_id_or_member_epoch=3,
        topics=[
            kind.OffsetCommitRequestTopic(name=f"topic-{number}", partitions=[partition])
            for number in range(topics)
        ],
    )


def commit_response(topics: int = 2) -> Any:
    """Return the answer to it."""
    kind = codec.response_class(OFFSET_COMMIT)
    part = kind.OffsetCommitResponsePartition
    return kind(
        topics=[
            kind.OffsetCommitResponseTopic(
                name=f"topic-{number}", partitions=[part(partition_index=1)]
            )
            for number in range(topics)
        ]
    )


def produce_request(acks: int, records: bytes) -> Any:
    """Return a Produce request; what stands for records is any bytes."""
    kind = codec.request_class(PRODUCE)
    partition = kind.PartitionProduceData(index=0, records=records)
    topic = kind.TopicProduceData(name="topic-0", partition_data=[partition])
    return kind(acks=acks, timeout_ms=1000, topic_data=[topic])


def _exchanges(chance: Random, correlation_id: int) -> tuple[bytes, bytes | None]:
    """Return a request of some kind, and its response if one is due."""
    which = chance.randrange(5)
    if which == 0:
        kind = codec.request_class(HEARTBEAT)
        asked: Any = kind(group_id="g", generation_id=1, member_id="m")
        answer: Any = codec.response_class(HEARTBEAT)()
        return (
            request_frame(HEARTBEAT, 4, correlation_id, asked),
            response_frame(HEARTBEAT, 4, correlation_id, answer),
        )
    if which == 1:
        topics = chance.randrange(1, 60)
        return (
            request_frame(OFFSET_COMMIT, 8, correlation_id, commit_request("g", 7, topics)),
            response_frame(OFFSET_COMMIT, 8, correlation_id, commit_response(topics)),
        )
    records = chance.randbytes(chance.randrange(100, 9000))
    if which == 2:
        kind = codec.response_class(FETCH)
        partition = kind.PartitionData(partition_index=0, high_watermark=9, records=records)
        topic = kind.FetchableTopicResponse(topic="topic-0", partitions=[partition])
        asked = codec.request_class(FETCH)(max_wait_ms=500, min_bytes=1)
        return (
            request_frame(FETCH, 11, correlation_id, asked),
            response_frame(FETCH, 11, correlation_id, kind(responses=[topic])),
        )
    acks = 0 if which == 3 else -1
    kind = codec.response_class(PRODUCE)
    done = kind.PartitionProduceResponse(index=0, base_offset=5)
    answer = kind(responses=[kind.TopicProduceResponse(name="topic-0", partition_responses=[done])])
    asked = request_frame(PRODUCE, 9, correlation_id, produce_request(acks, records))
    return asked, response_frame(PRODUCE, 9, correlation_id, answer) if acks else None


def connection(chance: Random, port: int, count: int, at_ns: int) -> Said:
    """Return a connection that asks `count` times, beginning with ApiVersions."""
    said = Said(Endpoint("10.9.8.7", port), Talk(Endpoint("10.9.8.7", port), BROKER, at_ns))
    first = codec.request_class(VERSIONS)(
        client_software_name="tester", client_software_version="1"
    )
    versions = codec.response_class(VERSIONS)()
    said_first = (
        request_frame(VERSIONS, 3, 0, first),
        response_frame(VERSIONS, 3, 0, versions),
    )
    for number in range(count):
        asked, answer = said_first if number == 0 else _exchanges(chance, number)
        at_ns += chance.randrange(1, 20) * MS
        said.talk.request(at_ns, framed(asked))
        said.frames[Direction.REQUEST].append(asked)
        if answer is not None:
            at_ns += chance.randrange(1, 9) * MS
            said.talk.response(at_ns, framed(answer))
            said.frames[Direction.RESPONSE].append(answer)
    said.talk.close(at_ns + MS)
    return said


def clean(chance: Random, connections: int = 3, count: int = 30) -> list[Said]:
    """Return several connections at the same time."""
    return [
        connection(chance, 40_000 + number, count, START_NS + number * 3 * MS)
        for number in range(connections)
    ]


def packets(said: list[Said]) -> list[Wired]:
    """Return the packets of all connections as a sniffer has them, in order of time."""
    every: Iterator[Wired] = (packet for each in said for packet in each.talk.packets)
    return sorted(every, key=lambda packet: packet.at_ns)
