"""pcapng: from a file's blocks to where its packets stand.

Bytes come in chunks of bounded size; what a chunk leaves unused is handed in again in front of
the next. Enhanced packet blocks, of which a capture consists, are found all at once and reached
in runs; whatever stands between is looked at block by block.

A block is right where its length is the same in front and behind. Where it is not, or cannot be
one, the walk resumes where a block of a known kind is right next, whatever number of bytes that
is away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from kafkalite.capture.blocks import MAX_BLOCK_BYTES
from kafkalite.capture.model import ProblemKind
from kafkalite.columnar.arrays import Windows, u16be, u16le, u32be, u32le, where
from kafkalite.columnar.captured import Interface, Packets, Rest, nanoseconds
from kafkalite.columnar.chains import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.columnar.arrays import Bytes, Ints

Tell = Callable[[ProblemKind, int | None, str, int], None]
"""Told what is wrong: the kind, where in the file, a line for people, how often."""

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_KNOWN: Final = (SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET)
_MAGIC: Final = {bytes.fromhex("1a2b3c4d"): ">", bytes.fromhex("4d3c2b1a"): "<"}
_MIN_BLOCK: Final = 12
_MIN_LENGTHS: Final = {SECTION: 28, INTERFACE: 20, OLD_PACKET: 32, SIMPLE_PACKET: 16, PACKET: 32}
_PACKET_KINDS: Final = frozenset({OLD_PACKET, SIMPLE_PACKET, PACKET})
_HEAD, _SIMPLE_HEAD, _TAIL = 28, 12, 4
_COMMENT, _NAME, _TSRESOL, _TSOFFSET = 1, 2, 9, 14
_FINEST_DECIMAL, _FINEST_BINARY, _BINARY = 19, 63, 0x80


class Verdict(Enum):
    """What a block at some position is."""

    WHOLE = auto()
    UNFINISHED = auto()
    """It goes on behind the bytes at hand."""
    WRONG = auto()


class BlockScanner:
    """Reads one pcapng file, chunk by chunk."""

    def __init__(self, tell: Tell) -> None:
        self.interfaces: list[Interface] = []
        self._tell = tell
        self._order = "<"
        self._section = 0  # the index of the section's first interface
        self._last_ns = 0
        self._is_lost = False  # between a wrong block and the next right one

    def rest(self) -> Rest | None:
        """Return what is known behind the last chunk; None while the way is lost."""
        if self._is_lost:
            return None
        known = tuple(self.interfaces[self._section :])
        return Rest(interfaces=known, order=self._order, last_ns=self._last_ns)

    def go_on(self, rest: Rest) -> None:
        """Take up the file where it was left so."""
        self.interfaces.extend(rest.interfaces)
        self._order, self._last_ns = rest.order, rest.last_ns

    def scan(self, data: Bytes, offset: int, *, is_last: bool) -> tuple[Packets, int]:
        """Return the packets of a chunk that begins with a block, and how many bytes were used.

        With `is_last` all of them are, and what is no whole block is told as a problem.
        """
        walk = _Walk(data, offset)
        while walk.at < len(data):
            if self._is_lost and not self._resume(walk, is_last=is_last):
                break
            if walk.count and walk.order != self._order:
                self._flush(walk)
            if walk.take_run(self._order):
                continue
            verdict, kind, length = self._judge(data, walk.at)
            if verdict is Verdict.WHOLE:
                self._take_block(walk, kind, length)
            elif verdict is Verdict.UNFINISHED and not is_last:
                break
            else:
                cut = verdict is Verdict.UNFINISHED
                problem = ProblemKind.TRUNCATED_BLOCK if cut else ProblemKind.CORRUPT_BLOCK
                self._tell(problem, offset + walk.at, f"{problem} of {length} bytes", 1)
                self._is_lost = True
                walk.at += 1
        self._flush(walk)
        return Packets.joined(walk.parts), min(walk.at, len(data))

    def _resume(self, walk: _Walk, *, is_last: bool) -> bool:
        """Go to the next right block; False where the chunk has none, or not the whole of it."""
        data, order = walk.data, ""
        while order != self._order:
            # A section's beginning, right or not, says in which order to go on.
            order = self._order
            for at in walk.plausible(order):
                verdict, _, _ = self._judge(data, at)
                if verdict is Verdict.WHOLE:
                    self._is_lost = False
                    walk.at = at
                    return True
                if verdict is Verdict.UNFINISHED and not is_last:
                    walk.at = at
                    return False
                if order != self._order:
                    walk.at = at + 1
                    break
        walk.at = len(data) if is_last else max(walk.at, len(data) - _MIN_BLOCK + 1)
        return False

    def _judge(self, data: Bytes, at: int) -> tuple[Verdict, int, int]:
        """Return what stands at a position: a verdict, the block's kind and its length."""
        head = bytes(data[at : at + _MIN_BLOCK])
        if len(head) < _MIN_BLOCK:
            return Verdict.UNFINISHED, 0, len(head)
        least = _MIN_BLOCK
        if head[:4] == SECTION.to_bytes(4):
            order = _MAGIC.get(head[8:])
            if order is None:
                return Verdict.WRONG, SECTION, 0
            self._order, least = order, _MIN_LENGTHS[SECTION]
        endian = _ENDIAN[self._order]
        kind = int.from_bytes(head[:4], endian)
        length = int.from_bytes(head[4:8], endian)
        if length % 4 or not least <= length <= MAX_BLOCK_BYTES:
            return Verdict.WRONG, kind, length
        if at + length > len(data):
            return Verdict.UNFINISHED, kind, length
        tail = bytes(data[at + length - _TAIL : at + length])
        return Verdict.WHOLE if tail == head[4:8] else Verdict.WRONG, kind, length

    def _take_block(self, walk: _Walk, kind: int, length: int) -> None:
        if length < _MIN_LENGTHS.get(kind, _MIN_BLOCK):
            self._tell(
                ProblemKind.CORRUPT_BLOCK,
                walk.offset + walk.at,
                "a block too short for its kind",
                1,
            )
        elif kind in _PACKET_KINDS:
            if walk.count and walk.order != self._order:
                self._flush(walk)
            walk.order = self._order
            walk.found.append(np.array([walk.at], np.int64))
            walk.count += 1
        elif kind == SECTION:
            self._flush(walk)
            magic = bytes(walk.data[walk.at + 8 : walk.at + 12])
            self._order = _MAGIC[magic]
            self._section = len(self.interfaces)
        elif kind == INTERFACE:
            body = bytes(walk.data[walk.at + 8 : walk.at + length - _TAIL])
            walk.known.append((walk.count, len(self.interfaces)))
            self.interfaces.append(_interface(body, self._order))
        walk.at += length

    def _flush(self, walk: _Walk) -> None:
        """Read the heads of the packets found since the section began."""
        if not walk.count:
            walk.known.clear()
            return
        known = np.full(walk.count, len(self.interfaces) - self._section, np.int64)
        for count, index in reversed(walk.known):
            known[:count] = index - self._section
        at = np.concatenate(walk.found)
        walk.found.clear()
        walk.known.clear()
        walk.count = 0
        packets, ticks, is_right = _heads(
            walk.data, at, walk.order, self.interfaces[self._section :]
        )
        is_right &= packets.interface < known
        if not is_right.all():
            wrong = where(~is_right)
            self._tell(
                ProblemKind.CORRUPT_BLOCK,
                walk.offset + int(at[wrong[0]]),
                "a packet's block names no interface, or more bytes than it has",
                len(wrong),
            )
            packets, ticks = packets.picked(where(is_right)), ticks[is_right]
        if len(packets):
            walk.parts.append(self._timed(packets, ticks))

    def _timed(self, packets: Packets, ticks: Ints) -> Packets:
        at_ns = np.empty(len(packets), np.int64)
        for number in np.flatnonzero(np.bincount(packets.interface)).tolist():
            rows = (
                slice(None)
                if len(self.interfaces) - self._section == 1
                else packets.interface == number
            )
            at_ns[rows] = nanoseconds(ticks[rows], self.interfaces[self._section + number])
        # A simple packet has no time of its own: it came no earlier than the packet before it.
        bare = packets.original < 0
        if bare.any():
            last = np.maximum.accumulate(np.where(bare, -1, np.arange(len(bare))))
            at_ns = np.where(last < 0, self._last_ns, at_ns[last])
            packets = replace(
                packets, original=np.where(bare, -packets.original - 1, packets.original)
            )
        self._last_ns = int(at_ns[-1])
        return replace(packets, at_ns=at_ns, interface=packets.interface + self._section)


