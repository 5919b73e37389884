"""Requests are found in a stream of bytes, however it is split."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from kafkalite.lab.proxy.requests import MAX_HEADER_BYTES, SASL_TOKEN, RequestStream
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.protocol.errors import ProtocolViolation
from tests.unit.frames import framed, header, request_frame

MAX_FRAME = 1_000_000


def stream(*pieces: bytes) -> RequestStream:
    requests = RequestStream(MAX_FRAME)
    for piece in pieces:
        requests.feed(piece)
    return requests


def ids(requests: RequestStream) -> list[int | None]:
    return [request.correlation_id for request in requests.pending]


def metadata(correlation_id: int) -> bytes:
    return request_frame(MetadataRequest(topics=None), 12, correlation_id=correlation_id)


def produce(correlation_id: int, acks: int, version: int, **fields: Any) -> bytes:  # noqa: ANN401
    topic = ProduceRequest.TopicProduceData(
        name="t" * (version < 13),
        partition_data=[ProduceRequest.PartitionProduceData(records=bytes(300))],
    )
    request = ProduceRequest(acks=acks, topic_data=[topic], **fields)
    return request_frame(request, version, correlation_id=correlation_id)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 64, 10_000])
def test_requests_are_found_however_the_bytes_are_split(size: int) -> None:
    heartbeat = request_frame(HeartbeatRequest(group_id="g", member_id="m"), 4, correlation_id=2)
    data = metadata(1) + heartbeat + produce(3, 1, 13) + produce(4, 0, 9) + produce(5, -1, 3)
    requests = stream(*(data[start : start + size] for start in range(0, len(data), size)))
    assert ids(requests) == [1, 2, 3, 5]
    assert [request.rewriter is not None for request in requests.pending] == [
        True, False, True, False,
    ]  # fmt: skip
    assert requests.request_count == 5


@pytest.mark.parametrize("size", [9, 50, 10_000])
def test_cached_kinds_of_requests_are_found_like_others(size: int) -> None:
    heartbeats = [
        request_frame(HeartbeatRequest(group_id="g"), 4, correlation_id=n) for n in range(9)
    ]
    data = b"".join(
        (*heartbeats[:3], metadata(10), *heartbeats[3:], produce(11, 0, 9), metadata(12))
    )
    for _ in range(2):
        requests = stream(*(data[start : start + size] for start in range(0, len(data), size)))
        assert ids(requests) == [0, 1, 2, 10, 3, 4, 5, 6, 7, 8, 12]
        kinds = [request.rewriter is not None for request in requests.pending]
        assert kinds == [False] * 3 + [True] + [False] * 6 + [True]
        assert requests.request_count == 12
    with pytest.raises(ProtocolViolation):
        stream(heartbeats[0], b"\xff\xff\xff\xff" + heartbeats[0][4:])
    with pytest.raises(ProtocolViolation):
        stream(heartbeats[0], (MAX_FRAME + 1).to_bytes(4) + heartbeats[0][4:])


def test_kinds_of_requests_beyond_the_cache_are_found() -> None:
    kinds = [framed(pack(">hhih", 999, version, version, -1)) for version in range(2_000)]
    requests = stream(*kinds, *kinds)
    assert ids(requests) == [*range(2_000)] * 2
    assert requests.request_count == 4_000


@pytest.mark.parametrize("version", [3, 8, 9, 13])
@pytest.mark.parametrize("transactional_id", [None, "", "shop", "x" * 300])
@pytest.mark.parametrize("client_id", [None, b"", b"c" * 200])
def test_produce_without_acks_expects_no_response(
    version: int, transactional_id: str | None, client_id: bytes | None
) -> None:
    for acks in (0, 1, -1):
        request = ProduceRequest(acks=acks, transactional_id=transactional_id)
        frame = request_frame(request, version, correlation_id=9, client_id=client_id)
        assert ids(stream(frame)) == [9] * (acks != 0)


def test_acks_are_found_in_versions_that_kafka_4_dropped() -> None:
    for version in (0, 1, 2):
        for acks, answers in ((b"\0\0", []), (b"\xff\xff", [1])):
            frame = framed(header(0, version) + acks + bytes(20))
            assert ids(stream(frame)) == answers


def test_large_frame_is_not_buffered() -> None:
    head = header(0, 8, correlation_id=4) + b"\xff\xff" + b"\0\1"
    requests = stream((500_000).to_bytes(4) + head)
    assert ids(requests) == [4]
    rest = 500_000 - len(head)
    for _ in range(rest // 1000):
        requests.feed(bytes(1000))
    requests.feed(bytes(rest % 1000) + metadata(5))
    assert ids(requests) == [4, 5]


def test_malformed_frame_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match="negative frame length -2"):
        stream(b"\xff\xff\xff\xfe")
    with pytest.raises(ProtocolViolation, match=r"above socket\.request\.max\.bytes=1000000"):
        stream((MAX_FRAME + 1).to_bytes(4))
    with pytest.raises(ProtocolViolation, match="seems to speak TLS"):
        stream(b"\x16\x03\x01\x02\x00\x01")
    with pytest.raises(ProtocolViolation, match="a request of 7 bytes is too short for a header"):
        stream(framed(bytes(7)))
    with pytest.raises(ProtocolViolation, match="ends before its acks field"):
        stream(framed(header(0, 8) + b"\0"))
    with pytest.raises(ProtocolViolation, match="ends before its acks field"):
        stream(framed(header(0, 9, is_flexible=True) + b"\xff\xff\xff\xff\xff\xff"))
    with pytest.raises(ProtocolViolation, match="Metadata v14"):
        stream(framed(header(3, 14)))


def test_size_of_a_header_is_limited() -> None:
    tags = b"\x01\x00\xff\xff\x7f"  # one, of two million bytes
    requests = stream((MAX_FRAME).to_bytes(4) + header(0, 9) + tags)
    requests.feed(bytes(MAX_HEADER_BYTES - 100))
    with pytest.raises(ProtocolViolation, match="header is longer"):
        requests.feed(bytes(100))


TOKENS = {
    "plain": [b"\0user\0secret of some length"],
    "plain, short": [b"\0u\0p"],
    "scram": [b"n,,n=user,r=abcdef", b"c=biws,r=abcdef,p=xyz"],
    "oauthbearer": [b"n,,\x01auth=Bearer abc\x01\x01", b"\x01"],
    "gssapi": [b"\x60\x82\x02\x00" + bytes(40), b"", b"\x05\x04\x04\xff" + bytes(28)],
}


@pytest.mark.parametrize("tokens", TOKENS.values(), ids=TOKENS.keys())
@pytest.mark.parametrize("size", [1, 10_000])
def test_tokens_without_header_follow_handshake_version_0(tokens: list[bytes], size: int) -> None:
    handshake = request_frame(SaslHandshakeRequest(mechanism="X"), 0, correlation_id=1)
    data = handshake + b"".join(map(framed, tokens)) + metadata(2) + metadata(3)
    requests = stream(*(data[start : start + size] for start in range(0, len(data), size)))
    assert ids(requests) == [1, *(None for _ in tokens), 2, 3]
    assert requests.pending[1] is SASL_TOKEN


def test_no_token_without_header_follows_handshake_version_1() -> None:
    handshake = request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    with pytest.raises(ProtocolViolation, match="too short for a header"):
        stream(handshake + framed(b"\0u\0p"))


def test_frame_boundary_is_after_a_complete_request() -> None:
    requests = stream()
    assert requests.is_at_frame_boundary
    requests.feed(metadata(1)[:3])
    assert not requests.is_at_frame_boundary
    requests.feed(metadata(1)[3:])
    assert requests.is_at_frame_boundary
    requests.feed(produce(2, 1, 9)[:200])
    assert not requests.is_at_frame_boundary


def test_no_frame_boundary_while_a_token_may_follow() -> None:
    requests = stream(request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 0))
    assert not requests.is_at_frame_boundary
    requests.feed(metadata(1))
    assert requests.is_at_frame_boundary
