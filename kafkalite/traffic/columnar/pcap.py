"""Scanner of classic pcap files: one header, then one record per packet.

Records have no magic number. After an invalid record, the next one is recognised by a timestamp
near the previous one, consistent sizes, and a valid record after it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.traffic.columnar.arrays import u32be, u32le
from kafkalite.traffic.columnar.packet_index import NS_PER_S, Interface, Packets, ScannerState
from kafkalite.traffic.formats.pcap import MAGICS
from kafkalite.traffic.model import ProblemKind

if TYPE_CHECKING:
    from kafkalite.traffic.columnar.arrays import Bytes, Ints
    from kafkalite.traffic.columnar.pcapng import Report

_HEADER, _RECORD = 24, 16
_MAX_PACKET: Final = 16 << 20
_LINK_BITS: Final = 0xFFFF


class RecordScanner:
    """Reads one pcap file, chunk by chunk."""

    def __init__(self, report: Report, magic: bytes) -> None:
        self.interfaces: list[Interface] = []
        self._report = report
        self._order, self._unit_ns = MAGICS[magic]
        self._per_second = NS_PER_S // self._unit_ns
        self._record = Struct(f"{self._order}4I")
        self._near = b""
        self._last_ns = 0
        self._is_searching = False

    def state(self) -> ScannerState | None:
        """Return the state after the last chunk; None while no valid record was found."""
        if self._is_searching:
            return None
        known = tuple(self.interfaces)
        return ScannerState(interfaces=known, near=self._near, last_ns=self._last_ns)

    def resume(self, state: ScannerState) -> None:
        """Continue from a state."""
        self.interfaces.extend(state.interfaces)
        self._near = state.near

    def scan(self, data: Bytes, offset: int, *, is_last: bool) -> tuple[Packets, int]:
        """Return the packets of a chunk that begins with a record, and the number of used bytes."""
        at = 0
        if not self.interfaces:
            if len(data) < _HEADER:
                if is_last:
                    self._report(
                        ProblemKind.TRUNCATED_BLOCK, offset, "the file ends within its header", 1
                    )
                return Packets(), len(data) if is_last else 0
            link = int.from_bytes(data[20:24].tobytes(), "little" if self._order == "<" else "big")
            self.interfaces.append(Interface(link_type=link & _LINK_BITS))
            at = _HEADER
        found: list[int] = []
        buffer = data.data
        at = self._walk(buffer, at, offset, found, is_last=is_last)
        packets = self._packets(data, np.array(found, np.int64))
        if len(packets):
            self._last_ns = int(packets.at_ns[-1])
        return packets, at

    def _walk(
        self, buffer: bytes | memoryview, at: int, offset: int, found: list[int], *, is_last: bool
    ) -> int:
        unpack, size, last_second = self._record.unpack_from, len(buffer), -1
        append, per_second = found.append, self._per_second
        while at + _RECORD <= size:
            if self._is_searching:
                distance, self._is_searching = self._resume(bytes(buffer[at:]), is_last=is_last)
                at += distance
                if self._is_searching:
                    return size if is_last else at
                continue
            second, parts, captured, _ = unpack(buffer, at)
            if captured > _MAX_PACKET or parts >= per_second:
                self._report(ProblemKind.CORRUPT_BLOCK, offset + at, "invalid packet record", 1)
                self._is_searching = True
                self._note(last_second)
                at += 1
                continue
            if at + _RECORD + captured > size:
                break
            append(at)
            last_second = second
            at += _RECORD + captured
        self._note(last_second)
        if is_last and at < size:
            self._report(
                ProblemKind.TRUNCATED_BLOCK, offset + at, "the file ends within a packet", 1
            )
            return size
        return at

    def _note(self, second: int) -> None:
        """Store the 2 bytes of the seconds that rarely change."""
        if second >= 0:
            packed = Struct(f"{self._order}I").pack(second)
            self._near = packed[2:] if self._order == "<" else packed[:2]

    def _resume(self, buffer: bytes, *, is_last: bool) -> tuple[int, bool]:
        """Return the distance to the next probable record, and whether the search must continue."""
        at = 0
        while at + _RECORD <= len(buffer):
            if self._near:
                shift = 2 if self._order == "<" else 0
                distance = buffer.find(self._near, at + shift)
                if distance < 0:
                    return max(at, len(buffer) - _RECORD + 1), True
                at = distance - shift
                if at + _RECORD > len(buffer):
                    break
            likely = self._is_record(buffer, at, is_last=is_last)
            if likely is not False:
                return at, likely is None
            at += 1
        return at, True

    def _is_record(self, buffer: bytes, at: int, *, is_last: bool) -> bool | None:
        """Whether two valid records in a row begin here; None if more bytes are needed."""
        for nth in range(2):
            if at + _RECORD > len(buffer):
                return (nth > 0 and at == len(buffer)) if is_last else None
            _, parts, captured, length = self._record.unpack_from(buffer, at)
            if parts >= self._per_second or not 0 < captured <= min(length, _MAX_PACKET):
                return False
            at += _RECORD + captured
        return at <= len(buffer) if is_last or at <= len(buffer) else None

    def _packets(self, data: Bytes, at: Ints) -> Packets:
        if not len(at):
            return Packets()
        u32 = u32le if self._order == "<" else u32be
        zeros = np.zeros(len(at), np.int64)
        return Packets(
            at=at,
            start=at + _RECORD,
            captured=u32(data, at + 8),
            original=u32(data, at + 12),
            at_ns=u32(data, at) * NS_PER_S + u32(data, at + 4) * self._unit_ns,
            interface=zeros,
            options=zeros,
        )
