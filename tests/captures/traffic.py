"""Clean traffic of a few connections with typical requests, generated without a broker."""

# ruff: noqa: ANN401 - messages of any API
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.model import Direction, Endpoint
from kafkalite.protocol import codec
from tests.captures.damage import TcpConnection
from tests.unit.frames import framed, request_content, response_content

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tests.captures.damage import TcpPacket

START_NS: Final = 1_700_000_000_000_000_000
MS: Final = 1_000_000
BROKER: Final = Endpoint("10.1.2.3", 9092)
PRODUCE, FETCH, METADATA, OFFSET_COMMIT, HEARTBEAT, SASL_HANDSHAKE, VERSIONS = (
    0, 1, 3, 8, 12, 17, 18,
)  # fmt: skip


@dataclass(slots=True)
class GeneratedConnection:
    """A generated connection: its packets, and its frames without length prefixes."""

    client: Endpoint
    tcp: TcpConnection
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
    request_class = codec.request_class(OFFSET_COMMIT)
    partition = request_class.OffsetCommitRequestPartition(
        partition_index=1, committed_offset=offset
    )
    return request_class(
        group_id=group,
        member_id="member-1",
        generation_id_or_member_epoch=3,
        topics=[
            request_class.OffsetCommitRequestTopic(name=f"topic-{number}", partitions=[partition])
            for number in range(topics)
        ],
    )


def commit_response(topics: int = 2) -> Any:
    """Return an OffsetCommit response."""
    response_class = codec.response_class(OFFSET_COMMIT)
    partition_class = response_class.OffsetCommitResponsePartition
    return response_class(
        topics=[
            response_class.OffsetCommitResponseTopic(
                name=f"topic-{number}", partitions=[partition_class(partition_index=1)]
            )
            for number in range(topics)
        ]
    )


def produce_request(acks: int, records: bytes) -> Any:
    """Return a Produce request; `records` are any bytes."""
    request_class = codec.request_class(PRODUCE)
    partition = request_class.PartitionProduceData(index=0, records=records)
    topic = request_class.TopicProduceData(name="topic-0", partition_data=[partition])
    return request_class(acks=acks, timeout_ms=1000, topic_data=[topic])


def _random_exchange(chance: Random, correlation_id: int) -> tuple[bytes, bytes | None]:
    """Return a random request, and its response if there is one."""
    choice = chance.randrange(5)
    if choice == 0:
        message_class = codec.request_class(HEARTBEAT)
        request: Any = message_class(group_id="g", generation_id=1, member_id="m")
        response: Any = codec.response_class(HEARTBEAT)()
        return (
            request_frame(HEARTBEAT, 4, correlation_id, request),
            response_frame(HEARTBEAT, 4, correlation_id, response),
        )
    if choice == 1:
        topics = chance.randrange(1, 60)
        return (
            request_frame(OFFSET_COMMIT, 8, correlation_id, commit_request("g", 7, topics)),
            response_frame(OFFSET_COMMIT, 8, correlation_id, commit_response(topics)),
        )
    records = chance.randbytes(chance.randrange(100, 9000))
    if choice == 2:
        message_class = codec.response_class(FETCH)
        partition = message_class.PartitionData(
            partition_index=0, high_watermark=9, records=records
        )
        topic = message_class.FetchableTopicResponse(topic="topic-0", partitions=[partition])
        request = codec.request_class(FETCH)(max_wait_ms=500, min_bytes=1)
        return (
            request_frame(FETCH, 11, correlation_id, request),
            response_frame(FETCH, 11, correlation_id, message_class(responses=[topic])),
        )
    acks = 0 if choice == 3 else -1
    message_class = codec.response_class(PRODUCE)
    partition_response = message_class.PartitionProduceResponse(index=0, base_offset=5)
    response = message_class(
        responses=[
            message_class.TopicProduceResponse(
                name="topic-0", partition_responses=[partition_response]
            )
        ]
    )
    request = request_frame(PRODUCE, 9, correlation_id, produce_request(acks, records))
    return request, response_frame(PRODUCE, 9, correlation_id, response) if acks else None


def connection(chance: Random, port: int, count: int, at_ns: int) -> GeneratedConnection:
    """Return a connection with `count` requests, the first of them ApiVersions."""
    generated = GeneratedConnection(
        Endpoint("10.9.8.7", port), TcpConnection(Endpoint("10.9.8.7", port), BROKER, at_ns)
    )
    api_versions = codec.request_class(VERSIONS)(
        client_software_name="tester", client_software_version="1"
    )
    versions = codec.response_class(VERSIONS)()
    first_exchange = (
        request_frame(VERSIONS, 3, 0, api_versions),
        response_frame(VERSIONS, 3, 0, versions),
    )
    for number in range(count):
        request, response = first_exchange if number == 0 else _random_exchange(chance, number)
        at_ns += chance.randrange(1, 20) * MS
        generated.tcp.request(at_ns, framed(request))
        generated.frames[Direction.REQUEST].append(request)
        if response is not None:
            at_ns += chance.randrange(1, 9) * MS
            generated.tcp.response(at_ns, framed(response))
            generated.frames[Direction.RESPONSE].append(response)
    generated.tcp.close(at_ns + MS)
    return generated


def clean(chance: Random, connections: int = 3, count: int = 30) -> list[GeneratedConnection]:
    """Return several concurrent connections."""
    return [
        connection(chance, 40_000 + number, count, START_NS + number * 3 * MS)
        for number in range(connections)
    ]


def packets(generated: list[GeneratedConnection]) -> list[TcpPacket]:
    """Return the packets of all connections, in order of time."""
    all_packets: Iterator[TcpPacket] = (
        packet for connection in generated for packet in connection.tcp.packets
    )
    return sorted(all_packets, key=lambda packet: packet.at_ns)
