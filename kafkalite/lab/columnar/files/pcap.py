"""Scanner of classic pcap files: one header, then one record per packet.

Records have no magic number. After an invalid record, the next one is recognised by a timestamp
near the previous one, consistent sizes, and a valid record after it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.capture.formats.pcap import MAGICS
from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar.arrays import read_uint32_be, read_uint32_le
from kafkalite.lab.columnar.files.packet_index import Interface, Packets, ScannerState
from kafkalite.ports.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from kafkalite.lab.columnar.arrays import Bytes, Ints
    from kafkalite.lab.columnar.files.pcapng import Report

_HEADER_BYTES, _RECORD_BYTES = 24, 16
_MAX_PACKET_BYTES: Final = 16 << 20
_LINK_TYPE_MASK: Final = 0xFFFF


class RecordScanner:
    """Reads one pcap file, chunk by chunk."""

    def __init__(self, report: Report, magic: bytes) -> None:
        self.interfaces: list[Interface] = []
        self._report = report
        self._byte_order, self._unit_ns = MAGICS[magic]
        self._units_per_second = NANOSECONDS_PER_SECOND // self._unit_ns
        self._record = Struct(f"{self._byte_order}4I")
        self._high_seconds = b""
        self._last_ns = 0
        self._is_searching = False

    def state(self) -> ScannerState | None:
        """Return the state after the last chunk; None while no valid record was found."""
        if self._is_searching:
            return None
        known = tuple(self.interfaces)
        return ScannerState(
            interfaces=known, high_seconds=self._high_seconds, last_ns=self._last_ns
        )

    def resume(self, state: ScannerState) -> None:
        """Continue from a state."""
        self.interfaces.extend(state.interfaces)
        self._high_seconds = state.high_seconds

    def scan(self, data: Bytes, offset: int, *, is_last: bool) -> tuple[Packets, int]:
        """Return the packets of a chunk that begins with a record, and the number of used bytes."""
        position = 0
        if not self.interfaces:
            if len(data) < _HEADER_BYTES:
                if is_last:
                    self._report(
                        ProblemKind.TRUNCATED_BLOCK, offset, "the file ends within its header", 1
                    )
                return Packets(), len(data) if is_last else 0
            link = int.from_bytes(
                data[20:24].tobytes(), "little" if self._byte_order == "<" else "big"
            )
            self.interfaces.append(Interface(link_type=link & _LINK_TYPE_MASK))
            position = _HEADER_BYTES
        positions: list[int] = []
        buffer = data.data
        position = self._find_records(buffer, position, offset, positions, is_last=is_last)
        packets = self._packets(data, np.array(positions, np.int64))
        if len(packets):
            self._last_ns = int(packets.at_ns[-1])
        return packets, position

    def _find_records(
        self,
        buffer: bytes | memoryview,
        position: int,
        offset: int,
        positions: list[int],
        *,
        is_last: bool,
    ) -> int:
        unpack, size, last_second = self._record.unpack_from, len(buffer), -1
        append, units_per_second = positions.append, self._units_per_second
        while position + _RECORD_BYTES <= size:
            if self._is_searching:
                distance, self._is_searching = self._find_next_record(
                    bytes(buffer[position:]), is_last=is_last
                )
                position += distance
                if self._is_searching:
                    return size if is_last else position
                continue
            second, fraction, captured, _ = unpack(buffer, position)
            if captured > _MAX_PACKET_BYTES or fraction >= units_per_second:
                self._report(
                    ProblemKind.CORRUPT_BLOCK, offset + position, "invalid packet record", 1
                )
                self._is_searching = True
                self._store_high_seconds(last_second)
                position += 1
                continue
            if position + _RECORD_BYTES + captured > size:
                break
            append(position)
            last_second = second
            position += _RECORD_BYTES + captured
        self._store_high_seconds(last_second)
        if is_last and position < size:
            self._report(
                ProblemKind.TRUNCATED_BLOCK, offset + position, "the file ends within a packet", 1
            )
            return size
        return position

    def _store_high_seconds(self, second: int) -> None:
        """Store the two high bytes of a packet's seconds, which rarely change."""
        if second >= 0:
            packed = Struct(f"{self._byte_order}I").pack(second)
            self._high_seconds = packed[2:] if self._byte_order == "<" else packed[:2]

    def _find_next_record(self, buffer: bytes, *, is_last: bool) -> tuple[int, bool]:
        """Return the distance to the next probable record, and whether the search must continue."""
        position = 0
        while position + _RECORD_BYTES <= len(buffer):
            if self._high_seconds:
                shift = 2 if self._byte_order == "<" else 0
                distance = buffer.find(self._high_seconds, position + shift)
                if distance < 0:
                    return max(position, len(buffer) - _RECORD_BYTES + 1), True
                position = distance - shift
                if position + _RECORD_BYTES > len(buffer):
                    break
            is_record = self._is_record(buffer, position, is_last=is_last)
            if is_record is not False:
                return position, is_record is None
            position += 1
        return position, True

    def _is_record(self, buffer: bytes, position: int, *, is_last: bool) -> bool | None:
        """Whether two consecutive valid records begin here; None if more bytes are needed."""
        for number in range(2):
            if position + _RECORD_BYTES > len(buffer):
                return (number > 0 and position == len(buffer)) if is_last else None
            _, fraction, captured, length = self._record.unpack_from(buffer, position)
            if fraction >= self._units_per_second or not 0 < captured <= min(
                length, _MAX_PACKET_BYTES
            ):
                return False
            position += _RECORD_BYTES + captured
        return position <= len(buffer) if is_last or position <= len(buffer) else None

    def _packets(self, data: Bytes, positions: Ints) -> Packets:
        if not len(positions):
            return Packets()
        u32 = read_uint32_le if self._byte_order == "<" else read_uint32_be
        zeros = np.zeros(len(positions), np.int64)
        return Packets(
            block_start=positions,
            start=positions + _RECORD_BYTES,
            captured=u32(data, positions + 8),
            original=u32(data, positions + 12),
            at_ns=u32(data, positions) * NANOSECONDS_PER_SECOND
            + u32(data, positions + 4) * self._unit_ns,
            interface=zeros,
            options=zeros,
        )
