"""pcapng files: sections of blocks, read in either byte order, going on behind what is corrupt."""

from __future__ import annotations

import re
from struct import Struct
from typing import TYPE_CHECKING, Final

from kafkalite.capture.blocks import MAX_BLOCK_BYTES, Interface, Packet
from kafkalite.capture.model import ProblemKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.capture.blocks import Window

MAGIC: Final = b"\x0a\x0d\x0d\x0a"
"""The type of the block that every section begins with, the same in both byte orders."""

_ORDERS: Final[Mapping[bytes, str]] = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_SECTION, _INTERFACE, _OLD, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
_MIN_BLOCK_BYTES: Final = 12
_PLAIN_BYTES: Final = 32
"""What an enhanced packet block has beside the packet."""
_MIN_SECTION_BYTES: Final = 28
_END, _COMMENT, _NAME, _RESOLUTION, _OFFSET = 0, 1, 2, 9, 14
_SECOND_NS: Final = 1_000_000_000
_MICROSECONDS: Final = 6
_MAX_EXPONENT: Final = 64


class _Tap:
    """An interface of a section, with its clock."""

    __slots__ = ("divisor", "factor", "interface", "offset_ns", "snap_bytes")

    def __init__(self, interface: Interface, resolution: int, offset_s: int, snap: int) -> None:
        exponent = resolution & 0x7F
        base = 2 if resolution & 0x80 else 10
        per_second = base ** min(exponent, _MAX_EXPONENT)
        # Where both are powers of ten one of them is 1, and times stay exact.
        is_coarse = _SECOND_NS % per_second == 0
        self.factor = _SECOND_NS // per_second if is_coarse else _SECOND_NS
        self.divisor = 1 if is_coarse else per_second
        self.offset_ns = offset_s * _SECOND_NS
        self.snap_bytes = snap or MAX_BLOCK_BYTES
        self.interface = interface


class _Layouts:
    """The fixed parts of blocks in one byte order."""

    __slots__ = (
        "enhanced",
        "head",
        "interface",
        "known",
        "long",
        "old",
        "option",
        "plain",
        "simple",
        "word",
    )

    def __init__(self, order: str) -> None:
        word = Struct(f"{order}I")
        kinds = (word.pack(kind) for kind in (_INTERFACE, _OLD, _SIMPLE, _ENHANCED))
        self.known = re.compile(b"|".join(map(re.escape, (MAGIC, *kinds))))
        self.head = Struct(f"{order}II")
        self.plain = Struct(f"{order}7I")
        self.word = word
        self.long = Struct(f"{order}q")
        self.option = Struct(f"{order}HH")
        self.interface = Struct(f"{order}HHI")
        self.enhanced = Struct(f"{order}5I")
        self.old = Struct(f"{order}HH4I")
        self.simple = Struct(f"{order}I")


_LAYOUTS: Final = {order: _Layouts(order) for order in "<>"}


