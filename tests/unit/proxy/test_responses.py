"""Answers on their way to clients: rewritten where asked for, and else byte for byte the same."""

from __future__ import annotations

from collections import deque

import pytest

from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorResponse
from kafkalite.proxy.requests import TOKEN, Asked
from kafkalite.proxy.responses import MAX_GATHERED_BYTES, ResponseStream
from kafkalite.proxy.rewriting import rewriter_of
from tests.unit.frames import framed, response_frame
from tests.unit.proxy.world import shifted_by_1000

FIND_COORDINATOR = rewriter_of(10, 0)


def coordinator(correlation_id: int, host: str, port: int) -> bytes:
    response = FindCoordinatorResponse(node_id=1, host=host, port=port)
    return response_frame(response, 0, correlation_id=correlation_id)


def plain(correlation_id: int, size: int = 20) -> bytes:
    return framed(correlation_id.to_bytes(4) + bytes(size))


def responses(*asked: Asked) -> ResponseStream:
    return ResponseStream(deque(asked), shifted_by_1000)


CONVERSATION = (
    Asked(1, None),
    Asked(2, FIND_COORDINATOR),
    Asked(3, FIND_COORDINATOR),
    Asked(4, None),
    Asked(5, FIND_COORDINATOR),
)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 11, 13, 31, 64, 10_000])
def test_what_tells_addresses_is_rewritten_however_the_bytes_are_cut(size: int) -> None:
    data = (
        plain(1)
        + coordinator(2, "one", 1)
        + coordinator(3, "two.longer.than.ours", 2)
        + plain(4, 0)
        + coordinator(5, "three", 3)
    )
    stream = responses(*CONVERSATION)
    got = [
        piece
        for start in range(0, len(data), size)
        for piece in stream.feed(data[start : start + size])
    ]
    assert all(got)
    assert b"".join(got) == (
        plain(1)
        + coordinator(2, "proxy", 1001)
        + coordinator(3, "proxy", 1002)
        + plain(4, 0)
        + coordinator(5, "proxy", 1003)
    )
    assert stream.is_between


def test_a_long_answer_goes_on_as_it_comes() -> None:
    data = plain(1, 5000)
    stream = responses(Asked(1, None))
    assert stream.feed(data[:6]) == []
    assert stream.feed(data[6:1000]) == [data[:1000]]
    assert not stream.is_between
    middle = data[1000:3000]
    (got,) = stream.feed(middle)
    assert got is middle
    assert stream.feed(data[3000:]) == [data[3000:]]
    assert stream.is_between


def test_answers_to_bare_tokens_have_no_header() -> None:
    stream = responses(Asked(1, None), TOKEN, TOKEN, Asked(2, FIND_COORDINATOR))
    data = plain(1) + framed(b"server first") + framed(b"") + coordinator(2, "one", 1)
    assert b"".join(stream.feed(data)).endswith(coordinator(2, "proxy", 1001))


def test_a_token_may_be_left_without_an_answer() -> None:
    stream = responses(TOKEN, TOKEN, Asked(2, FIND_COORDINATOR))
    got = b"".join(stream.feed(framed(b"challenge") + coordinator(2, "one", 1)))
    assert got == framed(b"challenge") + coordinator(2, "proxy", 1001)


@pytest.mark.parametrize("token", [b"", b"abc", b"abcdefgh"])
def test_a_token_s_answer_may_be_of_any_length_and_come_alone(token: bytes) -> None:
    stream = responses(TOKEN)
    got = b"".join(piece for byte in framed(token) for piece in stream.feed(bytes((byte,))))
    assert got == framed(token)


def test_an_answer_that_is_not_due_ends_the_connection() -> None:
    with pytest.raises(ProtocolViolation, match="that nobody asked for"):
        responses().feed(plain(1))
    with pytest.raises(ProtocolViolation, match="correlation id 2 where 1 is due"):
        responses(Asked(1, None), Asked(2, FIND_COORDINATOR)).feed(plain(2))
    with pytest.raises(ProtocolViolation, match="correlation id None where 1 is due"):
        responses(Asked(1, None)).feed(framed(b""))
    with pytest.raises(ProtocolViolation, match="negative length -1"):
        responses(Asked(1, None)).feed(b"\xff\xff\xff\xff")


def test_what_is_gathered_has_a_limit() -> None:
    head = MAX_GATHERED_BYTES.to_bytes(4) + (1).to_bytes(4)
    assert responses(Asked(1, None)).feed(head) == [head]
    with pytest.raises(ProtocolViolation, match="fetch less at a time"):
        responses(Asked(1, FIND_COORDINATOR)).feed(head)