class _Walk:
    """The way through one chunk, and what was found on it."""

    def __init__(self, data: Bytes, offset: int) -> None:
        self.data = data
        self.offset = offset
        self.at = 0
        self.found: list[Ints] = []
        self.count = 0
        self.order = ""
        """The byte order of what was found."""
        self.known: list[tuple[int, int]] = []
        """Where an interface appears: how many packets came before, how many interfaces."""
        self.parts: list[Packets] = []
        self._runs: dict[tuple[str, int], Runs] = {}
        self._plausible: dict[str, Ints] = {}

    def take_run(self, order: str) -> bool:
        """Take the run of packets that begins here, if one does."""
        # All blocks are multiples of four bytes long; where some were lost, not so their places.
        shift = self.at & 3
        runs = self._runs.get((order, shift))
        if runs is None:
            starts, ends = _candidates(self.data[shift:], order)
            runs = self._runs[order, shift] = Runs(starts + shift, ends + shift)
        first = runs.find(self.at)
        if first < 0:
            return False
        after, self.at = runs.run(first, len(self.data))
        self.order = order
        self.found.append(runs.starts[first:after])
        self.count += after - first
        return True

    def plausible(self, order: str) -> Iterator[int]:
        """Return where, from here on, a block of a known kind could begin."""
        places = self._plausible.get(order)
        if places is None:
            # Looked for once a chunk, however often the way is lost in it.
            found = [_aligned(self.data, shift, order) for shift in range(4)]
            places = self._plausible[order] = np.sort(np.concatenate(found))
        first = int(np.searchsorted(places, self.at))
        return (int(places[nth]) for nth in range(first, len(places)))


