"""Unit tests of truncating records without changing their batches otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.recording.record_truncation import RecordTruncation, truncate_records
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.fetch import FetchResponse
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchResponse
from kafkalite.storage.batch import (
    HEADER_SIZE,
    BatchProducer,
    ControlKind,
    ControlMarker,
    build_batch,
    build_control_batch,
    split_batches,
)
from kafkalite.storage.record_format import (
    MalformedRecordsError,
    NewRecord,
    decode_headers,
    encode_records,
    scan_records,
)
from tests.unit.frames import framed, request_frame, response_frame

if TYPE_CHECKING:
    from kafkalite.storage.record_format import Headers

PAYLOAD = b"payload-" * 30
HEADERS = (("name", b"header"),)
RECORDS = [
    NewRecord(PAYLOAD, PAYLOAD, 1_000, HEADERS),
    NewRecord(None, PAYLOAD, 1_005, HEADERS),
    NewRecord(b"k", None, 1_002, HEADERS),
    NewRecord(b"", b"ab", 1_002, HEADERS),
]
LIMIT = 5
TRUNCATION = RecordTruncation(LIMIT)


def batch(codec_number: int = 0) -> bytes:
    return build_batch(
        RECORDS,
        base_offset=70,
        leader_epoch=3,
        attributes=codec_number | 0x10,
        producer=BatchProducer(5, 6, 7),
    )


def cut(value: bytes | None, limit: int = LIMIT) -> bytes | None:
    return None if value is None else value[:limit]


def cut_headers(headers: Headers, limit: int = LIMIT) -> Headers:
    return tuple((name, cut(value, limit)) for name, value in headers)


@pytest.mark.parametrize("codec_number", range(5))
def test_only_keys_values_and_header_values_are_truncated(codec_number: int) -> None:
    whole = batch(codec_number)
    (before,), (after,) = split_batches(whole), split_batches(TRUNCATION.truncate_batches(whole))
    assert after.has_valid_crc()
    for name in before.__slots__:
        if name not in {"crc", "data", "length", "size"}:
            assert getattr(after, name) == getattr(before, name), name
    assert after.records() == [
        each._replace(key=cut(each.key), value=cut(each.value), headers=cut_headers(each.headers))
        for each in before.records()
    ]


PAYLOADS = st.none() | st.binary(max_size=200) | st.just(bytes(20_000))
NEW_RECORDS = st.builds(
    NewRecord,
    PAYLOADS,
    PAYLOADS,
    st.integers(0, 2**40),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=200)), max_size=2).map(
        tuple
    ),
)


@given(st.lists(NEW_RECORDS, max_size=5), st.integers(0, 300))
def test_records_of_any_shape_are_truncated(records: list[NewRecord], limit: int) -> None:
    expected = [
        each._replace(
            key=cut(each.key, limit),
            value=cut(each.value, limit),
            headers=cut_headers(each.headers, limit),
        )
        for each in records
    ]
    truncated = truncate_records(encode_records(records, 0), len(records), limit)
    assert truncated == encode_records(expected, 0)


@given(st.binary(max_size=40), st.integers(0, 3), st.integers(0, 3))
def test_malformed_records_raise_as_in_storage(data: bytes, count: int, limit: int) -> None:
    try:
        found = list(scan_records(data, count))
        for each in found:
            decode_headers(data, each.headers_position, each.end_position)
    except MalformedRecordsError:
        with pytest.raises(MalformedRecordsError):
            truncate_records(data, count, limit)
        return
    truncated = list(scan_records(truncate_records(data, count, limit), count))
    assert [each.timestamp_delta for each in truncated] == [each.timestamp_delta for each in found]
    assert [len(each.value or b"") for each in truncated] == [
        min(len(each.value or b""), limit) for each in found
    ]


def test_endless_varint_hides_no_payload() -> None:
    hidden = b"\x00" + b"\xff" * 30 + b"\x01\x00\x01\x01\x00"
    with pytest.raises(MalformedRecordsError):
        truncate_records(bytes([2 * len(hidden)]) + hidden, 1, 0)


def test_bytes_after_the_headers_are_malformed() -> None:
    whole = encode_records([NewRecord(b"k", b"v", 0)], 0)
    hidden = bytes([whole[0] + 2 * len(PAYLOAD[:20])]) + whole[1:] + PAYLOAD[:20]
    with pytest.raises(MalformedRecordsError):
        truncate_records(hidden, 1, 0)


def test_short_batch_is_unchanged() -> None:
    assert RecordTruncation(1000).truncate_batches(batch(1)) == batch(1)


def test_control_batches_are_unchanged() -> None:
    marker = build_control_batch(
        ControlMarker(ControlKind.COMMIT, 9), producer_id=5, producer_epoch=6, now_ms=7
    )
    both = TRUNCATION.truncate_batches(batch() + marker)
    assert both.endswith(marker)
    assert PAYLOAD not in both


def test_invalid_checksum_stays_invalid() -> None:
    whole = bytearray(batch())
    whole[-1] ^= 1
    (after,) = split_batches(TRUNCATION.truncate_batches(bytes(whole)))
    assert not after.has_valid_crc()
    assert after.record_count == len(RECORDS)


def test_incomplete_last_batch_is_reduced_to_its_header() -> None:
    whole = batch()
    assert (
        TRUNCATION.truncate_batches(whole + whole[:-5])
        == TRUNCATION.truncate_batches(whole) + whole[:HEADER_SIZE]
    )
    assert TRUNCATION.truncate_batches(whole[:7]) == b""


def test_undecodable_batches_are_dropped() -> None:
    damaged = bytearray(batch(4))
    damaged[HEADER_SIZE : HEADER_SIZE + 8] = b"payload!"
    assert TRUNCATION.truncate_batches(bytes(damaged)) == b""
    old = bytearray(batch())
    old[16] = 1
    assert TRUNCATION.truncate_batches(bytes(old)) == b""
    more = bytearray(batch())
    more[57:61] = (2**31 - 1).to_bytes(4)
    assert TRUNCATION.truncate_batches(bytes(more)) == b""


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


def fetch_response(kind: Any, records: bytes) -> Any:  # noqa: ANN401
    part = kind.PartitionData(partition_index=1, records=records)
    topic = getattr(kind, "FetchableTopicResponse", None) or kind.ShareFetchableTopicResponse
    return kind(responses=[topic(partitions=[part])])


@pytest.mark.parametrize("version", versions(0, 3))
def test_truncated_produce_request_is_valid(version: int) -> None:
    frame = request_frame(produce(batch()), version)
    treatment = TRUNCATION.request_treatment(0)
    assert callable(treatment)
    data, note = treatment(frame)
    assert data == request_frame(produce(TRUNCATION.truncate_batches(batch())), version)
    assert note is not None
    assert note.snapped == len(frame)


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        *((FetchResponse, version) for version in versions(1, 4)),
        *((ShareFetchResponse, version) for version in versions(78)),
    ],
)
def test_truncated_fetch_response_is_valid(kind: Any, version: int) -> None:  # noqa: ANN401
    frame = response_frame(fetch_response(kind, batch()), version)
    treatment = TRUNCATION.response_treatment(kind.API_KEY, version)
    assert callable(treatment)
    data, note = treatment(frame)
    assert data == response_frame(
        fetch_response(kind, TRUNCATION.truncate_batches(batch())), version
    )
    assert note is not None
    assert note.snapped == len(frame)


def test_frame_without_long_records_is_unchanged() -> None:
    treatment = TRUNCATION.request_treatment(0)
    assert callable(treatment)
    for records in (None, b"", build_batch([NewRecord(b"k", b"v", 1)])):
        frame = request_frame(produce(records), 9)
        assert treatment(frame) == (frame, None)


def test_malformed_frame_is_reduced_to_its_header() -> None:
    whole = request_frame(produce(batch()), 9)
    request_treatment, response_treatment = (
        TRUNCATION.request_treatment(0),
        TRUNCATION.response_treatment(1, 12),
    )
    assert callable(request_treatment)
    assert callable(response_treatment)
    data, _ = request_treatment(framed(whole[4:-1]))
    assert len(data) == len(whole) - 1
    assert b"payl" not in data
    fetched = response_frame(fetch_response(FetchResponse, batch()), 12)
    data, _ = response_treatment(framed(fetched[4:-1]))
    assert data[:8] == framed(fetched[4:-1])[:8]
    assert b"payl" not in data