class _Sections:
    """One file; a section's interfaces and byte order hold until the next section begins."""

    __slots__ = ("_is_lost", "_last_ns", "_layouts", "_taps", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._layouts = _LAYOUTS["<"]
        self._taps: list[_Tap] = []
        self._last_ns = 0
        self._is_lost = False

    def packets(self) -> Iterator[Packet]:
        window = self._window
        while window.has(_MIN_BLOCK_BYTES):
            yield from self._plain()
            if not window.has(_MIN_BLOCK_BYTES):
                break
            kind, size = self._head()
            if size == 0:
                self._lose(ProblemKind.CORRUPT_BLOCK, "a block that makes no sense")
            elif not window.has(size):
                # A length that lies reaches beyond the end as well as a torn tail does.
                self._lose(ProblemKind.TRUNCATED_BLOCK, "the file ends within a block")
            elif not self._ends(window.position + size, size):
                self._lose(ProblemKind.CORRUPT_BLOCK, "a block whose two lengths differ")
            else:
                self._is_lost = False
                stop = window.position + size
                packet = self._block(kind, window.position + 8, stop - 4)
                window.position = stop
                if packet is not None:
                    yield packet
        if window.left and not self._is_lost:
            window.tell(ProblemKind.TRUNCATED_BLOCK, "the file ends within a block's header")

    def _plain(self) -> Iterator[Packet]:
        """Yield packets as long as they are at hand whole, enhanced, and without options.

        Nearly all are: this saves most of the steps that a block takes otherwise.
        """
        window, taps = self._window, self._taps
        unpack, last = self._layouts.plain.unpack_from, self._layouts.word.unpack_from
        buffer, end = window.buffer, len(window.buffer) - _PLAIN_BYTES
        while (start := window.position) <= end:
            kind, size, number, high, low, captured, length = unpack(buffer, start)
            if (
                kind != _ENHANCED
                or size != (captured + 3 & ~3) + _PLAIN_BYTES
                or start + size > end + _PLAIN_BYTES
                or size > MAX_BLOCK_BYTES
                or number >= len(taps)
                or last(buffer, start + size - 4)[0] != size
            ):
                return
            tap = taps[number]
            ticks = (high << 32) | low
            self._last_ns = at_ns = ticks * tap.factor // tap.divisor + tap.offset_ns
            offset, data = window.offset, buffer[start + 28 : start + 28 + captured]
            window.position = start + size
            self._is_lost = False
            yield Packet(at_ns, tap.interface, data, length, offset, None)

    def _ends(self, stop: int, size: int) -> bool:
        """Whether a block's size is said again at its end."""
        said: int = self._layouts.word.unpack_from(self._window.buffer, stop - 4)[0]
        return said == size

    def _lose(self, kind: ProblemKind, detail: str) -> None:
        """Go to the next block; what is between is told of once."""
        if not self._is_lost:
            self._window.tell(kind, detail)
            self._is_lost = True
        self._seek()

    def _head(self) -> tuple[int, int]:
        """Return a block's type and size, 0 for a size that cannot be."""
        window = self._window
        if window.buffer.startswith(MAGIC, window.position):
            order = _ORDERS.get(window.buffer[window.position + 8 : window.position + 12])
            if order is None:
                return _SECTION, 0
            self._layouts = _LAYOUTS[order]
        kind, size = self._layouts.head.unpack_from(window.buffer, window.position)
        least = _MIN_SECTION_BYTES if kind == _SECTION else _MIN_BLOCK_BYTES
        return kind, size if size % 4 == 0 and least <= size <= MAX_BLOCK_BYTES else 0

    def _seek(self) -> None:
        """Go to the next place where a block of a known type may begin."""
        window = self._window
        window.position += 1
        window.has(_MIN_BLOCK_BYTES)
        found = self._layouts.known.search(window.buffer, window.position)
        window.position = (
            max(window.position, len(window.buffer) - 3) if found is None else found.start()
        )

    def _block(self, kind: int, start: int, stop: int) -> Packet | None:
        if kind == _ENHANCED:
            return self._enhanced(start, stop)
        if kind == _SECTION:
            self._taps = []
        elif kind == _INTERFACE:
            self._add_interface(start, stop)
        elif kind == _SIMPLE:
            return self._simple(start, stop)
        elif kind == _OLD:
            return self._old(start, stop)
        return None

    def _add_interface(self, start: int, stop: int) -> None:
        if stop - start < self._layouts.interface.size:
            self._window.tell(ProblemKind.CORRUPT_BLOCK, "an interface description cut short")
            return
        link_type, _, snap = self._layouts.interface.unpack_from(self._window.buffer, start)
        options = self._options(start + self._layouts.interface.size, stop)
        resolution = options.get(_RESOLUTION, b"")[:1] or bytes((_MICROSECONDS,))
        offset = options.get(_OFFSET, b"")
        long = self._layouts.long
        offset_s = long.unpack(offset)[0] if len(offset) == long.size else 0
        interface = Interface(link_type, _text(options.get(_NAME)), _text(options.get(_COMMENT)))
        self._taps.append(_Tap(interface, resolution[0], offset_s, snap))

    def _enhanced(self, start: int, stop: int) -> Packet | None:
        layout = self._layouts.enhanced
        if stop - start < layout.size:
            self._cut_short()
            return None
        number, high, low, captured, length = layout.unpack_from(self._window.buffer, start)
        at_ns = self._time(number, (high << 32) | low)
        return self._packet(number, at_ns, (captured, length), (start + layout.size, stop))

    def _old(self, start: int, stop: int) -> Packet | None:
        layout = self._layouts.old
        if stop - start < layout.size:
            self._cut_short()
            return None
        number, _, high, low, captured, length = layout.unpack_from(self._window.buffer, start)
        at_ns = self._time(number, (high << 32) | low)
        return self._packet(number, at_ns, (captured, length), (start + layout.size, stop))

    def _simple(self, start: int, stop: int) -> Packet | None:
        """Read a packet without a time of its own: it has that of the packet before it."""
        if stop - start < self._layouts.simple.size or not self._taps:
            self._cut_short()
            return None
        (length,) = self._layouts.simple.unpack_from(self._window.buffer, start)
        start += self._layouts.simple.size
        captured = min(length, self._taps[0].snap_bytes, stop - start)
        data = self._window.buffer[start : start + captured]
        return Packet(
            self._last_ns, self._taps[0].interface, data, length, self._window.offset, None
        )

    def _time(self, number: int, ticks: int) -> int:
        """Return the time that the clock of an interface shows as `ticks`."""
        if number < len(self._taps):
            tap = self._taps[number]
            self._last_ns = ticks * tap.factor // tap.divisor + tap.offset_ns
        return self._last_ns

    def _packet(
        self, number: int, at_ns: int, sizes: tuple[int, int], body: tuple[int, int]
    ) -> Packet | None:
        captured, length = sizes
        start, stop = body
        if number >= len(self._taps) or captured > stop - start:
            self._cut_short()
            return None
        interface = self._taps[number].interface
        end = start + captured
        behind = start + (captured + 3 & ~3)
        comment = _text(self._options(behind, stop).get(_COMMENT)) if behind < stop else None
        window = self._window
        data = window.buffer[start:end]
        return Packet(at_ns, interface, data, length, window.offset, comment)

    def _cut_short(self) -> None:
        self._window.tell(ProblemKind.CORRUPT_BLOCK, "a packet block that contradicts itself")

    def _options(self, start: int, stop: int) -> dict[int, bytes]:
        """Return the options that end a block, each code's first."""
        buffer, layout = self._window.buffer, self._layouts.option
        found: dict[int, bytes] = {}
        while stop - start >= layout.size:
            code, size = layout.unpack_from(buffer, start)
            start += layout.size
            if code == _END or start + size > stop:
                break
            found.setdefault(code, buffer[start : start + size])
            start += size + 3 & ~3
        return found


def _text(option: bytes | None) -> str | None:
    return None if option is None else option.decode("utf-8", "replace")


def packets(window: Window) -> Iterator[Packet]:
    """Return the packets of a file that begins with `MAGIC`."""
    return _Sections(window).packets()
