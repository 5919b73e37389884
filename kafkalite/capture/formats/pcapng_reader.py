"""Reader of pcapng files in both byte orders, which continues after corrupt blocks."""

from __future__ import annotations

import re
from struct import Struct
from typing import TYPE_CHECKING, Final

from kafkalite.capture.formats.capture_files import MAX_BLOCK_BYTES, Interface, Packet
from kafkalite.capture.model import ProblemKind
from kafkalite.ports.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.capture.formats.capture_files import Window

MAGIC: Final = b"\x0a\x0d\x0d\x0a"
"""The type of a section header block: the same bytes in both byte orders."""

_BYTE_ORDERS: Final[Mapping[bytes, str]] = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_SECTION, _INTERFACE, _OBSOLETE_PACKET, _SIMPLE_PACKET, _ENHANCED_PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_MIN_BLOCK_BYTES: Final = 12
_PACKET_OVERHEAD_BYTES: Final = 32
"""Size of an enhanced packet block without options and without the packet's data."""
_MIN_SECTION_BYTES: Final = 28
_END_OF_OPTIONS, _COMMENT, _INTERFACE_NAME, _TIME_RESOLUTION, _TIME_OFFSET = 0, 1, 2, 9, 14
_MICROSECONDS: Final = 6
_MAX_EXPONENT: Final = 64


class _SectionInterface:
    """An interface of a section, with its timestamp unit."""

    __slots__ = ("divisor", "factor", "interface", "max_captured_bytes", "offset_ns")

    def __init__(
        self, interface: Interface, resolution: int, offset_s: int, snap_length: int
    ) -> None:
        exponent = resolution & 0x7F
        base = 2 if resolution & 0x80 else 10
        per_second = base ** min(exponent, _MAX_EXPONENT)
        # If both are powers of ten, one divides the other, and times are exact.
        is_coarse = NANOSECONDS_PER_SECOND % per_second == 0
        self.factor = NANOSECONDS_PER_SECOND // per_second if is_coarse else NANOSECONDS_PER_SECOND
        self.divisor = 1 if is_coarse else per_second
        self.offset_ns = offset_s * NANOSECONDS_PER_SECOND
        self.max_captured_bytes = snap_length or MAX_BLOCK_BYTES
        self.interface = interface


class _Layouts:
    """The structs of the fixed parts of blocks, in one byte order."""

    __slots__ = (
        "block_start",
        "block_types",
        "enhanced_packet",
        "int64",
        "interface",
        "obsolete_packet",
        "option",
        "packet_block",
        "simple_packet",
        "uint32",
    )

    def __init__(self, order: str) -> None:
        uint32 = Struct(f"{order}I")
        block_types = (
            uint32.pack(block_type)
            for block_type in (_INTERFACE, _OBSOLETE_PACKET, _SIMPLE_PACKET, _ENHANCED_PACKET)
        )
        self.block_types = re.compile(b"|".join(map(re.escape, (MAGIC, *block_types))))
        self.block_start = Struct(f"{order}II")
        self.packet_block = Struct(f"{order}7I")
        self.uint32 = uint32
        self.int64 = Struct(f"{order}q")
        self.option = Struct(f"{order}HH")
        self.interface = Struct(f"{order}HHI")
        self.enhanced_packet = Struct(f"{order}5I")
        self.obsolete_packet = Struct(f"{order}HH4I")
        self.simple_packet = Struct(f"{order}I")


_LAYOUTS: Final = {order: _Layouts(order) for order in "<>"}


