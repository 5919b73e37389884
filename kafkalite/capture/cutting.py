"""One direction of a connection, cut into what goes into packets: frames, and parts of large ones.

A packet begins where a frame does, or carries on one that is too large for a segment, in parts of
one size. Frames that came together get packets of their own as long as they are few; of many, those
that are kept as they are share packets, for a packet costs more than a frame does. Where a part
ends depends on the bytes alone, never on how they came in. Only so much is ever kept of a
direction, unless a frame has to be seen whole to be treated.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import Final

from kafkalite.capture.notes import PacketNote
from kafkalite.capture.pcapng import Buffer
from kafkalite.capture.synthetic import SEGMENT_BYTES

LENGTH_BYTES: Final = 4
REQUEST_HEAD_BYTES: Final = 8
"""What a request has at least behind its length: API, version and correlation id."""
HEAD_BYTES: Final = LENGTH_BYTES + REQUEST_HEAD_BYTES
"""So much of a frame says what it is."""

MAX_FRAME_BYTES: Final = 1024 * 1024 * 1024
"""What claims to be larger is no frame; nor is what follows it."""

MAX_WHOLE_BYTES: Final = 128 * 1024 * 1024
"""A frame that must be seen whole and is larger than this is blanked instead."""

RAW_HEAD_BYTES: Final = 5
"""So much of what is no frame tells what it is instead: TLS, HTTP."""

FEW_FRAMES: Final = 8
"""So many frames that came together have packets of their own."""

_unpack_length = Struct(">i").unpack_from

Piece = tuple[Buffer, PacketNote | None]
"""What one packet carries, and what is said of it."""


class Plain(Enum):
    """Treatments that need not see all of a frame."""

    KEEP = 0
    """As it is."""
    BLANK = 1
    """Zeros behind the head."""
    HIDE = 2
    """Zeros behind the length."""


Treated = tuple[bytes, PacketNote | None]
"""What became of a frame that was treated."""

Treatment = Plain | Callable[[bytes], Treated]
"""What is done with a frame; a function is given all of it, its length included."""

Ask = Callable[[bytes], Treatment]
"""Asked once a frame, with its beginning: the whole frame, or at least HEAD_BYTES of it; with less
only where no more will come."""

Run = Callable[[Buffer, int, list[int]], int]
"""Asked before that, where a frame begins: goes through frames that are kept as they are, adds
where each ends, and returns where something else begins."""


class Cutter:
    """One direction of one connection; `head` bytes of a frame stay where it is blanked.

    What is no frame is kept only where `keeps_raw`: nobody knows whether it is a secret.
    """

    __slots__ = ("_ask", "_held", "_is_raw", "_kept", "_raw_left", "_run", "_size",
                 "_treatment", "_wanted", "inside")  # fmt: skip

    def __init__(self, run: Run, ask: Ask, head: int, *, keeps_raw: bool = True) -> None:
        self._run = run
        self._ask = ask
        self._kept = {Plain.BLANK: head, Plain.HIDE: LENGTH_BYTES}
        self._held = bytearray()
        self._wanted = LENGTH_BYTES
        """Until so many bytes are held, nothing can be done."""
        self.inside = 0
        """How many bytes of a frame are still to go out whose first part has."""
        self._size = 0
        """How large that frame is."""
        self._treatment: Treatment | None = None
        """Decided already for the frame that is held or under way."""
        self._is_raw = False
        """Whether these are no frames, as far as can be seen."""
        self._raw_left = None if keeps_raw else RAW_HEAD_BYTES
        """So much of what is no frame will be kept; None for all of it."""

    def feed(self, data: Buffer, out: list[Piece]) -> None:
        """Add to `out` what has become whole by `data`, parts of which go out as they are."""
        position, end = self._complete(data, out) if self._held else 0, len(data)
        while position < end:
            if self._is_raw:
                self._add_raw(data[position:], out)
                return
            if not self.inside and self._treatment is None:
                ends: list[int] = []
                after = self._run(data, position, ends)
                if ends:
                    _add_run(data, position, ends, out)
                    position = after
                    continue
            taken = self._take(data, position, end - position, out)
            if taken < 0:
                self._held = bytearray(data[position:])
                return
            position += taken

    def _complete(self, data: Buffer, out: list[Piece]) -> int:
        """Add to what is held no more than it lacks; how much of `data` that took."""
        position = 0
        while held := self._held:
            missing = self._wanted - len(held)
            if missing > 0:
                held += data[position : position + missing]
                position = min(position + missing, len(data))
                if len(held) < self._wanted:
                    return position
            # Not changed any more, so that it may go out as it is.
            self._held = bytearray()
            taken = 0
            while taken == 0 and not self._is_raw:
                taken = self._take(held, 0, len(held), out)
            if self._is_raw:
                self._add_raw(held, out)
            elif taken < 0:
                self._held = held
        return position

    def finish(self, out: list[Piece]) -> None:
        """Add what is left to `out`: nothing more will come."""
        rest, self._held = bytes(self._held), bytearray()
        if not rest:
            return
        if self.inside:
            self._add_part(rest, out)
            return
        treatment = self._treatment
        if treatment is None and len(rest) > LENGTH_BYTES:
            treatment = self._ask(rest)
        if treatment is not None and treatment is not Plain.KEEP:
            # What could be treated whole cannot be any more.
            plain = treatment if isinstance(treatment, Plain) else Plain.BLANK
            _cut(*blanked(rest, self._kept[plain]), out)
        else:
            _cut(rest, None, out)

    def _take(self, data: Buffer, position: int, left: int, out: list[Piece]) -> int:
        """Add a frame or a part of one; how many bytes that took, -1 where more are wanted."""
        if self.inside:
            self._wanted = size = min(SEGMENT_BYTES, self.inside)
            if left < size:
                return -1
            self._add_part(_part(data, position, size), out)
            return size
        self._wanted = size = self._next_size(data, position, left)
        if left < size:
            return -1
        if not size:
            return 0
        frame = _part(data, position, size)
        treatment, self._treatment = self._treatment, None
        if treatment is None:
            treatment = self._ask(bytes(frame))
        if treatment is Plain.KEEP:
            out.append((frame, None))
        elif isinstance(treatment, Plain):
            out.append(blanked(frame, self._kept[treatment]))
        else:
            _cut(*treatment(bytes(frame)), out)
        return size

    def _next_size(self, data: Buffer, position: int, left: int) -> int:
        """Return how many bytes there must be for the next step.

        All of a frame, or so much that its size is known and what is done with it; 0 where that is
        to be sent in parts, or to be no frame.
        """
        if left < LENGTH_BYTES:
            return LENGTH_BYTES
        length: int = _unpack_length(data, position)[0]
        if not 0 <= length <= MAX_FRAME_BYTES:
            self._is_raw = True
            return 0
        size = LENGTH_BYTES + length
        if size <= SEGMENT_BYTES:
            return size
        if left < HEAD_BYTES:
            return HEAD_BYTES
        if self._treatment is None:
            self._treatment = self._ask(bytes(data[position : position + HEAD_BYTES]))
            if size > MAX_WHOLE_BYTES and not isinstance(self._treatment, Plain):
                self._treatment = Plain.BLANK
        if isinstance(self._treatment, Plain):
            self.inside = self._size = size
            return 0
        return size

    def _add_part(self, part: Buffer, out: list[Piece]) -> None:
        """Add a part of the frame that is under way."""
        treatment, size = self._treatment, len(part)
        if treatment is Plain.KEEP:
            out.append((part, None))
        elif self.inside == self._size and isinstance(treatment, Plain):
            out.append(blanked(part, self._kept[treatment]))
        else:
            out.append(blanked(part, 0))
        self.inside -= size
        if not self.inside:
            self._treatment = None

    def _add_raw(self, data: Buffer, out: list[Piece]) -> None:
        """Add what is no frame."""
        if self._raw_left is None:
            _cut(data, None, out)
            return
        kept = bytes(data[: self._raw_left])
        self._raw_left -= len(kept)
        count = len(data) - len(kept)
        _cut(kept + bytes(count), PacketNote(blanked=count) if count else None, out)


def blanked(data: Buffer, start: int) -> Treated:
    """Return a frame, or a part of one, with zeros from `start` on."""
    count = max(0, len(data) - start)
    return bytes(data[:start]) + bytes(count), PacketNote(blanked=count) if count else None


def _part(data: Buffer, start: int, size: int) -> Buffer:
    return data if size == len(data) else data[start : start + size]


def _add_run(data: Buffer, start: int, ends: list[int], out: list[Piece]) -> None:
    """Add whole frames that are kept as they are."""
    if len(ends) <= FEW_FRAMES:
        for end in ends:
            out.append((data[start:end], None))
            start = end
        return
    last = start
    for end in ends:
        if end - start > SEGMENT_BYTES:
            out.append((data[start:last], None))
            start = last
        last = end
    out.append((data[start:last], None))


def _cut(data: Buffer, note: PacketNote | None, out: list[Piece]) -> None:
    for start in range(0, len(data), SEGMENT_BYTES):
        out.append((data[start : start + SEGMENT_BYTES], note))
        note = None
