"""Reader of classic pcap files, in both byte orders, with µs or ns timestamps."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from kafkalite.capture.formats.capture_files import Interface, Packet
from kafkalite.capture.model import ProblemKind
from kafkalite.ports.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.capture.formats.capture_files import Window

MAGICS: Final[Mapping[bytes, tuple[str, int]]] = {
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
"""First bytes of the file → byte order, and nanoseconds per unit of its timestamps."""

_MAX_PACKET_BYTES: Final = 16 * 1024 * 1024
_HEADER_BYTES: Final = 24
_RECORD_BYTES: Final = 16
_LINK_TYPE_MASK: Final = 0xFFFF  # the higher bits describe checksums after the packets


class _RecordReader:
    """The packet records of one file, with its byte order and timestamp unit."""

    __slots__ = ("_last_seconds", "_order", "_record", "_unit_ns", "_units_per_second", "_window")

    def __init__(self, window: Window, order: str, unit_ns: int) -> None:
        self._window = window
        self._order = order
        self._unit_ns = unit_ns
        self._units_per_second = NANOSECONDS_PER_SECOND // unit_ns
        self._record = Struct(f"{order}4I")
        self._last_seconds: int | None = None

    def packets(self, interface: Interface) -> Iterator[Packet]:
        window, unpack, unit_ns = self._window, self._record.unpack_from, self._unit_ns
        while window.buffer_bytes(_RECORD_BYTES):
            seconds, fraction, captured, length = unpack(window.buffer, window.position)
            if captured > _MAX_PACKET_BYTES or fraction >= self._units_per_second:
                window.report(ProblemKind.CORRUPT_BLOCK, "invalid packet record")
                if not self._find_next_record():
                    return
                continue
            if not window.buffer_bytes(_RECORD_BYTES + captured):
                window.report(ProblemKind.TRUNCATED_BLOCK, "the file ends within a packet")
                return
            offset = window.offset
            start = window.position + _RECORD_BYTES
            window.position = stop = start + captured
            self._last_seconds = seconds
            at_ns = seconds * NANOSECONDS_PER_SECOND + fraction * unit_ns
            yield Packet(at_ns, interface, window.buffer[start:stop], length, offset, None)
        if window.remaining_bytes:
            window.report(ProblemKind.TRUNCATED_BLOCK, "the file ends within a packet's header")

    def _find_next_record(self) -> bool:
        """Move to the next probable record; return False if there is none.

        Records have no magic number. A record is recognised by a timestamp near the previous one,
        consistent sizes, and a valid record after it.
        """
        window = self._window
        high_bytes, shift = self._high_seconds_bytes()
        window.position += 1
        while window.buffer_bytes(_RECORD_BYTES):
            index = window.buffer.find(high_bytes, window.position + shift)
            if index < 0:
                window.position = len(window.buffer) - _RECORD_BYTES + 1
                continue
            window.position = index - shift
            if self._is_record(2):
                return True
            window.position += 1
        return False

    def _high_seconds_bytes(self) -> tuple[bytes, int]:
        """Return the two high bytes of the seconds, which rarely change, and their offset."""
        if self._last_seconds is None:
            return b"", 0
        seconds = Struct(f"{self._order}I").pack(self._last_seconds)
        return (seconds[2:], 2) if self._order == "<" else (seconds[:2], 0)

    def _is_record(self, count: int) -> bool:
        """Whether `count` consecutive valid records begin here, or fewer up to the file's end."""
        window = self._window
        distance = 0
        for index in range(count):
            if not window.buffer_bytes(distance + _RECORD_BYTES):
                return index > 0 and window.remaining_bytes == distance
            _, fraction, captured, length = self._record.unpack_from(
                window.buffer, window.position + distance
            )
            if fraction >= self._units_per_second or not 0 < captured <= min(
                length, _MAX_PACKET_BYTES
            ):
                return False
            distance += _RECORD_BYTES + captured
        return window.buffer_bytes(distance)


def packets(window: Window) -> Iterator[Packet]:
    """Return the packets of a file that begins with one of `MAGICS`."""
    order, unit_ns = MAGICS[window.buffer[window.position : window.position + 4]]
    if not window.buffer_bytes(_HEADER_BYTES):
        window.report(ProblemKind.TRUNCATED_BLOCK, "the file ends within its header")
        return iter(())
    (link_type,) = Struct(f"{order}I").unpack_from(window.buffer, window.position + 20)
    window.position += _HEADER_BYTES
    return _RecordReader(window, order, unit_ns).packets(Interface(link_type & _LINK_TYPE_MASK))