class _SectionReader:
    """Reads the sections of one file; interfaces and byte order are those of the current one."""

    __slots__ = ("_interfaces", "_is_in_corrupt_bytes", "_last_ns", "_layouts", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._layouts = _LAYOUTS["<"]
        self._interfaces: list[_SectionInterface] = []
        self._last_ns = 0
        self._is_in_corrupt_bytes = False

    def packets(self) -> Iterator[Packet]:
        window = self._window
        while window.buffer_bytes(_MIN_BLOCK_BYTES):
            yield from self._read_plain_packets()
            if not window.buffer_bytes(_MIN_BLOCK_BYTES):
                break
            block_type, size = self._read_block_start()
            if size == 0:
                self._skip_corrupt(ProblemKind.CORRUPT_BLOCK, "invalid block")
            elif not window.buffer_bytes(size):
                # Either the file is truncated, or the length is corrupt and later blocks are valid.
                self._skip_corrupt(ProblemKind.TRUNCATED_BLOCK, "the file ends within a block")
            elif not self._has_matching_length(window.position + size, size):
                self._skip_corrupt(ProblemKind.CORRUPT_BLOCK, "the two lengths of a block differ")
            else:
                self._is_in_corrupt_bytes = False
                stop = window.position + size
                packet = self._read_block(block_type, window.position + 8, stop - 4)
                window.position = stop
                if packet is not None:
                    yield packet
        if window.remaining_bytes and not self._is_in_corrupt_bytes:
            window.report(ProblemKind.TRUNCATED_BLOCK, "the file ends within a block's header")

    def _read_plain_packets(self) -> Iterator[Packet]:
        """Yield packets while complete enhanced packet blocks without options follow.

        Nearly all blocks are of this kind, and this loop is faster than the general one.
        """
        window, interfaces = self._window, self._interfaces
        unpack = self._layouts.packet_block.unpack_from
        unpack_uint32 = self._layouts.uint32.unpack_from
        buffer, end = window.buffer, len(window.buffer) - _PACKET_OVERHEAD_BYTES
        while (start := window.position) <= end:
            block_type, size, number, high, low, captured, length = unpack(buffer, start)
            if (
                block_type != _ENHANCED_PACKET
                or size != (captured + 3 & ~3) + _PACKET_OVERHEAD_BYTES
                or start + size > end + _PACKET_OVERHEAD_BYTES
                or size > MAX_BLOCK_BYTES
                or number >= len(interfaces)
                or unpack_uint32(buffer, start + size - 4)[0] != size
            ):
                return
            section_interface = interfaces[number]
            ticks = (high << 32) | low
            self._last_ns = at_ns = (
                ticks * section_interface.factor // section_interface.divisor
                + section_interface.offset_ns
            )
            offset, data = window.offset, buffer[start + 28 : start + 28 + captured]
            window.position = start + size
            self._is_in_corrupt_bytes = False
            yield Packet(at_ns, section_interface.interface, data, length, offset, None)

    def _has_matching_length(self, stop: int, size: int) -> bool:
        """Whether the length at the end of a block equals `size`."""
        repeated: int = self._layouts.uint32.unpack_from(self._window.buffer, stop - 4)[0]
        return repeated == size

    def _skip_corrupt(self, kind: ProblemKind, detail: str) -> None:
        """Move to the next block; consecutive corrupt bytes are reported once."""
        if not self._is_in_corrupt_bytes:
            self._window.report(kind, detail)
            self._is_in_corrupt_bytes = True
        self._seek_block()

    def _read_block_start(self) -> tuple[int, int]:
        """Return a block's type and size; size 0 if it is invalid."""
        window = self._window
        if window.buffer.startswith(MAGIC, window.position):
            order = _BYTE_ORDERS.get(window.buffer[window.position + 8 : window.position + 12])
            if order is None:
                return _SECTION, 0
            self._layouts = _LAYOUTS[order]
        block_type, size = self._layouts.block_start.unpack_from(window.buffer, window.position)
        min_size = _MIN_SECTION_BYTES if block_type == _SECTION else _MIN_BLOCK_BYTES
        return block_type, size if size % 4 == 0 and min_size <= size <= MAX_BLOCK_BYTES else 0

    def _seek_block(self) -> None:
        """Move to the next position where a block of a known type may begin."""
        window = self._window
        window.position += 1
        window.buffer_bytes(_MIN_BLOCK_BYTES)
        match = self._layouts.block_types.search(window.buffer, window.position)
        window.position = (
            max(window.position, len(window.buffer) - 3) if match is None else match.start()
        )

    def _read_block(self, block_type: int, start: int, stop: int) -> Packet | None:
        if block_type == _ENHANCED_PACKET:
            return self._read_enhanced_packet(start, stop)
        if block_type == _SECTION:
            self._interfaces = []
        elif block_type == _INTERFACE:
            self._add_interface(start, stop)
        elif block_type == _SIMPLE_PACKET:
            return self._read_simple_packet(start, stop)
        elif block_type == _OBSOLETE_PACKET:
            return self._read_obsolete_packet(start, stop)
        return None

    def _add_interface(self, start: int, stop: int) -> None:
        if stop - start < self._layouts.interface.size:
            self._window.report(ProblemKind.CORRUPT_BLOCK, "truncated interface description")
            return
        link_type, _, snap_length = self._layouts.interface.unpack_from(self._window.buffer, start)
        options = self._read_options(start + self._layouts.interface.size, stop)
        resolution = options.get(_TIME_RESOLUTION, b"")[:1] or bytes((_MICROSECONDS,))
        offset = options.get(_TIME_OFFSET, b"")
        int64 = self._layouts.int64
        offset_s = int64.unpack(offset)[0] if len(offset) == int64.size else 0
        interface = Interface(
            link_type,
            _decode_text(options.get(_INTERFACE_NAME)),
            _decode_text(options.get(_COMMENT)),
        )
        self._interfaces.append(_SectionInterface(interface, resolution[0], offset_s, snap_length))

    def _read_enhanced_packet(self, start: int, stop: int) -> Packet | None:
        layout = self._layouts.enhanced_packet
        if stop - start < layout.size:
            self._report_inconsistent()
            return None
        number, high, low, captured, length = layout.unpack_from(self._window.buffer, start)
        at_ns = self._timestamp_ns(number, (high << 32) | low)
        return self._make_packet(number, at_ns, (captured, length), (start + layout.size, stop))

    def _read_obsolete_packet(self, start: int, stop: int) -> Packet | None:
        layout = self._layouts.obsolete_packet
        if stop - start < layout.size:
            self._report_inconsistent()
            return None
        number, _, high, low, captured, length = layout.unpack_from(self._window.buffer, start)
        at_ns = self._timestamp_ns(number, (high << 32) | low)
        return self._make_packet(number, at_ns, (captured, length), (start + layout.size, stop))

    def _read_simple_packet(self, start: int, stop: int) -> Packet | None:
        """Read a simple packet block.

        Its packet has no timestamp and gets that of the previous packet.
        """
        if stop - start < self._layouts.simple_packet.size or not self._interfaces:
            self._report_inconsistent()
            return None
        (length,) = self._layouts.simple_packet.unpack_from(self._window.buffer, start)
        start += self._layouts.simple_packet.size
        captured = min(length, self._interfaces[0].max_captured_bytes, stop - start)
        data = self._window.buffer[start : start + captured]
        return Packet(
            self._last_ns, self._interfaces[0].interface, data, length, self._window.offset, None
        )

    def _timestamp_ns(self, number: int, ticks: int) -> int:
        """Return the time in ns of a timestamp of interface `number`."""
        if number < len(self._interfaces):
            section_interface = self._interfaces[number]
            self._last_ns = (
                ticks * section_interface.factor // section_interface.divisor
                + section_interface.offset_ns
            )
        return self._last_ns

    def _make_packet(
        self, number: int, at_ns: int, sizes: tuple[int, int], body: tuple[int, int]
    ) -> Packet | None:
        captured, length = sizes
        start, stop = body
        if number >= len(self._interfaces) or captured > stop - start:
            self._report_inconsistent()
            return None
        interface = self._interfaces[number].interface
        end = start + captured
        options_start = start + (captured + 3 & ~3)
        comment = None
        if options_start < stop:
            comment = _decode_text(self._read_options(options_start, stop).get(_COMMENT))
        window = self._window
        data = window.buffer[start:end]
        return Packet(at_ns, interface, data, length, window.offset, comment)

    def _report_inconsistent(self) -> None:
        self._window.report(ProblemKind.CORRUPT_BLOCK, "inconsistent lengths in a packet block")

    def _read_options(self, start: int, stop: int) -> dict[int, bytes]:
        """Return code → value of the options of a block; the first value of a repeated code."""
        buffer, layout = self._window.buffer, self._layouts.option
        options: dict[int, bytes] = {}
        while stop - start >= layout.size:
            code, size = layout.unpack_from(buffer, start)
            start += layout.size
            if code == _END_OF_OPTIONS or start + size > stop:
                break
            options.setdefault(code, buffer[start : start + size])
            start += size + 3 & ~3
        return options


def _decode_text(option: bytes | None) -> str | None:
    return None if option is None else option.decode("utf-8", "replace")


def packets(window: Window) -> Iterator[Packet]:
    """Return the packets of a file that begins with `MAGIC`."""
    return _SectionReader(window).packets()
