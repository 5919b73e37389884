"""Classic pcap files: one header, then one record a packet, in either byte order, µs or ns."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from kafkalite.capture.blocks import Interface, Packet
from kafkalite.capture.model import ProblemKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.capture.blocks import Window

MAGICS: Final[Mapping[bytes, tuple[str, int]]] = {
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
"""First bytes → byte order, and nanoseconds of what its times count."""

_MAX_PACKET_BYTES: Final = 16 * 1024 * 1024
_HEADER_BYTES: Final = 24
_RECORD_BYTES: Final = 16
_SECOND_NS: Final = 1_000_000_000
_LINK_TYPE_BITS: Final = 0xFFFF  # what is above tells of checksums behind the packets


class _Records:
    """The records of one file, whose byte order and clock are known."""

    __slots__ = ("_order", "_per_second", "_record", "_seconds", "_unit_ns", "_window")

    def __init__(self, window: Window, order: str, unit_ns: int) -> None:
        self._window = window
        self._order = order
        self._unit_ns = unit_ns
        self._per_second = _SECOND_NS // unit_ns
        self._record = Struct(f"{order}4I")
        self._seconds: int | None = None

    def packets(self, interface: Interface) -> Iterator[Packet]:
        window, unpack, unit_ns = self._window, self._record.unpack_from, self._unit_ns
        while window.has(_RECORD_BYTES):
            seconds, parts, captured, length = unpack(window.buffer, window.position)
            if captured > _MAX_PACKET_BYTES or parts >= self._per_second:
                window.tell(ProblemKind.CORRUPT_BLOCK, "a packet record that makes no sense")
                if not self._resume():
                    return
                continue
            if not window.has(_RECORD_BYTES + captured):
                window.tell(ProblemKind.TRUNCATED_BLOCK, "the file ends within a packet")
                return
            offset = window.offset
            start = window.position + _RECORD_BYTES
            window.position = stop = start + captured
            self._seconds = seconds
            at_ns = seconds * _SECOND_NS + parts * unit_ns
            yield Packet(at_ns, interface, window.buffer[start:stop], length, offset, None)
        if window.left:
            window.tell(ProblemKind.TRUNCATED_BLOCK, "the file ends within a packet's header")

    def _resume(self) -> bool:
        """Go to where the next record seems to be; False where none is left.

        There is nothing to recognise a record by except that its time is near the last one's, its
        sizes agree, and the one behind it is like it.
        """
        window = self._window
        near, ahead = self._near()
        window.position += 1
        while window.has(_RECORD_BYTES):
            found = window.buffer.find(near, window.position + ahead)
            if found < 0:
                window.position = len(window.buffer) - _RECORD_BYTES + 1
                continue
            window.position = found - ahead
            if self._is_record(2):
                return True
            window.position += 1
        return False

    def _near(self) -> tuple[bytes, int]:
        """Return the half of a time's seconds that does not change within hours, and its place."""
        if self._seconds is None:
            return b"", 0
        seconds = Struct(f"{self._order}I").pack(self._seconds)
        return (seconds[2:], 2) if self._order == "<" else (seconds[:2], 0)

    def _is_record(self, count: int) -> bool:
        """Whether as many records in a row seem to be here, or all up to the end of the file."""
        window = self._window
        ahead = 0
        for nth in range(count):
            if not window.has(ahead + _RECORD_BYTES):
                return nth > 0 and window.left == ahead
            _, parts, captured, length = self._record.unpack_from(
                window.buffer, window.position + ahead
            )
            if parts >= self._per_second or not 0 < captured <= min(length, _MAX_PACKET_BYTES):
                return False
            ahead += _RECORD_BYTES + captured
        return window.has(ahead)


def packets(window: Window) -> Iterator[Packet]:
    """Return the packets of a file that begins with one of `MAGICS`."""
    order, unit_ns = MAGICS[window.buffer[window.position : window.position + 4]]
    if not window.has(_HEADER_BYTES):
        window.tell(ProblemKind.TRUNCATED_BLOCK, "the file ends within its header")
        return iter(())
    (link,) = Struct(f"{order}I").unpack_from(window.buffer, window.position + 20)
    window.position += _HEADER_BYTES
    return _Records(window, order, unit_ns).packets(Interface(link & _LINK_TYPE_BITS))
