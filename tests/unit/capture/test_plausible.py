"""What looks like Kafka, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.framing import Verdict
from kafkalite.capture.plausible import Requests, Responses, first_request, is_tls
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
def test_a_first_request_is_told_from_other_beginnings(data: bytes, verdict: Verdict) -> None:
    assert first_request(data, MAXIMUM) is verdict


def test_every_clients_first_request_is_one() -> None:
    for key in codec.api_keys():
        version = codec.api_versions(key).highest
        frame = traffic.request_frame(key, version, 1, codec.request_class(key)())
        assert first_request(framed(frame), MAXIMUM) is Verdict.YES


def test_tls_is_known_by_its_records() -> None:
    assert is_tls(b"\x16\x03\x01\x02\x00\x01")
    assert is_tls(b"\x17\x03\x03\x00\x20")
    assert not is_tls(REQUEST)
    assert not is_tls(b"\x16\x03")


def test_a_request_is_found_amid_other_bytes() -> None:
    requests = Requests(MAXIMUM)
    buffer = bytearray(b"\0\0\0\x09\0\x08\0\x08" + REQUEST + REQUEST[:10])
    sure = [
        place
        for place in requests.places(buffer, 0)
        if requests.judge(buffer, place) is Verdict.YES
    ]
    assert sure == [8]


def test_a_request_that_is_not_whole_is_one_where_the_client_is_known() -> None:
    requests = Requests(MAXIMUM)
    part = bytearray(REQUEST[:-1])
    assert requests.judge(part, 0) is Verdict.UNKNOWN
    requests.clients = {b"tester"}
    assert requests.judge(part, 0) is Verdict.YES
    requests.clients = {b"other"}
    assert requests.judge(part, 0) is Verdict.UNKNOWN


def test_a_response_is_found_by_the_request_that_it_answers() -> None:
    asked = {5: (8, 8)}
    responses = Responses(asked, MAXIMUM)
    buffer = bytearray(b"\0\0\0\5" * 3 + RESPONSE)
    places = list(responses.places(buffer, 0))
    verdicts = {place: responses.judge(buffer, place) for place in places}
    assert [place for place, verdict in verdicts.items() if verdict is Verdict.YES] == [12]
    assert responses.judge(bytearray(RESPONSE[:-1]), 0) is Verdict.UNKNOWN
    asked.clear()
    assert list(responses.places(buffer, 0)) == []
    assert responses.judge(bytearray(RESPONSE), 0) is Verdict.NO


def test_no_frame_is_looked_for_where_its_length_cannot_be() -> None:
    assert list(Requests(MAXIMUM).places(bytearray(1000), 0)) == []
    assert list(Responses({0: (8, 8)}, MAXIMUM).places(bytearray(1000), 0)) == []
    huge = bytearray(b"\x7f" + RESPONSE[1:])
    assert list(Responses({5: (8, 8)}, MAXIMUM).places(huge, 0)) == []


@given(st.binary(max_size=300), st.binary(max_size=30))
def test_no_bytes_raise(data: bytes, client: bytes) -> None:
    requests = Requests(MAXIMUM)
    requests.clients = {client}
    responses = Responses({0: (18, 3), 1: (900, 1), -1: (1, 11)}, MAXIMUM)
    buffer = bytearray(data + REQUEST[:20] + data)
    for place in requests.places(buffer, 0):
        requests.judge(buffer, place)
    for place in responses.places(buffer, 0):
        responses.judge(buffer, place)
    first_request(data, MAXIMUM)
    is_tls(data)
