"""Record batches built by hand, valid or deliberately invalid; no code of the emulator is used."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from crc32c import crc32c

_BEFORE_CRC = struct.Struct(">qiib")
_CHECKSUMMED = struct.Struct(">hiqqqhii")
_LENGTH_END = 12

BASE_TIMESTAMP = 1_700_000_000_000

LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch to be encoded; the defaults give a batch of one record without special fields."""

    values: tuple[bytes | None, ...] = (b"value",)
    key: bytes | None = b"key"
    timestamp: int = BASE_TIMESTAMP
    timestamp_step: int = 1
    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    base_offset: int = 0
    magic: int = 2
    crc_error: int = 0

    def encode(self) -> bytes:
        """Encode the batch as a client would; `crc_error` is added to the correct checksum."""
        count = len(self.values)
        records = b"".join(self._record(index, value) for index, value in enumerate(self.values))
        largest = self.timestamp + self.timestamp_step * (count - 1)
        checksummed = (
            _CHECKSUMMED.pack(
                self.attributes,
                count - 1,
                self.timestamp,
                largest,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                count,
            )
            + records
        )
        checksum = (crc32c(checksummed) + self.crc_error) % 2**32
        length = _BEFORE_CRC.size - _LENGTH_END + 4 + len(checksummed)
        header = _BEFORE_CRC.pack(self.base_offset, length, -1, self.magic)
        return header + struct.pack(">I", checksum) + checksummed

    def _record(self, index: int, value: bytes | None) -> bytes:
        body = (
            b"\0"
            + _varint(index * self.timestamp_step)
            + _varint(index)
            + _nullable(self.key)
            + _nullable(value)
            + _varint(0)
        )
        return _varint(len(body)) + body


def batch(*values: bytes | None) -> bytes:
    """Encode a batch of these values."""
    return Batch(values=values or (b"value",)).encode()


def _nullable(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    remaining = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while remaining > 0x7F:
        out.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    out.append(remaining)
    return bytes(out)
