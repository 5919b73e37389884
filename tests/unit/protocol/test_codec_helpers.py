"""Helpers of generated codecs, for long, rare and invalid values."""

import pytest

from kafkalite.protocol import codec_helpers
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatResponse
from kafkalite.protocol.codec_helpers import (
    MAX_STRING_BYTES,
    SHORT,
    VARINTS,
    add_unknown_tags,
    encode_string_length,
    encode_tag_section,
    encode_unknown_tags,
    encode_varint,
    pack_numbers,
    read_numbers,
    read_unknown_tags,
    read_uuids,
    rest_of_string_length,
    rest_of_varint,
    row_packer,
)
from kafkalite.protocol.errors import ProtocolViolation


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16383, 16384, 0x7FFFFFFF, 0xFFFFFFFF])
def test_varint_is_read_back(value: int) -> None:
    frame = encode_varint(value)
    if value < SHORT:
        assert VARINTS[value] == frame
    if len(frame) > 1:
        assert rest_of_varint(frame, 1, frame[0]) == (value, len(frame))


def test_overlong_varint_is_accepted() -> None:
    assert rest_of_varint(b"\x80\x00", 1, 0x80) == (0, 2)


@pytest.mark.parametrize("frame", [b"\xff\xff\xff\xff\x10", b"\xff\xff\xff\xff\xff\x00"])
def test_a_varint_of_more_than_32_bits_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        rest_of_varint(frame, 1, frame[0])


def test_truncated_varint_is_refused() -> None:
    with pytest.raises(IndexError):
        rest_of_varint(b"\x80", 1, 0x80)


def test_string_longer_than_the_limit_is_refused() -> None:
    longest = encode_varint(MAX_STRING_BYTES + 1)
    assert encode_string_length(MAX_STRING_BYTES + 1) == longest
    assert rest_of_string_length(longest, 1, longest[0]) == (MAX_STRING_BYTES + 1, len(longest))
    too_long = encode_varint(MAX_STRING_BYTES + 2)
    with pytest.raises(ProtocolViolation):
        encode_string_length(MAX_STRING_BYTES + 2)
    with pytest.raises(ProtocolViolation):
        rest_of_string_length(too_long, 1, too_long[0])


def test_tags_are_joined_in_order() -> None:
    assert encode_tag_section([(1, b"a")], None) == b"\x01\x01\x01a"
    long = encode_tag_section([(10_000, b"a" * 2_000)], {})
    assert long == b"\x01\x90\x4e\xd0\x0f" + b"a" * 2_000
    assert (
        encode_tag_section([(2, b"b")], {1: b"a", 128: b""})
        == b"\x03\x01\x01a\x02\x01b\x80\x01\x00"
    )
    assert encode_unknown_tags(HeartbeatResponse()) == b"\x00"


def test_unknown_tags_are_inserted_between_known_ones() -> None:
    known = b"\x00\x01a\x03\x02bb" + encode_varint(10_000) + b"\x01d"
    assert add_unknown_tags(known, {2: b"ccc", 128: b""}) == encode_tag_section(
        [(0, b"a"), (3, b"bb"), (10_000, b"d")], {2: b"ccc", 128: b""}
    )


def test_unknown_tags_are_preserved() -> None:
    message = HeartbeatResponse()
    frame = b"\x02\x80\x01\x01a\x05\x00rest"
    assert read_unknown_tags(frame, 1, len(frame), frame[0], message) == 7
    assert message.unknown_tags == {128: b"a", 5: b""}


def test_count_of_tags_may_have_two_bytes() -> None:
    message = HeartbeatResponse()
    frame = encode_varint(128) + b"".join(bytes((tag, 0)) for tag in range(127)) + b"\x7f\x00"
    assert read_unknown_tags(frame, 1, len(frame), frame[0], message) == len(frame)


def test_more_tags_than_kafka_reads_are_refused() -> None:
    frame = encode_varint(10_001) + bytes(2 * 10_001)
    with pytest.raises(ProtocolViolation, match="10001 tagged fields"):
        read_unknown_tags(frame, 1, len(frame), frame[0], HeartbeatResponse())


def test_a_tag_that_runs_past_the_end_is_refused() -> None:
    with pytest.raises(ProtocolViolation):
        read_unknown_tags(b"\x01\x05\x03abc", 1, 5, 1, HeartbeatResponse())


@pytest.mark.parametrize("count", [0, 1, 16, 17, 300])
@pytest.mark.parametrize("code", ["b", "h", "i", "q"])
def test_arrays_of_numbers_are_read(code: str, count: int) -> None:
    values = list(range(count))[:100]
    frame = b"." + pack_numbers(code, values)
    assert read_numbers(code, frame, 1, len(values)) == values


def test_uuids_are_bytes_for_any_buffer() -> None:
    found = read_uuids(bytearray(range(33)), 1, 2)
    assert found == [bytes(range(1, 17)), bytes(range(17, 33))]
    assert all(type(uuid) is bytes for uuid in found)


def test_a_row_is_packed_with_its_numbers() -> None:
    assert row_packer("hB%diB", 2)(1, 3, 7, 8, 0) == b"\0\1\3\0\0\0\7\0\0\0\x08\0"


@pytest.mark.parametrize("refuse", ["refuse_null", "refuse_length", "refuse_truncation"])
def test_refusals_have_a_reason(refuse: str) -> None:
    with pytest.raises(ProtocolViolation) as refusal:
        getattr(codec_helpers, refuse)()
    assert refusal.value.reason


def test_a_refused_tag_is_named() -> None:
    with pytest.raises(ProtocolViolation, match="tag 5"):
        codec_helpers.refuse_tag_size(5)
