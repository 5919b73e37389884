"""Constructs of Kafka's types; property tests compare them with generated code."""

from typing import Any

import pytest
from construct import Construct, Int32sb, StreamError

from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.primitives import (
    FIRST_PRIVATE_TAG,
    VARINT,
    KafkaArray,
    KafkaBytes,
    KafkaString,
    KafkaStruct,
    MessageClass,
    StructShape,
    Tagged,
)

COMPACT = KafkaString(compact=True, nullable=True)
PLAIN = KafkaString(compact=False, nullable=True)


@pytest.mark.parametrize(
    ("subcon", "value", "frame"),
    [
        (VARINT, 0, b"\x00"),
        (VARINT, 127, b"\x7f"),
        (VARINT, 128, b"\x80\x01"),
        (VARINT, 0xFFFFFFFF, b"\xff\xff\xff\xff\x0f"),
        (COMPACT, "", b"\x01"),
        (COMPACT, None, b"\x00"),
        (COMPACT, "é", b"\x03\xc3\xa9"),
        (PLAIN, "ab", b"\x00\x02ab"),
        (PLAIN, None, b"\xff\xff"),
        (KafkaBytes(compact=False, nullable=False), b"ab", b"\x00\x00\x00\x02ab"),
        (KafkaArray(Int32sb, compact=True, nullable=False), [1], b"\x02\x00\x00\x00\x01"),
        (KafkaArray(Int32sb, compact=False, nullable=True), None, b"\xff\xff\xff\xff"),
    ],
)
def test_values_are_encoded_to_their_bytes_and_back(
    subcon: Construct,
    value: Any,  # noqa: ANN401 - values of any type
    frame: bytes,
) -> None:
    assert subcon.build(value) == frame
    assert subcon.parse(frame) == value


@pytest.mark.parametrize(
    ("subcon", "frame"),
    [
        (VARINT, b"\xff\xff\xff\xff\x10"),
        (VARINT, b"\xff\xff\xff\xff\xff\x00"),
        (PLAIN, b"\xff\xfe"),
        (KafkaString(compact=False, nullable=False), b"\xff\xff"),
        (KafkaString(compact=True, nullable=False), b"\x00"),
        (COMPACT, b"\x81\x80\x02" + b"x" * 0x8000),
        (KafkaArray(Int32sb, compact=False, nullable=False), b"\x7f\xff\xff\xff"),
        (KafkaArray(Int32sb, compact=True, nullable=True), b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_invalid_bytes_are_refused(subcon: Construct, frame: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        subcon.parse(frame)


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        COMPACT.parse(b"\x02\xff")


def test_truncated_value_is_refused() -> None:
    with pytest.raises(StreamError):
        PLAIN.parse(b"\x00\x02a")


def test_too_long_string_is_not_written() -> None:
    assert len(COMPACT.build("x" * 0x7FFF)) == 3 + 0x7FFF
    with pytest.raises(ProtocolViolation):
        COMPACT.build("x" * 0x8000)


def struct_with_a_tag(tag: int = 3) -> KafkaStruct:
    message = MessageClass("kafkalite.protocol._generated.messages.heartbeat", "HeartbeatResponse")
    shape = StructShape(message=message, flexible=True)
    shape.fields.append("error_code" / Int32sb)
    shape.tagged[tag] = Tagged("throttle_time_ms", Int32sb, 0)
    return KafkaStruct(shape)


def test_tagged_field_with_its_default_is_not_written() -> None:
    tree = struct_with_a_tag()
    message = tree.parse(b"\x00\x00\x00\x07\x00")
    assert message.throttle_time_ms == 0
    assert tree.build(message) == b"\x00\x00\x00\x07\x00"


def test_tags_are_written_in_order_with_unknown_ones() -> None:
    tree = struct_with_a_tag()
    frame = b"\x00\x00\x00\x07\x03\x01\x01a\x03\x04\x00\x00\x00\x09\x05\x00"
    message = tree.parse(frame)
    assert (message.throttle_time_ms, message.unknown_tags) == (9, {1: b"a", 5: b""})
    assert tree.build(message) == frame


@pytest.mark.parametrize("tags", [b"\x01\x03\x05\x00\x00\x00\x09\x00", b"\x01\x03\x7f", b"\x01"])
def test_tag_with_a_wrong_size_is_refused(tags: bytes) -> None:
    with pytest.raises((ProtocolViolation, StreamError)):
        struct_with_a_tag().parse(b"\x00\x00\x00\x07" + tags)


@pytest.mark.parametrize("value", [b"", b"abc", b"abcde"])
def test_private_tag_of_another_size_is_unknown(value: bytes) -> None:
    tree = struct_with_a_tag(FIRST_PRIVATE_TAG)
    frame = b"\x00\x00\x00\x07\x01\x90\x4e" + bytes([len(value)]) + value
    message = tree.parse(frame)
    assert (message.throttle_time_ms, message.unknown_tags) == (0, {FIRST_PRIVATE_TAG: value})
    assert tree.build(message) == frame
    own = tree.parse(b"\x00\x00\x00\x07\x01\x90\x4e\x04\x00\x00\x00\x09")
    assert (own.throttle_time_ms, own.unknown_tags) == (9, None)
