"""Exchanges: responses are matched by correlation id, in order; others are rejected."""

from __future__ import annotations

from struct import pack

import pytest

from kafkalite.client.exchanges import (
    Exchanges,
    PendingResponse,
    TlsAlertError,
    UnexpectedBytesError,
    encode_request,
    error_text,
    parse_response,
    supported_versions,
)
from kafkalite.protocol._generated.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions


def response(correlation_id: int, body: bytes = b"") -> bytes:
    return pack(">ii", 4 + len(body), correlation_id) + body


def test_queued_frames_are_returned_together_with_their_lengths() -> None:
    exchanges = Exchanges()
    exchanges.queue(b"one", 1)
    exchanges.queue(b"three", 2)
    assert exchanges.queued_bytes == 8
    assert exchanges.take_queued() == b"\0\0\0\3one\0\0\0\5three"
    assert (exchanges.queued_bytes, exchanges.take_queued()) == (0, b"")


def test_responses_may_arrive_in_any_pieces() -> None:
    exchanges = Exchanges()
    first, second = exchanges.queue(b"", 1), exchanges.queue(b"", 2)
    data = response(1, b"a") + response(2, b"bc")
    for at in range(len(data)):
        assert not second.is_resolved
        exchanges.feed(data[at : at + 1])
    assert first.frame == pack(">i", 1) + b"a"
    assert second.frame == pack(">i", 2) + b"bc"


def test_requests_before_the_answered_one_get_no_response() -> None:
    exchanges = Exchanges()
    skipped, answered = exchanges.queue(b"", 1), exchanges.queue(b"", 2)
    exchanges.feed(response(2))
    assert skipped.is_resolved
    assert skipped.frame is None
    assert answered.frame == pack(">i", 2)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"HTTP/1.1", "invalid length of 1213486160 bytes"),
        (b"\0\0\0\2xy", "invalid length of 2 bytes"),
        (response(77), "unknown correlation id 77"),
    ],
)
def test_bytes_that_are_not_a_response_are_rejected(data: bytes, text: str) -> None:
    exchanges = Exchanges()
    exchanges.queue(b"", 1)
    with pytest.raises(UnexpectedBytesError, match=text):
        exchanges.feed(data)


def test_a_tls_alert_is_recognized() -> None:
    with pytest.raises(TlsAlertError):
        Exchanges().feed(b"\x15\x03\x03\x00\x02\x02\x50")


async def test_the_end_resolves_pending_requests() -> None:
    exchanges = Exchanges()
    pending = exchanges.queue(b"", 1)
    assert not await pending.wait(0)
    exchanges.end()
    assert await pending.wait(None)
    assert pending.frame is None


async def test_a_response_that_has_arrived_is_returned_without_waiting() -> None:
    pending = PendingResponse(1)
    pending.resolve(b"frame")
    assert await pending.wait(0)
    assert pending.frame == b"frame"


def test_a_request_has_the_header_of_its_version() -> None:
    assert encode_request(ApiVersionsRequest(), 0, 5) == pack(">hhih", 18, 0, 5, 9) + b"kafkalite"
    flexible = encode_request(ApiVersionsRequest(), 3, 5)
    assert flexible.startswith(pack(">hhih", 18, 3, 5, 9) + b"kafkalite\0")


def test_the_response_header_of_api_versions_has_no_tagged_fields() -> None:
    frame = pack(">ihi", 1, 0, 1) + pack(">hhh", 18, 0, 4)
    assert supported_versions(parse_response(frame, 18, 0)) == {18: Versions(0, 4)}


def test_invalid_version_ranges_are_removed() -> None:
    row = ApiVersionsResponse.ApiVersion
    versions_response = ApiVersionsResponse(
        api_keys=[
            row(api_key=1, min_version=6, max_version=4),
            row(api_key=2, min_version=-3, max_version=5),
            row(api_key=3, min_version=0, max_version=0),
        ]
    )
    assert supported_versions(versions_response) == {3: Versions(0, 0)}


def test_an_error_has_a_message_and_a_name() -> None:
    assert error_text(ErrorCode.PRODUCER_FENCED).endswith("(PRODUCER_FENCED)")
