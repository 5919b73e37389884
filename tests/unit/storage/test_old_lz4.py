"""The header of an LZ4 frame has the checksum of message format 0, or the standard one."""

from __future__ import annotations

import pytest

from kafkalite.storage.compression import CODEC_NUMBERS, compress
from kafkalite.storage.old_lz4 import to_old_lz4, to_standard_lz4

FRAME = compress(CODEC_NUMBERS["lz4"], b"some content")
HEADER_CHECKSUM = 6


def test_the_checksum_is_that_of_the_broken_frames_of_kafka() -> None:
    """Kafka's KafkaLZ4 wrote 1a for blocks of at most 64 KiB."""
    old = to_old_lz4(FRAME)
    assert (FRAME[HEADER_CHECKSUM], old[HEADER_CHECKSUM]) == (0x82, 0x1A)
    assert to_standard_lz4(old) == FRAME == to_standard_lz4(FRAME)


def test_a_header_with_the_size_of_the_content_is_longer() -> None:
    # From lz4.frame.compress(b"hello", store_size=True) of the package lz4.
    frame = bytes.fromhex("04224d1868400500000000000000610500008068656c6c6f00000000")
    old = to_old_lz4(frame)
    assert old != frame
    assert to_standard_lz4(old) == frame


@pytest.mark.parametrize("size", range(7))
def test_a_truncated_header_is_unchanged(size: int) -> None:
    assert to_old_lz4(FRAME[:size]) == FRAME[:size]
