"""Unit tests of recognising Kafka traffic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.reading.framing import Verdict
from kafkalite.capture.reading.kafka_detection import (
    RequestFinder,
    ResponseFinder,
    check_first_request,
    is_tls,
)
from kafkalite.protocol import codec
from tests.captures import traffic
from tests.unit.frames import framed

MAXIMUM = 1_000_000
REQUEST = framed(traffic.request_frame(8, 8, 5, traffic.commit_request("g", 1)))
RESPONSE = framed(traffic.response_frame(8, 8, 5, traffic.commit_response()))


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        (REQUEST, Verdict.YES),
        (REQUEST[:14], Verdict.YES),
        (REQUEST[:13], Verdict.UNKNOWN),
        (b"", Verdict.UNKNOWN),
        (b"GET / HTTP/1.1\r\n", Verdict.NO),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(20), Verdict.NO),
        (bytes(40), Verdict.NO),
        (b"\x00\x00\x00\x20\x00\x70\x00\x05\x00\x00\x00\x01\xff\xff" + bytes(10), Verdict.YES),
        (b"\x00\x00\x00\x20\x00\x08\x00\x05\x00\x00\x00\x01\x00\x03\xff\xfe\xfd", Verdict.NO),
    ],
)
def test_first_request_is_recognised(data: bytes, verdict: Verdict) -> None:
    assert check_first_request(data, MAXIMUM) is verdict


def test_first_request_of_every_api_is_recognised() -> None:
    for key in codec.api_keys():
        version = codec.api_versions(key).highest
        frame = traffic.request_frame(key, version, 1, codec.request_class(key)())
        assert check_first_request(framed(frame), MAXIMUM) is Verdict.YES


def test_tls_is_recognised_by_its_records() -> None:
    assert is_tls(b"\x16\x03\x01\x02\x00\x01")
    assert is_tls(b"\x17\x03\x03\x00\x20")
    assert not is_tls(REQUEST)
    assert not is_tls(b"\x16\x03")


def test_request_is_found_between_other_bytes() -> None:
    requests = RequestFinder(MAXIMUM)
    buffer = bytearray(b"\0\0\0\x09\0\x08\0\x08" + REQUEST + REQUEST[:10])
    found = [
        position
        for position in requests.candidates(buffer, 0)
        if requests.check(buffer, position) is Verdict.YES
    ]
    assert found == [8]


def test_incomplete_request_is_recognised_by_a_known_client_id() -> None:
    requests = RequestFinder(MAXIMUM)
    part = bytearray(REQUEST[:-1])
    assert requests.check(part, 0) is Verdict.UNKNOWN
    requests.client_ids = {b"tester"}
    assert requests.check(part, 0) is Verdict.YES
    requests.client_ids = {b"other"}
    assert requests.check(part, 0) is Verdict.UNKNOWN


def test_response_is_found_by_its_request() -> None:
    pending = {5: (8, 8)}
    responses = ResponseFinder(pending, MAXIMUM)
    buffer = bytearray(b"\0\0\0\5" * 3 + RESPONSE)
    candidates = list(responses.candidates(buffer, 0))
    verdicts = {position: responses.check(buffer, position) for position in candidates}
    assert [position for position, verdict in verdicts.items() if verdict is Verdict.YES] == [12]
    assert responses.check(bytearray(RESPONSE[:-1]), 0) is Verdict.UNKNOWN
    pending.clear()
    assert list(responses.candidates(buffer, 0)) == []
    assert responses.check(bytearray(RESPONSE), 0) is Verdict.NO


def test_candidates_have_valid_lengths() -> None:
    assert list(RequestFinder(MAXIMUM).candidates(bytearray(1000), 0)) == []
    assert list(ResponseFinder({0: (8, 8)}, MAXIMUM).candidates(bytearray(1000), 0)) == []
    huge = bytearray(b"\x7f" + RESPONSE[1:])
    assert list(ResponseFinder({5: (8, 8)}, MAXIMUM).candidates(huge, 0)) == []


@given(st.binary(max_size=300), st.binary(max_size=30))
def test_arbitrary_bytes_do_not_raise(data: bytes, client: bytes) -> None:
    requests = RequestFinder(MAXIMUM)
    requests.client_ids = {client}
    responses = ResponseFinder({0: (18, 3), 1: (900, 1), -1: (1, 11)}, MAXIMUM)
    buffer = bytearray(data + REQUEST[:20] + data)
    for position in requests.candidates(buffer, 0):
        requests.check(buffer, position)
    for position in responses.candidates(buffer, 0):
        responses.check(buffer, position)
    check_first_request(data, MAXIMUM)
    is_tls(data)
