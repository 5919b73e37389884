"""CRC-32C, with any implementation."""

from __future__ import annotations

import crc32c as package

from kafkalite.storage.crc import crc32c


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789", 0) == 0xE3069283
    assert crc32c(b"", 0) == 0


def test_checksum_continues_from_a_value_and_accepts_any_buffer() -> None:
    checksum = crc32c(b"123456789", 0)
    assert crc32c(memoryview(bytearray(b"6789")), crc32c(b"12345", 0)) == checksum
    assert checksum == package.crc32c(b"123456789")
