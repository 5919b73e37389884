"""Unit tests of parsing headers, requests and responses."""

from __future__ import annotations

import struct

import pytest

from kafkalite.capture.model import Connection, Endpoint, Exchange
from kafkalite.capture.reading.messages import (
    Header,
    api_name,
    error_name,
    is_known,
    is_request,
    is_response,
    parse_request,
    parse_response,
    request_header,
    response_start,
    response_version,
)
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.errors import ProtocolViolation
from tests.captures import traffic


def exchange(request: bytes, response: bytes | None) -> Exchange:
    header = request_header(request)
    key, version = header.api_key, header.api_version
    return Exchange(
        connection=Connection(
            number=0, client=Endpoint("a", 1), broker=Endpoint("b", 2), opened_ns=None
        ),
        position=0,
        api_key=key,
        api_version=version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        sent_ns=0,
        answered_ns=None,
        request=request,
        request_start=header.start,
        response=response,
        response_start=0 if response is None else response_start(response, key, version),
    )


def test_header_ends_at_the_body() -> None:
    flexible = traffic.request_frame(8, 8, 5, traffic.commit_request("g", 1))
    assert request_header(flexible) == Header(8, 8, 5, "tester", 17)
    plain = traffic.request_frame(8, 2, 5, traffic.commit_request("g", 1))
    assert request_header(plain) == Header(8, 2, 5, "tester", 16)
    nameless = struct.pack(">hhih", 8, 2, -5, -1)
    assert request_header(nameless) == Header(8, 2, -5, None, 10)
    future = struct.pack(">hhih", 900, 0, 1, 0) + b"\x01\x00\x02ab" + b"body"
    assert request_header(future).start == len(future) - 4


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0" * 9,
        struct.pack(">hhih", -1, 0, 0, 0),
        struct.pack(">hhih", 8, 2, 0, 5) + b"four",
        struct.pack(">hhih", 8, 2, 0, 1) + b"\xff",
        struct.pack(">hhih", 8, 8, 0, -1),
    ],
)
def test_invalid_header_is_a_protocol_violation(frame: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        request_header(frame)
    assert not is_request(frame)


def test_messages_of_an_exchange_are_parsed() -> None:
    request = traffic.commit_request("g", 1)
    response = traffic.commit_response()
    both = exchange(
        traffic.request_frame(8, 8, 5, request), traffic.response_frame(8, 8, 5, response)
    )
    assert parse_request(both) == request
    assert parse_response(both) == response
    assert parse_response(exchange(both.request, None)) is None


def test_unsupported_api_versions_response_is_parsed_as_version_0() -> None:
    frame = traffic.request_frame(18, 3, 1, codec.request_class(18)())
    refusal = codec.response_class(18)(error_code=35)
    answer = traffic.response_frame(18, 0, 1, refusal)
    assert response_version(answer, 18, 3) == 0
    assert is_response(answer, 18, 3)
    assert parse_response(exchange(frame, answer)).error_code == 35
    agreed = traffic.response_frame(18, 3, 1, codec.response_class(18)())
    assert response_version(agreed, 18, 3) == 3
    assert response_version(refused_commit(), 8, 8) == 8


def refused_commit() -> bytes:
    """Return a response of another API that begins with the same error code."""
    return struct.pack(">ih", 1, 35)


def test_error_message_has_api_and_version() -> None:
    unknown = exchange(struct.pack(">hhih", 900, 0, 1, 0) + b"\0", None)
    with pytest.raises(ProtocolViolation, match="unknown version: API 900 v0"):
        parse_request(unknown)
    truncated = exchange(traffic.request_frame(12, 4, 1, codec.request_class(12)())[:-3], None)
    with pytest.raises(ProtocolViolation, match="malformed Heartbeat request v4"):
        parse_request(truncated)
    with pytest.raises(ProtocolViolation):
        response_start(b"\0\0\0", 8, 8)


def test_message_must_fill_its_frame() -> None:
    frame = traffic.request_frame(8, 8, 5, traffic.commit_request("g", 1))
    assert is_request(frame)
    assert not is_request(frame + b"\0")
    assert not is_request(frame[:-1])
    answer = traffic.response_frame(8, 8, 5, traffic.commit_response())
    assert is_response(answer, 8, 8)
    assert not is_response(answer + b"\0", 8, 8)
    assert not is_response(answer, 900, 0)


def test_spare_bytes_of_librdkafka_may_follow() -> None:
    """Before 1.0, it sent the length of an empty list after ApiVersions v0."""
    frame = traffic.request_frame(18, 0, 5, ApiVersionsRequest())
    assert is_request(frame)
    assert is_request(frame + bytes(4))
    assert not is_request(frame + bytes(5))
    later = traffic.request_frame(18, 1, 5, ApiVersionsRequest())
    assert not is_request(later + bytes(4))


def test_known_versions_are_those_with_a_codec() -> None:
    assert is_known(8, 8)
    assert not is_known(8, 99)
    assert not is_known(900, 0)


def test_unknown_apis_and_errors_are_named_by_number() -> None:
    assert [api_name(key) for key in (8, 9_999)] == ["OffsetCommit", "API 9999"]
    assert [error_name(code) for code in (25, 9_999)] == ["UNKNOWN_MEMBER_ID", "error 9999"]
