"""Cut records: short, and all that is said about them as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.snapping import Snap, shortened
from kafkalite.protocol import codec
from kafkalite.protocol.messages.fetch import FetchResponse
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.protocol.messages.share_fetch import ShareFetchResponse
from kafkalite.storage.batch import (
    HEAD_SIZE,
    ControlKind,
    ControlMarker,
    Producer,
    build_batch,
    build_control_batch,
    split_batches,
)
from kafkalite.storage.records import (
    MalformedRecordsError,
    NewRecord,
    decode_headers,
    encode_records,
    scan_records,
)
from tests.unit.frames import framed, request_frame, response_frame

if TYPE_CHECKING:
    from kafkalite.storage.records import Headers

PAYLOAD = b"payload-" * 30
SAID = (("name", b"header"),)
RECORDS = [
    NewRecord(PAYLOAD, PAYLOAD, 1_000, SAID),
    NewRecord(None, PAYLOAD, 1_005, SAID),
    NewRecord(b"k", None, 1_002, SAID),
    NewRecord(b"", b"ab", 1_002, SAID),
]
LIMIT = 5
SNAP = Snap(LIMIT)


def batch(codec_number: int = 0) -> bytes:
    return build_batch(
        RECORDS,
        base_offset=70,
        leader_epoch=3,
        attributes=codec_number | 0x10,
        producer=Producer(5, 6, 7),
    )


def cut(value: bytes | None, limit: int = LIMIT) -> bytes | None:
    return None if value is None else value[:limit]


def cut_headers(headers: Headers, limit: int = LIMIT) -> Headers:
    return tuple((name, cut(value, limit)) for name, value in headers)


@pytest.mark.parametrize("codec_number", range(5))
def test_keys_values_and_headers_are_cut_and_nothing_else(codec_number: int) -> None:
    whole = batch(codec_number)
    (before,), (after,) = split_batches(whole), split_batches(SNAP.records(whole))
    assert after.has_valid_crc()
    for name in before.__slots__:
        if name not in {"crc", "data", "length", "size"}:
            assert getattr(after, name) == getattr(before, name), name
    assert after.records() == [
        each._replace(key=cut(each.key), value=cut(each.value), headers=cut_headers(each.headers))
        for each in before.records()
    ]


PAYLOADS = st.none() | st.binary(max_size=200) | st.just(bytes(20_000))
MADE = st.builds(
    NewRecord,
    PAYLOADS,
    PAYLOADS,
    st.integers(0, 2**40),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=200)), max_size=2).map(
        tuple
    ),
)


@given(st.lists(MADE, max_size=5), st.integers(0, 300))
def test_records_of_any_shape_are_cut(records: list[NewRecord], limit: int) -> None:
    wanted = [
        each._replace(
            key=cut(each.key, limit),
            value=cut(each.value, limit),
            headers=cut_headers(each.headers, limit),
        )
        for each in records
    ]
    snapped = shortened(encode_records(records, 0), len(records), limit)
    assert snapped == encode_records(wanted, 0)


@given(st.binary(max_size=40), st.integers(0, 3), st.integers(0, 3))
def test_what_is_no_record_is_told_as_readers_tell_it(data: bytes, count: int, limit: int) -> None:
    try:
        found = list(scan_records(data, count))
        for each in found:
            decode_headers(data, each.headers, each.end)
    except MalformedRecordsError:
        with pytest.raises(MalformedRecordsError):
            shortened(data, count, limit)
        return
    snapped = list(scan_records(shortened(data, count, limit), count))
    assert [each.timestamp_delta for each in snapped] == [each.timestamp_delta for each in found]
    assert [len(each.value or b"") for each in snapped] == [
        min(len(each.value or b""), limit) for each in found
    ]


def test_nothing_hides_in_a_varint_that_does_not_end() -> None:
    hidden = b"\x00" + b"\xff" * 30 + b"\x01\x00\x01\x01\x00"
    with pytest.raises(MalformedRecordsError):
        shortened(bytes([2 * len(hidden)]) + hidden, 1, 0)


def test_nothing_hides_behind_the_headers() -> None:
    whole = encode_records([NewRecord(b"k", b"v", 0)], 0)
    hidden = bytes([whole[0] + 2 * len(PAYLOAD[:20])]) + whole[1:] + PAYLOAD[:20]
    with pytest.raises(MalformedRecordsError):
        shortened(hidden, 1, 0)


def test_a_batch_that_is_short_enough_stays_as_it_is() -> None:
    assert Snap(1000).records(batch(1)) == batch(1)


def test_control_batches_are_no_payload() -> None:
    marker = build_control_batch(
        ControlMarker(ControlKind.COMMIT, 9), producer_id=5, producer_epoch=6, now_ms=7
    )
    both = SNAP.records(batch() + marker)
    assert both.endswith(marker)
    assert PAYLOAD not in both


def test_a_checksum_that_was_wrong_is_wrong() -> None:
    whole = bytearray(batch())
    whole[-1] ^= 1
    (after,) = split_batches(SNAP.records(bytes(whole)))
    assert not after.has_valid_crc()
    assert after.record_count == len(RECORDS)


def test_what_is_left_of_a_last_batch_is_its_head() -> None:
    whole = batch()
    assert SNAP.records(whole + whole[:-5]) == SNAP.records(whole) + whole[:HEAD_SIZE]
    assert SNAP.records(whole[:7]) == b""


def test_what_cannot_be_opened_is_left_out() -> None:
    damaged = bytearray(batch(4))
    damaged[HEAD_SIZE : HEAD_SIZE + 8] = b"payload!"
    assert SNAP.records(bytes(damaged)) == b""
    old = bytearray(batch())
    old[16] = 1
    assert SNAP.records(bytes(old)) == b""
    more = bytearray(batch())
    more[57:61] = (2**31 - 1).to_bytes(4)
    assert SNAP.records(bytes(more)) == b""


def produce(records: bytes | None) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name="t",
                partition_data=[ProduceRequest.PartitionProduceData(index=1, records=records)],
            )
        ],
    )


def versions(api_key: int, lowest: int = 0) -> list[int]:
    known = codec.api_versions(api_key, unstable=True)
    return list(range(max(lowest, known.lowest), known.highest + 1))


def answer(kind: Any, records: bytes) -> Any:  # noqa: ANN401
    part = kind.PartitionData(partition_index=1, records=records)
    topic = getattr(kind, "FetchableTopicResponse", None) or kind.ShareFetchableTopicResponse
    return kind(responses=[topic(partitions=[part])])


@pytest.mark.parametrize("version", versions(0, 3))
def test_a_produce_request_stays_a_request(version: int) -> None:
    frame = request_frame(produce(batch()), version)
    treatment = SNAP.of_request(0)
    assert callable(treatment)
    data, note = treatment(frame)
    assert data == request_frame(produce(SNAP.records(batch())), version)
    assert note is not None
    assert note.snapped == len(frame)


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        *((FetchResponse, version) for version in versions(1, 4)),
        *((ShareFetchResponse, version) for version in versions(78)),
    ],
)
def test_so_do_responses_that_carry_records(kind: Any, version: int) -> None:  # noqa: ANN401
    frame = response_frame(answer(kind, batch()), version)
    treatment = SNAP.of_response(kind.API_KEY, version)
    assert callable(treatment)
    data, note = treatment(frame)
    assert data == response_frame(answer(kind, SNAP.records(batch())), version)
    assert note is not None
    assert note.snapped == len(frame)


def test_a_frame_without_long_records_is_kept() -> None:
    treatment = SNAP.of_request(0)
    assert callable(treatment)
    for records in (None, b"", build_batch([NewRecord(b"k", b"v", 1)])):
        frame = request_frame(produce(records), 9)
        assert treatment(frame) == (frame, None)


def test_a_malformed_frame_keeps_its_header_alone() -> None:
    whole = request_frame(produce(batch()), 9)
    of_request, of_response = SNAP.of_request(0), SNAP.of_response(1, 12)
    assert callable(of_request)
    assert callable(of_response)
    data, _ = of_request(framed(whole[4:-1]))
    assert len(data) == len(whole) - 1
    assert b"payl" not in data
    fetched = response_frame(answer(FetchResponse, batch()), 12)
    data, _ = of_response(framed(fetched[4:-1]))
    assert data[:8] == framed(fetched[4:-1])[:8]
    assert b"payl" not in data
