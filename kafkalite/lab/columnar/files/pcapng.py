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

from kafkalite.capture.formats.capture_files import MAX_BLOCK_BYTES
from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar.arrays import ReusableArray, true_indexes
from kafkalite.lab.columnar.files.packet_index import Interface, Packets, ScannerState, nanoseconds
from kafkalite.lab.columnar.kernels import inlined, kernel, peek_u32, peek_u32le

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.lab.columnar.arrays import Bytes, Ints

Report = Callable[[ProblemKind, int | None, str, int], None]
"""Receives a problem: its kind, the file offset, one line of text, and a count."""

SECTION, INTERFACE, OBSOLETE_PACKET, SIMPLE_PACKET, PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_KNOWN_BLOCK_TYPES: Final = (SECTION, INTERFACE, OBSOLETE_PACKET, SIMPLE_PACKET, PACKET)
_BYTE_ORDERS: Final = {bytes.fromhex("1a2b3c4d"): ">", bytes.fromhex("4d3c2b1a"): "<"}
_MIN_BLOCK_BYTES: Final = 12
_MIN_LENGTH_BY_TYPE: Final = {
    SECTION: 28,
    INTERFACE: 20,
    OBSOLETE_PACKET: 32,
    SIMPLE_PACKET: 16,
    PACKET: 32,
}
_PACKET_HEADER_BYTES, _SIMPLE_HEADER_BYTES, _LENGTH_BYTES = 28, 12, 4
_COMMENT, _INTERFACE_NAME, _TIME_RESOLUTION, _TIME_OFFSET = 1, 2, 9, 14
_MAX_DECIMAL_EXPONENT, _MAX_BINARY_EXPONENT, _BINARY_FLAG = 19, 63, 0x80


