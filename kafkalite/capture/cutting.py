"""One direction of a connection, cut into what goes into packets: frames, and parts of large ones.

Where the cuts are depends on the bytes alone, never on how they came in: a frame goes out when all
of it has come, one too large for a segment in parts of one size. Only so much is ever kept of a
direction, unless a frame has to be seen whole to be treated.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import Final, NamedTuple

from kafkalite.capture.notes import PacketNote
from kafkalite.capture.synthetic import SEGMENT_BYTES

LENGTH_BYTES: Final = 4
HEAD_BYTES: Final = 12
"""So much of a frame says what it is: its length, API, version and correlation id."""

MAX_FRAME_BYTES: Final = 1024 * 1024 * 1024
"""What claims to be larger is no frame; nor is what follows it."""

MAX_WHOLE_BYTES: Final = 128 * 1024 * 1024
"""A frame that must be seen whole and is larger than this is blanked instead."""

_unpack_length = Struct(">i").unpack_from


class Piece(NamedTuple):
    """What one packet carries."""

    data: bytes
    note: PacketNote | None = None


class Plain(Enum):
    """Treatments that need not see all of a frame."""

    KEEP = 0
    """As it is."""
    BLANK = 1
    """Zeros behind the head."""
    HIDE = 2
    """Zeros behind the length."""


Treatment = Plain | Callable[[bytes], Piece]
"""What is done with a frame; a function is given all of it, its length included."""

Judge = Callable[[bytes], Treatment]
"""Asked once a frame, with its beginning: the whole frame, or at least HEAD_BYTES of it; with less
only where no more will come."""


class Cutter:
    """One direction of one connection; `kept` bytes of a head stay where a frame is blanked."""

    __slots__ = (
        "_held", "_is_raw", "_judge", "_kept", "_left", "_size", "_treatment", "_wanted",
    )  # fmt: skip

    def __init__(self, judge: Judge, kept: int = HEAD_BYTES) -> None:
        self._judge = judge
        self._kept = {Plain.BLANK: kept, Plain.HIDE: LENGTH_BYTES}
        self._held = bytearray()
        self._wanted = LENGTH_BYTES
        """Until so many bytes are held, nothing can be done."""
        self._left = 0
        """What is still to come of a frame that goes out in parts."""
        self._size = 0
        """How large that frame is."""
        self._treatment: Treatment | None = None
        """Decided already for the frame that is held or under way."""
        self._is_raw = False

    @property
    def inside(self) -> int:
        """How many bytes of a frame are still to go out whose first part has."""
        return self._left

    def feed(self, data: bytes, out: list[Piece]) -> None:
        """Add to `out` what has become whole by `data`."""
        held = self._held
        if held:
            held += data
            if len(held) < self._wanted:
                return
            data = bytes(held)
            self._held = bytearray()
        position, end = 0, len(data)
        while position < end:
            left = end - position
            if self._is_raw:
                self._cut(data[position:], None, out)
                return
            if self._left:
                size = min(SEGMENT_BYTES, self._left)
                if left < size:
                    break
                self._add_part(data[position : position + size], out)
                position += size
                continue
            self._wanted = size = self._frame_size(data, position, left)
            if left < size:
                break
            if self._is_raw:
                continue
            position += self._take(data, position, size, out)
        if position < end:
            self._hold(data[position:])

    def finish(self, out: list[Piece]) -> None:
        """Add what is left to `out`: nothing more will come."""
        rest, self._held = bytes(self._held), bytearray()
        if not rest:
            return
        if self._left:
            self._add_part(rest, out)
            return
        treatment = self._treatment
        if treatment is None and len(rest) > LENGTH_BYTES and not self._is_raw:
            treatment = self._judge(rest)
        if treatment is not None and treatment is not Plain.KEEP:
            # What could be treated whole cannot be any more.
            plain = treatment if isinstance(treatment, Plain) else Plain.BLANK
            rest, note = self._blanked(rest, plain)
            self._cut(rest, note, out)
        else:
            self._cut(rest, None, out)

    def _frame_size(self, data: bytes, position: int, left: int) -> int:
        """Return how many bytes there must be for the next step: a frame, or its beginning."""
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
            self._treatment = self._judge(data[position : position + HEAD_BYTES])
            if size > MAX_WHOLE_BYTES and not isinstance(self._treatment, Plain):
                self._treatment = Plain.BLANK
        if isinstance(self._treatment, Plain):
            self._left = self._size = size
            return 0
        return size

    def _take(self, data: bytes, position: int, size: int, out: list[Piece]) -> int:
        """Add a whole frame, and return its size; 0 where it goes out in parts instead."""
        if self._left:
            return 0
        frame = data[position : position + size]
        treatment, self._treatment = self._treatment, None
        if treatment is None:
            treatment = self._judge(frame)
        if treatment is Plain.KEEP:
            out.append(Piece(frame))
        elif isinstance(treatment, Plain):
            out.append(Piece(*self._blanked(frame, treatment)))
        else:
            piece = treatment(frame)
            self._cut(piece.data, piece.note, out)
        return size

    def _add_part(self, part: bytes, out: list[Piece]) -> None:
        """Add a part of the frame that is under way."""
        treatment, size = self._treatment, len(part)
        if treatment is Plain.KEEP:
            out.append(Piece(part))
        elif self._left == self._size and isinstance(treatment, Plain):
            out.append(Piece(*self._blanked(part, treatment)))
        else:
            out.append(Piece(bytes(size), PacketNote(blanked=size)))
        self._left -= size
        if not self._left:
            self._treatment = None

    def _blanked(self, data: bytes, treatment: Plain) -> tuple[bytes, PacketNote | None]:
        """Return the beginning of a frame with zeros where it shall have them."""
        kept = self._kept[treatment]
        count = max(0, len(data) - kept)
        return data[:kept] + bytes(count), PacketNote(blanked=count) if count else None

    def _cut(self, data: bytes, note: PacketNote | None, out: list[Piece]) -> None:
        for start in range(0, len(data), SEGMENT_BYTES):
            out.append(Piece(data[start : start + SEGMENT_BYTES], note))
            note = None

    def _hold(self, rest: bytes) -> None:
        self._held = bytearray(rest)
        if self._left:
            self._wanted = min(SEGMENT_BYTES, self._left)
