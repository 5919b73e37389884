"""`BlockScanner`: finds the positions of packets in the chunks of pcapng files.

The unused bytes of a chunk are prepended to the next one. Packet blocks, which are most of a
capture, are walked by a compiled loop. It stops at other blocks and at invalid ones.

A block is valid if its length is the same at its start and its end. After an invalid block, the
scan resumes at the next valid block of a known type, at any distance.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from kafkalite.traffic.columnar.arrays import ReusableArray, where
from kafkalite.traffic.columnar.kernels import kernel, peek_u32, peek_u32le, piece
from kafkalite.traffic.columnar.packet_index import Interface, Packets, ScannerState, nanoseconds
from kafkalite.traffic.formats.capture_files import MAX_BLOCK_BYTES
from kafkalite.traffic.model import ProblemKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.traffic.columnar.arrays import Bytes, Ints

Report = Callable[[ProblemKind, int | None, str, int], None]
"""Receives a problem: its kind, the file offset, one line of text, and a count."""

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_KNOWN: Final = (SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET)
_MAGIC: Final = {bytes.fromhex("1a2b3c4d"): ">", bytes.fromhex("4d3c2b1a"): "<"}
_MIN_BLOCK: Final = 12
_MIN_LENGTHS: Final = {SECTION: 28, INTERFACE: 20, OLD_PACKET: 32, SIMPLE_PACKET: 16, PACKET: 32}
_HEAD, _SIMPLE_HEAD, _TAIL = 28, 12, 4
_COMMENT, _NAME, _TSRESOL, _TSOFFSET = 1, 2, 9, 14
_FINEST_DECIMAL, _FINEST_BINARY, _BINARY = 19, 63, 0x80


class Verdict(Enum):
    """Whether a block is valid."""

    VALID = auto()
    INCOMPLETE = auto()
    """It continues after the available bytes."""
    INVALID = auto()


class BlockScanner:
    """Scans one pcapng file, chunk by chunk."""

    def __init__(self, report: Report) -> None:
        self.interfaces: list[Interface] = []
        self._report = report
        self._order = "<"
        self._section = 0  # index of the section's first interface
        self._last_ns = 0
        self._is_searching = False  # between an invalid block and the next valid one
        self._memory = ReusableArray()

    def state(self) -> ScannerState | None:
        """Return the state after the last chunk; None while no valid block was found."""
        if self._is_searching:
            return None
        interface_count = tuple(self.interfaces[self._section :])
        return ScannerState(interfaces=interface_count, order=self._order, last_ns=self._last_ns)

    def resume(self, state: ScannerState) -> None:
        """Continue from a state."""
        self.interfaces.extend(state.interfaces)
        self._order, self._last_ns = state.order, state.last_ns

    def scan(self, data: Bytes, offset: int, *, is_last: bool) -> tuple[Packets, int]:
        """Return the packets of a chunk that begins with a block, and the number of used bytes.

        The next call reuses the memory of the result. With `is_last` all bytes are used, and an
        incomplete block is reported as a problem.
        """
        # The smallest packet block is a simple packet.
        out = self._memory.take(7, len(data) // _MIN_LENGTHS[SIMPLE_PACKET] + 1)
        walk = _Walk(data, offset, out)
        while walk.at < len(data):
            if self._is_searching and not self._find_valid_block(walk, is_last=is_last):
                break
            self._add_packets(walk)
            if walk.at >= len(data):
                break
            verdict, kind, length = self._check(data, walk.at)
            if verdict is Verdict.VALID:
                self._process_block(walk, kind, length)
            elif verdict is Verdict.INCOMPLETE and not is_last:
                break
            else:
                cut = verdict is Verdict.INCOMPLETE
                problem = ProblemKind.TRUNCATED_BLOCK if cut else ProblemKind.CORRUPT_BLOCK
                self._report(problem, offset + walk.at, f"{problem} of {length} bytes", 1)
                self._is_searching = True
                walk.at += 1
        return self._timed(walk), min(walk.at, len(data))

    def _find_valid_block(self, walk: _Walk, *, is_last: bool) -> bool:
        """Move to the next valid block; return False if the chunk has no complete one."""
        data, order = walk.data, ""
        while order != self._order:
            # A section header sets the byte order, even if its block is invalid.
            order = self._order
            for at in walk.candidates(order):
                verdict, _, _ = self._check(data, at)
                if verdict is Verdict.VALID:
                    self._is_searching = False
                    walk.at = at
                    return True
                if verdict is Verdict.INCOMPLETE and not is_last:
                    walk.at = at
                    return False
                if order != self._order:
                    walk.at = at + 1
                    break
        walk.at = len(data) if is_last else max(walk.at, len(data) - _MIN_BLOCK + 1)
        return False

    def _check(self, data: Bytes, at: int) -> tuple[Verdict, int, int]:
        """Return the verdict on the block at a position, its type and its length."""
        head = bytes(data[at : at + _MIN_BLOCK])
        if len(head) < _MIN_BLOCK:
            return Verdict.INCOMPLETE, 0, len(head)
        min_length = _MIN_BLOCK
        if head[:4] == SECTION.to_bytes(4):
            order = _MAGIC.get(head[8:])
            if order is None:
                return Verdict.INVALID, SECTION, 0
            self._order, min_length = order, _MIN_LENGTHS[SECTION]
        endian = _ENDIAN[self._order]
        kind = int.from_bytes(head[:4], endian)
        length = int.from_bytes(head[4:8], endian)
        if length % 4 or not min_length <= length <= MAX_BLOCK_BYTES:
            return Verdict.INVALID, kind, length
        if at + length > len(data):
            return Verdict.INCOMPLETE, kind, length
        tail = bytes(data[at + length - _TAIL : at + length])
        return Verdict.VALID if tail == head[4:8] else Verdict.INVALID, kind, length

    def _add_packets(self, walk: _Walk) -> None:
        """Add all packets up to a block that is not a packet, or is invalid."""
        section = self._section
        interface_count = len(self.interfaces) - section
        snap_length = self.interfaces[section].snap_length if interface_count else 0
        walk.at, walk.count, wrong, first = packet_blocks(
            walk.data,
            walk.at,
            self._order == "<",
            section,
            interface_count,
            snap_length,
            walk.out,
            walk.count,
        )
        if wrong:
            detail = "packet blocks with an unknown interface or inconsistent lengths"
            self._report(ProblemKind.CORRUPT_BLOCK, walk.offset + first, detail, wrong)

    def _process_block(self, walk: _Walk, kind: int, length: int) -> None:
        """Process a valid block that is not a packet."""
        if length < _MIN_LENGTHS.get(kind, _MIN_BLOCK):
            self._report(
                ProblemKind.CORRUPT_BLOCK,
                walk.offset + walk.at,
                "the block is too short for its type",
                1,
            )
        elif kind == SECTION:
            self._section = len(self.interfaces)
        elif kind == INTERFACE:
            body = bytes(walk.data[walk.at + 8 : walk.at + length - _TAIL])
            self.interfaces.append(_interface(body, self._order))
        walk.at += length

    def _timed(self, walk: _Walk) -> Packets:
        """Return the packets with times in nanoseconds."""
        at, start, captured, original, ticks, interface, options = walk.out[:, : walk.count]
        if not walk.count:
            return Packets()
        at_ns = self._times(ticks, interface)
        # A simple packet has no timestamp; it gets that of the previous packet.
        is_simple = original < 0
        if is_simple.any():
            last = np.maximum.accumulate(np.where(is_simple, -1, np.arange(len(is_simple))))
            at_ns = np.where(last < 0, self._last_ns, at_ns[last])
            original = np.where(is_simple, ~original, original)
        self._last_ns = int(at_ns[-1])
        return Packets(
            at=at, start=start, captured=captured, original=original, at_ns=at_ns,
            interface=interface, options=options,
        )  # fmt: skip

    def _times(self, ticks: Ints, interface: Ints) -> Ints:
        """Return times in nanoseconds, by the units of their interfaces.

        There may be as many interfaces as packets, so the loop is over the units, of which there
        are few.
        """
        offsets = np.array([each.offset_s for each in self.interfaces], np.int64)
        kinds: dict[int, int] = {}
        counts = [kinds.setdefault(each.ticks, len(kinds)) for each in self.interfaces]
        if len(kinds) == 1:
            return nanoseconds(ticks, next(iter(kinds)), offsets[interface])
        at_ns = np.empty(len(ticks), np.int64)
        kind_of = np.array(counts)[interface]
        for unit, kind in kinds.items():
            rows = where(kind_of == kind)
            at_ns[rows] = nanoseconds(ticks[rows], unit, offsets[interface[rows]])
        return at_ns


class _Walk:
    """The position in one chunk, and the packets found."""

    def __init__(self, data: Bytes, offset: int, out: Ints) -> None:
        self.data = data
        self.offset = offset
        self.at = 0
        self.out = out
        """One column per packet; the rows are as in `packet_blocks`."""
        self.count = 0
        """Number of packets found."""
        self._candidates: dict[str, Ints] = {}

    def candidates(self, order: str) -> Iterator[int]:
        """Return the positions, from the current one on, at which a block may begin."""
        positions = self._candidates.get(order)
        if positions is None:
            # Computed once per chunk.
            found = [_aligned_candidates(self.data, shift, order) for shift in range(4)]
            positions = self._candidates[order] = np.sort(np.concatenate(found))
        first = int(np.searchsorted(positions, self.at))
        return (int(positions[nth]) for nth in range(first, len(positions)))


@piece
def _u32(data: Bytes, at: int, is_little: bool) -> int:  # noqa: FBT001 - kernels have no keywords
    return peek_u32le(data, at) if is_little else peek_u32(data, at)


@kernel
def packet_blocks(  # noqa: PLR0917
    data: Bytes,
    at: int,
    is_little: bool,  # noqa: FBT001
    section: int,
    interface_count: int,
    snap_length: int,
    out: Ints,
    count: int,
) -> tuple[int, int, int, int]:
    """Walk packet blocks, and write the packets into `out`.

    Stops at a block that is not a packet or is invalid. Returns its position, the number of
    packets, the number of inconsistent packet blocks, and the position of the first of these.
    """
    wrong, first_wrong = 0, -1
    while at + _MIN_BLOCK <= len(data):
        kind, length = _u32(data, at, is_little), _u32(data, at + 4, is_little)
        if kind in (SECTION, INTERFACE) or length % 4 or length > MAX_BLOCK_BYTES:
            break
        if length < _MIN_BLOCK or at + length > len(data):
            break
        if _u32(data, at + length - _TAIL, is_little) != length:
            break
        if kind in (PACKET, OLD_PACKET, SIMPLE_PACKET):
            if length < (_SIMPLE_HEAD if kind == SIMPLE_PACKET else _HEAD) + _TAIL:
                break
            if _packet(
                data, at, is_little, kind, length, section, interface_count, snap_length, out, count
            ):
                count += 1
            else:
                first_wrong = at if wrong == 0 else first_wrong
                wrong += 1
        at += length
    return at, count, wrong, first_wrong


@piece
def _packet(  # noqa: PLR0917
    data: Bytes,
    at: int,
    is_little: bool,  # noqa: FBT001
    kind: int,
    length: int,
    section: int,
    interface_count: int,
    snap_length: int,
    out: Ints,
    count: int,
) -> bool:
    """Write one packet; return False if its block is inconsistent."""
    if kind == SIMPLE_PACKET:
        head, interface, ticks = _SIMPLE_HEAD, 0, 0
        original = _u32(data, at + 8, is_little)
        captured = min(original, snap_length) if snap_length else original
        captured = min(captured, length - _SIMPLE_HEAD - _TAIL)
        original = ~original
    else:
        head = _HEAD
        interface = _u32(data, at + 8, is_little)
        if kind == OLD_PACKET:  # a 16-bit interface, then a 16-bit count of drops
            interface = interface & 0xFFFF if is_little else interface >> 16
        ticks = _u32(data, at + 12, is_little) << 32 | _u32(data, at + 16, is_little)
        captured, original = _u32(data, at + 20, is_little), _u32(data, at + 24, is_little)
    space = length - head - _TAIL
    if captured > space or interface >= interface_count:
        return False
    out[0, count], out[1, count] = at, at + head
    out[2, count], out[3, count] = captured, original
    out[4, count], out[5, count] = ticks, section + interface
    out[6, count] = max(space - ((captured + 3) & ~3), 0)
    return True


def _aligned_candidates(data: Bytes, start: int, order: str) -> Ints:
    """Return the positions at which a block may begin, at every fourth byte from `start` on."""
    words = data[start : start + (max(len(data) - start, 0) & ~3)].view(f"{order}u4")
    at = np.flatnonzero(np.isin(words, _KNOWN))
    if not len(at):
        return at
    follows = words[np.minimum(at + 1, len(words) - 1)].astype(np.int64)
    likely = (follows % 4 == 0) & (follows >= _MIN_BLOCK) & (follows <= MAX_BLOCK_BYTES)
    end = at + follows // 4
    fits = end <= len(words)
    likely &= ~fits | (words[np.where(fits & likely, end, 1) - 1] == follows)
    likely |= (words[at] == SECTION) | (at + 1 >= len(words))
    positions: Ints = at[likely] * 4 + start
    return positions


_ENDIAN: Final[Mapping[str, Literal["little", "big"]]] = {"<": "little", ">": "big"}


def _interface(body: bytes, order: str) -> Interface:
    """Return the interface of a block; invalid options are ignored."""
    endian = _ENDIAN[order]
    ticks, offset, name, comments = 1_000_000, 0, "", []
    for code, value in options(body[8:], order):
        if code == _COMMENT:
            comments.append(value.decode("utf-8", "replace"))
        elif code == _NAME:
            name = value.decode("utf-8", "replace")
        elif code == _TSRESOL and value:
            binary, power = value[0] & _BINARY, value[0] & ~_BINARY
            if power <= (_FINEST_BINARY if binary else _FINEST_DECIMAL):
                ticks = (2 if binary else 10) ** power
        elif code == _TSOFFSET and len(value) == 8:  # noqa: PLR2004 - an int64
            offset = int.from_bytes(value, endian, signed=True)
    return Interface(
        link_type=int.from_bytes(body[:2], endian),
        snap_length=int.from_bytes(body[4:8], endian),
        ticks=ticks,
        offset_s=offset,
        name=name,
        comments=tuple(comments),
    )


def options(body: bytes, order: str) -> list[tuple[int, bytes]]:
    """Return a block's options, up to the last complete one."""
    found = []
    endian, at = _ENDIAN[order], 0
    while at + 4 <= len(body):
        code = int.from_bytes(body[at : at + 2], endian)
        size = int.from_bytes(body[at + 2 : at + 4], endian)
        if not code or at + 4 + size > len(body):
            break
        found.append((code, body[at + 4 : at + 4 + size]))
        at += 4 + ((size + 3) & ~3)
    return found


def comment_of(data: Bytes, packets: Packets, row: int) -> str | None:
    """Return the comment of a packet's block; None if it has none."""
    size = int(packets.options[row])
    if not size:
        return None
    start = int(packets.start[row] + ((packets.captured[row] + 3) & ~3))
    order = "<" if data[int(packets.at[row])] else ">"  # a packet block's type, 6 or 2
    for code, value in options(data[start : start + size].tobytes(), order):
        if code == _COMMENT:
            return value.decode("utf-8", "replace")
    return None