class BlockState(Enum):
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
        self._byte_order = "<"
        self._section_start = 0
        """Index of the first interface of the section."""
        self._last_ns = 0
        self._is_searching = False
        """Whether the scan is between an invalid block and the next valid one."""
        self._memory = ReusableArray()

    def state(self) -> ScannerState | None:
        """Return the state after the last chunk; None while no valid block was found."""
        if self._is_searching:
            return None
        interfaces = tuple(self.interfaces[self._section_start :])
        return ScannerState(interfaces=interfaces, order=self._byte_order, last_ns=self._last_ns)

    def resume(self, state: ScannerState) -> None:
        """Continue from a state."""
        self.interfaces.extend(state.interfaces)
        self._byte_order, self._last_ns = state.order, state.last_ns

    def scan(self, data: Bytes, offset: int, *, is_last: bool) -> tuple[Packets, int]:
        """Return the packets of a chunk that begins with a block, and the number of used bytes.

        The next call reuses the memory of the result. With `is_last` all bytes are used, and an
        incomplete block is reported as a problem.
        """
        # The smallest packet block is a simple packet.
        out = self._memory.allocate(7, len(data) // _MIN_LENGTH_BY_TYPE[SIMPLE_PACKET] + 1)
        chunk_scan = _ChunkScan(data, offset, out)
        while chunk_scan.at < len(data):
            if self._is_searching and not self._seek_valid_block(chunk_scan, is_last=is_last):
                break
            self._add_packets(chunk_scan)
            if chunk_scan.at >= len(data):
                break
            block_state, block_type, length = self._check_block(data, chunk_scan.at)
            if block_state is BlockState.VALID:
                self._process_block(chunk_scan, block_type, length)
            elif block_state is BlockState.INCOMPLETE and not is_last:
                break
            else:
                is_truncated = block_state is BlockState.INCOMPLETE
                problem = ProblemKind.TRUNCATED_BLOCK if is_truncated else ProblemKind.CORRUPT_BLOCK
                self._report(problem, offset + chunk_scan.at, f"{problem} of {length} bytes", 1)
                self._is_searching = True
                chunk_scan.at += 1
        return self._packets_with_times(chunk_scan), min(chunk_scan.at, len(data))

    def _seek_valid_block(self, chunk_scan: _ChunkScan, *, is_last: bool) -> bool:
        """Move to the next valid block; return False if the chunk has no complete one."""
        data, order = chunk_scan.data, ""
        while order != self._byte_order:
            # A section header sets the byte order, even if its block is invalid.
            order = self._byte_order
            for at in chunk_scan.candidates(order):
                block_state, _, _ = self._check_block(data, at)
                if block_state is BlockState.VALID:
                    self._is_searching = False
                    chunk_scan.at = at
                    return True
                if block_state is BlockState.INCOMPLETE and not is_last:
                    chunk_scan.at = at
                    return False
                if order != self._byte_order:
                    chunk_scan.at = at + 1
                    break
        chunk_scan.at = (
            len(data) if is_last else max(chunk_scan.at, len(data) - _MIN_BLOCK_BYTES + 1)
        )
        return False

    def _check_block(self, data: Bytes, at: int) -> tuple[BlockState, int, int]:
        """Return whether the block at a position is valid, its type and its length."""
        prefix = bytes(data[at : at + _MIN_BLOCK_BYTES])
        if len(prefix) < _MIN_BLOCK_BYTES:
            return BlockState.INCOMPLETE, 0, len(prefix)
        min_length = _MIN_BLOCK_BYTES
        if prefix[:4] == SECTION.to_bytes(4):
            order = _BYTE_ORDERS.get(prefix[8:])
            if order is None:
                return BlockState.INVALID, SECTION, 0
            self._byte_order, min_length = order, _MIN_LENGTH_BY_TYPE[SECTION]
        endian = _ENDIAN_BY_ORDER[self._byte_order]
        block_type = int.from_bytes(prefix[:4], endian)
        length = int.from_bytes(prefix[4:8], endian)
        if length % 4 or not min_length <= length <= MAX_BLOCK_BYTES:
            return BlockState.INVALID, block_type, length
        if at + length > len(data):
            return BlockState.INCOMPLETE, block_type, length
        repeated_length = bytes(data[at + length - _LENGTH_BYTES : at + length])
        return (
            BlockState.VALID if repeated_length == prefix[4:8] else BlockState.INVALID,
            block_type,
            length,
        )

    def _add_packets(self, chunk_scan: _ChunkScan) -> None:
        """Add all packets up to a block that is not a packet, or is invalid."""
        section = self._section_start
        interface_count = len(self.interfaces) - section
        snap_length = self.interfaces[section].snap_length if interface_count else 0
        chunk_scan.at, chunk_scan.count, inconsistent_count, first_inconsistent = packet_blocks(
            chunk_scan.data,
            chunk_scan.at,
            self._byte_order == "<",
            section,
            interface_count,
            snap_length,
            chunk_scan.out,
            chunk_scan.count,
        )
        if inconsistent_count:
            detail = "packet blocks with an unknown interface or inconsistent lengths"
            self._report(
                ProblemKind.CORRUPT_BLOCK,
                chunk_scan.offset + first_inconsistent,
                detail,
                inconsistent_count,
            )

    def _process_block(self, chunk_scan: _ChunkScan, block_type: int, length: int) -> None:
        """Process a valid block that is not a packet."""
        if length < _MIN_LENGTH_BY_TYPE.get(block_type, _MIN_BLOCK_BYTES):
            self._report(
                ProblemKind.CORRUPT_BLOCK,
                chunk_scan.offset + chunk_scan.at,
                "the block is too short for its type",
                1,
            )
        elif block_type == SECTION:
            self._section_start = len(self.interfaces)
        elif block_type == INTERFACE:
            body = bytes(
                chunk_scan.data[chunk_scan.at + 8 : chunk_scan.at + length - _LENGTH_BYTES]
            )
            self.interfaces.append(_interface(body, self._byte_order))
        chunk_scan.at += length

    def _packets_with_times(self, chunk_scan: _ChunkScan) -> Packets:
        """Return the packets with times in nanoseconds."""
        at, start, captured, original, ticks, interface, options = chunk_scan.out[
            :, : chunk_scan.count
        ]
        if not chunk_scan.count:
            return Packets()
        at_ns = self._times_ns(ticks, interface)
        # A simple packet has no timestamp; it gets that of the previous packet.
        is_simple = original < 0
        if is_simple.any():
            last = np.maximum.accumulate(np.where(is_simple, -1, np.arange(len(is_simple))))
            at_ns = np.where(last < 0, self._last_ns, at_ns[last])
            original = np.where(is_simple, ~original, original)
        self._last_ns = int(at_ns[-1])
        return Packets(
            block_start=at, start=start, captured=captured, original=original, at_ns=at_ns,
            interface=interface, options=options,
        )  # fmt: skip

    def _times_ns(self, ticks: Ints, interface: Ints) -> Ints:
        """Return times in nanoseconds, by the timestamp units of their interfaces.

        There may be as many interfaces as packets but few units, so the loop is over the units.
        """
        offsets = np.array([each.offset_s for each in self.interfaces], np.int64)
        unit_numbers: dict[int, int] = {}
        unit_of_interface = [
            unit_numbers.setdefault(each.ticks_per_second, len(unit_numbers))
            for each in self.interfaces
        ]
        if len(unit_numbers) == 1:
            return nanoseconds(ticks, next(iter(unit_numbers)), offsets[interface])
        at_ns = np.empty(len(ticks), np.int64)
        unit_of_packet = np.array(unit_of_interface)[interface]
        for ticks_per_second, unit_number in unit_numbers.items():
            rows = true_indexes(unit_of_packet == unit_number)
            at_ns[rows] = nanoseconds(ticks[rows], ticks_per_second, offsets[interface[rows]])
        return at_ns


class _ChunkScan:
    """The scan of one chunk: its position, and the packets found so far."""

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
        """Return the positions at which a block may begin, from the current position on."""
        positions = self._candidates.get(order)
        if positions is None:
            # Computed once per chunk.
            candidates = [_aligned_candidates(self.data, shift, order) for shift in range(4)]
            positions = self._candidates[order] = np.sort(np.concatenate(candidates))
        first = int(np.searchsorted(positions, self.at))
        return (int(positions[index]) for index in range(first, len(positions)))


@inlined
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
    inconsistent_count, first_inconsistent = 0, -1
    while at + _MIN_BLOCK_BYTES <= len(data):
        block_type, length = _u32(data, at, is_little), _u32(data, at + 4, is_little)
        if block_type in (SECTION, INTERFACE) or length % 4 or length > MAX_BLOCK_BYTES:
            break
        if length < _MIN_BLOCK_BYTES or at + length > len(data):
            break
        if _u32(data, at + length - _LENGTH_BYTES, is_little) != length:
            break
        if block_type in (PACKET, OBSOLETE_PACKET, SIMPLE_PACKET):
            if (
                length
                < (_SIMPLE_HEADER_BYTES if block_type == SIMPLE_PACKET else _PACKET_HEADER_BYTES)
                + _LENGTH_BYTES
            ):
                break
            if _packet(
                data,
                at,
                is_little,
                block_type,
                length,
                section,
                interface_count,
                snap_length,
                out,
                count,
            ):
                count += 1
            else:
                first_inconsistent = at if inconsistent_count == 0 else first_inconsistent
                inconsistent_count += 1
        at += length
    return at, count, inconsistent_count, first_inconsistent


@inlined
def _packet(  # noqa: PLR0917
    data: Bytes,
    at: int,
    is_little: bool,  # noqa: FBT001
    block_type: int,
    length: int,
    section: int,
    interface_count: int,
    snap_length: int,
    out: Ints,
    count: int,
) -> bool:
    """Write one packet; return False if its block is inconsistent."""
    if block_type == SIMPLE_PACKET:
        header_bytes, interface, ticks = _SIMPLE_HEADER_BYTES, 0, 0
        original = _u32(data, at + 8, is_little)
        captured = min(original, snap_length) if snap_length else original
        captured = min(captured, length - _SIMPLE_HEADER_BYTES - _LENGTH_BYTES)
        original = ~original
    else:
        header_bytes = _PACKET_HEADER_BYTES
        interface = _u32(data, at + 8, is_little)
        if block_type == OBSOLETE_PACKET:  # a 16-bit interface, then a 16-bit count of drops
            interface = interface & 0xFFFF if is_little else interface >> 16
        ticks = _u32(data, at + 12, is_little) << 32 | _u32(data, at + 16, is_little)
        captured, original = _u32(data, at + 20, is_little), _u32(data, at + 24, is_little)
    space = length - header_bytes - _LENGTH_BYTES
    if captured > space or interface >= interface_count:
        return False
    out[0, count], out[1, count] = at, at + header_bytes
    out[2, count], out[3, count] = captured, original
    out[4, count], out[5, count] = ticks, section + interface
    out[6, count] = max(space - ((captured + 3) & ~3), 0)
    return True


def _aligned_candidates(data: Bytes, start: int, order: str) -> Ints:
    """Return the positions at which a block may begin, at every fourth byte from `start` on."""
    numbers = data[start : start + (max(len(data) - start, 0) & ~3)].view(f"{order}u4")
    at = np.flatnonzero(np.isin(numbers, _KNOWN_BLOCK_TYPES))
    if not len(at):
        return at
    lengths = numbers[np.minimum(at + 1, len(numbers) - 1)].astype(np.int64)
    is_candidate = (lengths % 4 == 0) & (lengths >= _MIN_BLOCK_BYTES) & (lengths <= MAX_BLOCK_BYTES)
    end = at + lengths // 4
    fits = end <= len(numbers)
    is_candidate &= ~fits | (numbers[np.where(fits & is_candidate, end, 1) - 1] == lengths)
    is_candidate |= (numbers[at] == SECTION) | (at + 1 >= len(numbers))
    positions: Ints = at[is_candidate] * 4 + start
    return positions


_ENDIAN_BY_ORDER: Final[Mapping[str, Literal["little", "big"]]] = {"<": "little", ">": "big"}


def _interface(body: bytes, order: str) -> Interface:
    """Return the interface of a block; invalid options are ignored."""
    endian = _ENDIAN_BY_ORDER[order]
    ticks_per_second, offset, name, comments = 1_000_000, 0, "", []
    for code, value in options(body[8:], order):
        if code == _COMMENT:
            comments.append(value.decode("utf-8", "replace"))
        elif code == _INTERFACE_NAME:
            name = value.decode("utf-8", "replace")
        elif code == _TIME_RESOLUTION and value:
            is_binary, exponent = value[0] & _BINARY_FLAG, value[0] & ~_BINARY_FLAG
            if exponent <= (_MAX_BINARY_EXPONENT if is_binary else _MAX_DECIMAL_EXPONENT):
                ticks_per_second = (2 if is_binary else 10) ** exponent
        elif code == _TIME_OFFSET and len(value) == 8:  # noqa: PLR2004 - an int64
            offset = int.from_bytes(value, endian, signed=True)
    return Interface(
        link_type=int.from_bytes(body[:2], endian),
        snap_length=int.from_bytes(body[4:8], endian),
        ticks_per_second=ticks_per_second,
        offset_s=offset,
        name=name,
        comments=tuple(comments),
    )


def options(body: bytes, order: str) -> list[tuple[int, bytes]]:
    """Return a block's options, up to the last complete one."""
    pairs = []
    endian, at = _ENDIAN_BY_ORDER[order], 0
    while at + 4 <= len(body):
        code = int.from_bytes(body[at : at + 2], endian)
        size = int.from_bytes(body[at + 2 : at + 4], endian)
        if not code or at + 4 + size > len(body):
            break
        pairs.append((code, body[at + 4 : at + 4 + size]))
        at += 4 + ((size + 3) & ~3)
    return pairs


def comment_of(data: Bytes, packets: Packets, row: int) -> str | None:
    """Return the comment of a packet's block; None if it has none."""
    size = int(packets.options[row])
    if not size:
        return None
    start = int(packets.start[row] + ((packets.captured[row] + 3) & ~3))
    order = "<" if data[int(packets.block_start[row])] else ">"  # a packet block's type, 6 or 2
    for code, value in options(data[start : start + size].tobytes(), order):
        if code == _COMMENT:
            return value.decode("utf-8", "replace")
    return None
