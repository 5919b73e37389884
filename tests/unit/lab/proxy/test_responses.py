"""Responses on their way to clients: rewritten if necessary, otherwise the same bytes."""

from __future__ import annotations

from collections import deque

import pytest

from kafkalite.lab.proxy.address_rewriting import find_rewriter
from kafkalite.lab.proxy.requests import SASL_TOKEN, PendingRequest
from kafkalite.lab.proxy.responses import MAX_BUFFERED_BYTES, ResponseStream
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorResponse
from kafkalite.protocol.errors import ProtocolViolation
from tests.unit.frames import framed, response_frame
from tests.unit.lab.proxy.running_proxies import add_1000_to_ports

FIND_COORDINATOR = find_rewriter(10, 0)


def coordinator(correlation_id: int, host: str, port: int) -> bytes:
    response = FindCoordinatorResponse(node_id=1, host=host, port=port)
    return response_frame(response, 0, correlation_id=correlation_id)


def plain(correlation_id: int, size: int = 20) -> bytes:
    return framed(correlation_id.to_bytes(4) + bytes(size))


def responses(*requests: PendingRequest) -> ResponseStream:
    return ResponseStream(deque(requests), add_1000_to_ports)


REQUESTS = (
    PendingRequest(1, None),
    PendingRequest(2, FIND_COORDINATOR),
    PendingRequest(3, FIND_COORDINATOR),
    PendingRequest(4, None),
    PendingRequest(5, FIND_COORDINATOR),
)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 11, 13, 31, 64, 10_000])
def test_addresses_are_rewritten_however_the_bytes_are_split(size: int) -> None:
    data = (
        plain(1)
        + coordinator(2, "one", 1)
        + coordinator(3, "two.longer.than.ours", 2)
        + plain(4, 0)
        + coordinator(5, "three", 3)
    )
    stream = responses(*REQUESTS)
    forwarded = [
        piece
        for start in range(0, len(data), size)
        for piece in stream.feed(data[start : start + size])
    ]
    assert all(forwarded)
    assert b"".join(forwarded) == (
        plain(1)
        + coordinator(2, "proxy", 1001)
        + coordinator(3, "proxy", 1002)
        + plain(4, 0)
        + coordinator(5, "proxy", 1003)
    )
    assert stream.is_at_frame_boundary


def test_long_response_is_forwarded_as_it_arrives() -> None:
    data = plain(1, 5000)
    stream = responses(PendingRequest(1, None))
    assert stream.feed(data[:6]) == []
    assert stream.feed(data[6:1000]) == [data[:1000]]
    assert not stream.is_at_frame_boundary
    middle = data[1000:3000]
    (forwarded,) = stream.feed(middle)
    assert forwarded is middle
    assert stream.feed(data[3000:]) == [data[3000:]]
    assert stream.is_at_frame_boundary


def test_responses_to_sasl_tokens_have_no_header() -> None:
    stream = responses(
        PendingRequest(1, None), SASL_TOKEN, SASL_TOKEN, PendingRequest(2, FIND_COORDINATOR)
    )
    data = plain(1) + framed(b"server first") + framed(b"") + coordinator(2, "one", 1)
    assert b"".join(stream.feed(data)).endswith(coordinator(2, "proxy", 1001))


def test_sasl_token_may_have_no_response() -> None:
    stream = responses(SASL_TOKEN, SASL_TOKEN, PendingRequest(2, FIND_COORDINATOR))
    forwarded = b"".join(stream.feed(framed(b"challenge") + coordinator(2, "one", 1)))
    assert forwarded == framed(b"challenge") + coordinator(2, "proxy", 1001)


@pytest.mark.parametrize("token", [b"", b"abc", b"abcdefgh"])
def test_response_to_a_sasl_token_may_have_any_length(token: bytes) -> None:
    stream = responses(SASL_TOKEN)
    forwarded = b"".join(piece for byte in framed(token) for piece in stream.feed(bytes((byte,))))
    assert forwarded == framed(token)


def test_unexpected_response_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match="without a pending request"):
        responses().feed(plain(1))
    with pytest.raises(ProtocolViolation, match="correlation id 2 instead of 1"):
        responses(PendingRequest(1, None), PendingRequest(2, FIND_COORDINATOR)).feed(plain(2))
    with pytest.raises(ProtocolViolation, match="correlation id None instead of 1"):
        responses(PendingRequest(1, None)).feed(framed(b""))
    with pytest.raises(ProtocolViolation, match="the negative length -1"):
        responses(PendingRequest(1, None)).feed(b"\xff\xff\xff\xff")


def test_size_of_buffered_responses_is_limited() -> None:
    head = MAX_BUFFERED_BYTES.to_bytes(4) + (1).to_bytes(4)
    assert responses(PendingRequest(1, None)).feed(head) == [head]
    with pytest.raises(ProtocolViolation, match="fetch less at a time"):
        responses(PendingRequest(1, FIND_COORDINATOR)).feed(head)