def _candidates(data: Bytes, order: str) -> tuple[Ints, Ints]:
    """Return where bytes look like whole packet blocks, and where these end."""
    words = data[: len(data) & ~3].view(f"{order}u4")
    at = np.flatnonzero(words == PACKET)
    at = at[at < len(words) - 7]
    length = words[at + 1].astype(np.int64)
    end = at + length // 4
    is_block = (length % 4 == 0) & (length >= _MIN_LENGTHS[PACKET]) & (length <= MAX_BLOCK_BYTES)
    is_block &= end <= len(words)
    is_block &= words[at + 5] <= length - (_HEAD + _TAIL)
    at, end, length = at[is_block], end[is_block], length[is_block]
    agrees = words[end - 1] == length
    return at[agrees] * 4, end[agrees] * 4


def _aligned(data: Bytes, start: int, order: str) -> Ints:
    """Return where, at every fourth position from `start` on, a known block could begin."""
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
    places: Ints = at[likely] * 4 + start
    return places


_ENDIAN: Final[Mapping[str, Literal["little", "big"]]] = {"<": "little", ">": "big"}


def _heads(
    data: Bytes, at: Ints, order: str, interfaces: list[Interface]
) -> tuple[Packets, Ints, np.ndarray]:
    """Return what the heads of packet blocks say; the original size of a simple one is ~size."""
    u16, u32 = (u16le, u32le) if order == "<" else (u16be, u32be)
    window = Windows(data, at, _HEAD)
    kind, length, interface, high, low, captured, original = (
        window.read(f"{order}u4", offset) for offset in range(0, _HEAD, 4)
    )
    if (kind == PACKET).all():
        ticks = high << 32 | low
        room = length - (_HEAD + _TAIL)
        start = at + _HEAD
    else:
        simple = kind == SIMPLE_PACKET
        # A simple packet block may be too short to have all of these.
        long = np.where(simple, at[0] if not simple[0] else 0, at)
        safe = np.minimum(long, len(data) - _HEAD)
        ticks = (u32(data, safe + 12) << 32) | u32(data, safe + 16)
        number = np.where(kind == OLD_PACKET, u16(data, safe + 8), u32(data, safe + 8))
        interface = np.where(simple, 0, number)
        size = u32(data, at + 8)
        room = length - np.where(simple, _SIMPLE_HEAD + _TAIL, _HEAD + _TAIL)
        snap = interfaces[0].snap_length if interfaces else 0
        kept = np.minimum(size, snap) if snap else size
        captured = np.where(simple, np.minimum(kept, room), u32(data, safe + 20))
        original = np.where(simple, ~size, u32(data, safe + 24))
        start = at + np.where(simple, _SIMPLE_HEAD, _HEAD)
    options = np.maximum(room - ((captured + 3) & ~3), 0)
    packets = Packets(
        at=at, start=start, captured=captured, original=original, at_ns=ticks,
        interface=interface, options=options,
    )  # fmt: skip
    return packets, ticks, captured <= room


def _interface(body: bytes, order: str) -> Interface:
    """Return what an interface block says; options that make no sense are passed over."""
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
    """Return a block's options, up to the last whole one."""
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
    """Return what a packet's block says in its comment."""
    size = int(packets.options[row])
    if not size:
        return None
    start = int(packets.start[row] + ((packets.captured[row] + 3) & ~3))
    order = "<" if data[int(packets.at[row])] else ">"  # a packet block's type, 6 or 2
    for code, value in options(data[start : start + size].tobytes(), order):
        if code == _COMMENT:
            return value.decode("utf-8", "replace")
    return None
