"""pcapng: from a file's blocks to where its packets stand.

Bytes come in chunks of bounded size; what a chunk leaves unused is handed in again in front of
the next. Packets, of which a capture consists, are walked by a compiled loop; it stops at
whatever says more, or is wrong.

A block is right where its length is the same in front and behind. Where it is not, or cannot be
one, the walk resumes where a block of a known kind is right next, whatever number of bytes that
is away.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from kafkalite.capture.blocks import MAX_BLOCK_BYTES
from kafkalite.capture.model import ProblemKind
from kafkalite.columnar.arrays import Room, where
from kafkalite.columnar.captured import Interface, Packets, Rest, nanoseconds
from kafkalite.columnar.compiled import kernel, peek_u32, peek_u32le, piece

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
        self._room = Room()

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

        What was returned before is no more. With `is_last` all of them are, and what is no whole
        block is told as a problem.
        """
        # No block of a packet is smaller than a simple one.
        room = self._room.take(7, len(data) // _MIN_LENGTHS[SIMPLE_PACKET] + 1)
        walk = _Walk(data, offset, room)
        while walk.at < len(data):
            if self._is_lost and not self._resume(walk, is_last=is_last):
                break
            self._take_packets(walk)
            if walk.at >= len(data):
                break
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
        return self._timed(walk), min(walk.at, len(data))

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

    def _take_packets(self, walk: _Walk) -> None:
        """Take all packets up to a block that is not one, or is not right."""
        section = self._section
        known = len(self.interfaces) - section
        snap = self.interfaces[section].snap_length if known else 0
        walk.at, walk.count, wrong, first = packet_blocks(
            walk.data, walk.at, self._order == "<", section, known, snap, walk.room, walk.count
        )
        if wrong:
            what = "a packet's block names no interface, or more bytes than it has"
            self._tell(ProblemKind.CORRUPT_BLOCK, walk.offset + first, what, wrong)

    def _take_block(self, walk: _Walk, kind: int, length: int) -> None:
        """Take a block that is right, and no packet."""
        if length < _MIN_LENGTHS.get(kind, _MIN_BLOCK):
            self._tell(
                ProblemKind.CORRUPT_BLOCK,
                walk.offset + walk.at,
                "a block too short for its kind",
                1,
            )
        elif kind == SECTION:
            self._section = len(self.interfaces)
        elif kind == INTERFACE:
            body = bytes(walk.data[walk.at + 8 : walk.at + length - _TAIL])
            self.interfaces.append(_interface(body, self._order))
        walk.at += length

    def _timed(self, walk: _Walk) -> Packets:
        """Return the packets found, their times as nanoseconds."""
        at, start, captured, original, ticks, interface, options = walk.room[:, : walk.count]
        if not walk.count:
            return Packets()
        at_ns = self._times(ticks, interface)
        # A simple packet has no time of its own: it came no earlier than the packet before it.
        bare = original < 0
        if bare.any():
            last = np.maximum.accumulate(np.where(bare, -1, np.arange(len(bare))))
            at_ns = np.where(last < 0, self._last_ns, at_ns[last])
            original = np.where(bare, ~original, original)
        self._last_ns = int(at_ns[-1])
        return Packets(
            at=at, start=start, captured=captured, original=original, at_ns=at_ns,
            interface=interface, options=options,
        )  # fmt: skip

    def _times(self, ticks: Ints, interface: Ints) -> Ints:
        """Return times in nanoseconds, by what their interfaces count.

        Interfaces may be as many as packets: they are gone through by what they count in, of
        which there are few kinds.
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
    """The way through one chunk, and what was found on it."""

    def __init__(self, data: Bytes, offset: int, room: Ints) -> None:
        self.data = data
        self.offset = offset
        self.at = 0
        self.room = room
        """A column a packet; the rows are as `packet_blocks` fills them."""
        self.count = 0
        """How many packets were found."""
        self._plausible: dict[str, Ints] = {}

    def plausible(self, order: str) -> Iterator[int]:
        """Return where, from here on, a block of a known kind could begin."""
        places = self._plausible.get(order)
        if places is None:
            # Looked for once a chunk, however often the way is lost in it.
            found = [_aligned(self.data, shift, order) for shift in range(4)]
            places = self._plausible[order] = np.sort(np.concatenate(found))
        first = int(np.searchsorted(places, self.at))
        return (int(places[nth]) for nth in range(first, len(places)))


@piece
def _u32(data: Bytes, at: int, is_little: bool) -> int:  # noqa: FBT001 - as kernels are called
    return peek_u32le(data, at) if is_little else peek_u32(data, at)


@kernel
def packet_blocks(  # noqa: PLR0917
    data: Bytes,
    at: int,
    is_little: bool,  # noqa: FBT001
    section: int,
    known: int,
    snap: int,
    room: Ints,
    count: int,
) -> tuple[int, int, int, int]:
    """Walk from block to block, up to one that is for the scanner, and put packets into `room`.

    Return where that is, how many packets there are now, how many of the blocks on the way say
    what cannot be, and where the first of these stands.
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
            if _packet(data, at, is_little, kind, length, section, known, snap, room, count):
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
    known: int,
    snap: int,
    room: Ints,
    count: int,
) -> bool:
    """Note one packet; False where its block makes no sense."""
    if kind == SIMPLE_PACKET:
        head, interface, ticks = _SIMPLE_HEAD, 0, 0
        original = _u32(data, at + 8, is_little)
        captured = min(original, snap) if snap else original
        captured = min(captured, length - _SIMPLE_HEAD - _TAIL)
        original = ~original
    else:
        head = _HEAD
        interface = _u32(data, at + 8, is_little)
        if kind == OLD_PACKET:  # two numbers of sixteen bits, the other counts drops
            interface = interface & 0xFFFF if is_little else interface >> 16
        ticks = _u32(data, at + 12, is_little) << 32 | _u32(data, at + 16, is_little)
        captured, original = _u32(data, at + 20, is_little), _u32(data, at + 24, is_little)
    space = length - head - _TAIL
    if captured > space or interface >= known:
        return False
    room[0, count], room[1, count] = at, at + head
    room[2, count], room[3, count] = captured, original
    room[4, count], room[5, count] = ticks, section + interface
    room[6, count] = max(space - ((captured + 3) & ~3), 0)
    return True


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
