"""Classic pcap: one header, then one record a packet, walked record by record.

A record has no end mark and no type. After one that makes no sense the next is where a time near
the last one's stands, with sizes that agree, and another such record behind it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.capture.classic import MAGICS
from kafkalite.capture.model import ProblemKind
from kafkalite.columnar.arrays import u32be, u32le
from kafkalite.columnar.captured import NS_PER_S, Interface, Packets, Rest

if TYPE_CHECKING:
    from kafkalite.columnar.arrays import Bytes, Ints
    from kafkalite.columnar.blocks import Tell

_HEADER, _RECORD = 24, 16
_MAX_PACKET: Final = 16 << 20
_LINK_BITS: Final = 0xFFFF


class RecordScanner:
    """Reads one pcap file, chunk by chunk."""

    def __init__(self, tell: Tell, magic: bytes) -> None:
        self.interfaces: list[Interface] = []
        self._tell = tell
        self._order, self._unit_ns = MAGICS[magic]
        self._per_second = NS_PER_S // self._unit_ns
        self._record = Struct(f"{self._order}4I")
        self._near = b""
        self._last_ns = 0
        self._is_lost = False

    def rest(self) -> Rest | None:
        """Return what is known behind the last chunk; None while the way is lost."""
        if self._is_lost:
            return None
        known = tuple(self.interfaces)
        return Rest(interfaces=known, near=self._near, last_ns=self._last_ns)

    def go_on(self, rest: Rest) -> None:
        """Take up the file where it was left so."""
        self.interfaces.extend(rest.interfaces)
        self._near = rest.near

    def scan(self, data: Bytes, offset: int, *, is_last: bool) -> tuple[Packets, int]:
        """Return the packets of a chunk that begins with a record, and how many bytes were used."""
        at = 0
        if not self.interfaces:
            if len(data) < _HEADER:
                if is_last:
                    self._tell(
                        ProblemKind.TRUNCATED_BLOCK, offset, "the file ends in its header", 1
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
            if self._is_lost:
                place, self._is_lost = self._resume(bytes(buffer[at:]), is_last=is_last)
                at += place
                if self._is_lost:
                    return size if is_last else at
                continue
            second, parts, captured, _ = unpack(buffer, at)
            if captured > _MAX_PACKET or parts >= per_second:
                self._tell(
                    ProblemKind.CORRUPT_BLOCK, offset + at, "a record that makes no sense", 1
                )
                self._is_lost = True
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
            self._tell(ProblemKind.TRUNCATED_BLOCK, offset + at, "the file ends within a packet", 1)
            return size
        return at

    def _note(self, second: int) -> None:
        """Remember the half of a time's seconds that does not change within hours."""
        if second >= 0:
            packed = Struct(f"{self._order}I").pack(second)
            self._near = packed[2:] if self._order == "<" else packed[:2]

    def _resume(self, buffer: bytes, *, is_last: bool) -> tuple[int, bool]:
        """Return how far the next record seems to be, and whether none is found yet."""
        at = 0
        while at + _RECORD <= len(buffer):
            if self._near:
                shift = 2 if self._order == "<" else 0
                place = buffer.find(self._near, at + shift)
                if place < 0:
                    return max(at, len(buffer) - _RECORD + 1), True
                at = place - shift
                if at + _RECORD > len(buffer):
                    break
            likely = self._is_record(buffer, at, is_last=is_last)
            if likely is not False:
                return at, likely is None
            at += 1
        return at, True

    def _is_record(self, buffer: bytes, at: int, *, is_last: bool) -> bool | None:
        """Whether two records in a row seem to be here; None where that is not to be seen yet."""
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
