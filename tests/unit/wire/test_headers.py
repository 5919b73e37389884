"""Headers: their versions, and unknown tagged fields."""

from __future__ import annotations

import pytest

from kafkalite.protocol.codec_helpers import encode_varint
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.wire.headers import response_header_packer, skip_tagged_fields, unpack_header


def test_a_flexible_api_has_tagged_fields_in_the_response_header() -> None:
    head = response_header_packer(12, is_flexible=True)
    assert head(6, 7) == b"\0\0\0\x0b" + b"\0\0\0\x07" + b"\0"


def test_the_response_header_of_an_inflexible_api_has_no_tagged_fields() -> None:
    head = response_header_packer(12, is_flexible=False)
    assert head(6, 7) == b"\0\0\0\x0a" + b"\0\0\0\x07"


def test_the_response_header_of_api_versions_never_has_tagged_fields() -> None:
    """KIP-511: its client does not know the versions of the broker yet."""
    assert response_header_packer(18, is_flexible=True)(6, 7) == b"\0\0\0\x0a" + b"\0\0\0\x07"


def test_key_and_version_are_one_number() -> None:
    packed = b"\x00\x12\x00\x03" + b"\x00\x00\x00\x09" + b"\xff\xff"
    assert unpack_header(packed, 0) == (18 << 16 | 3, 9, -1)


def test_tagged_fields_are_skipped() -> None:
    fields = bytearray(b"\x02" + b"\x05\x02ab" + b"\x80\x01\x00" + b"body")
    assert skip_tagged_fields(fields, 0, len(fields)) == len(fields) - len(b"body")


@pytest.mark.parametrize(
    "broken",
    [b"\x01\x05\x09ab", b"\x01", b"\x80", b"\x01\x05", b"\xff\xff\xff\xff\xff\xff\x01"],
)
def test_malformed_tagged_fields_are_a_violation(broken: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        skip_tagged_fields(bytearray(broken), 0, len(broken))


def test_as_many_tagged_fields_as_kafka_reads_are_skipped() -> None:
    fields = bytearray(encode_varint(10_000) + bytes(2 * 10_000))
    assert skip_tagged_fields(fields, 0, len(fields)) == len(fields)


def test_more_tagged_fields_than_kafka_reads_are_a_violation() -> None:
    fields = bytearray(encode_varint(10_001) + bytes(2 * 10_001))
    with pytest.raises(ProtocolViolation, match="10001 tagged fields"):
        skip_tagged_fields(fields, 0, len(fields))
