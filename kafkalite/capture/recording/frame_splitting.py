"""`FrameSplitter`: splits one direction of a connection into packets.

A packet contains frames, or a part of a frame that is larger than a segment. A few frames that
arrived together get one packet each. Many frames that are written unchanged share packets, because
a packet costs more time than a frame. All parts of a large frame but the last have the same size,
independent of the sizes in which the bytes arrived. At most one segment is buffered, unless the
treatment needs the complete frame.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import Final

from kafkalite.capture.formats.comments import PacketNote
from kafkalite.capture.formats.pcapng import Buffer
from kafkalite.capture.formats.tcp_packets import SEGMENT_BYTES

LENGTH_BYTES: Final = 4
MIN_REQUEST_BYTES: Final = 8
"""Minimum size of a request after its length: API key, version and correlation id."""
TREATMENT_PREFIX_BYTES: Final = LENGTH_BYTES + MIN_REQUEST_BYTES
"""Number of bytes at the start of a frame that decide its treatment."""

MAX_FRAME_BYTES: Final = 1024 * 1024 * 1024
"""Maximum size of a frame. If a length is larger, it and the bytes after it are not frames."""

MAX_BUFFERED_FRAME_BYTES: Final = 128 * 1024 * 1024
"""Maximum size of a frame that is buffered for its treatment; a larger one is blanked."""

UNFRAMED_PREFIX_BYTES: Final = 5
"""Number of bytes written of data that is not frames, enough to recognise TLS or HTTP."""

MAX_SEPARATE_FRAMES: Final = 8
"""Maximum number of frames that get one packet each if they arrive together."""

_unpack_length = Struct(">i").unpack_from

PacketPayload = tuple[Buffer, PacketNote | None]
"""The payload of one packet, and its note."""


class SimpleTreatment(Enum):
    """Treatments that do not need the complete frame."""

    KEEP = 0
    """Write unchanged."""
    BLANK = 1
    """Write zeros after the first bytes, whose number depends on the direction."""
    HIDE = 2
    """Write zeros after the length."""


TreatedFrame = tuple[bytes, PacketNote | None]
"""A frame after its treatment, and its note."""

Treatment = SimpleTreatment | Callable[[bytes], TreatedFrame]
"""The way in which a frame is written. A function gets the complete frame, including its length."""

ChooseTreatment = Callable[[bytes], Treatment]
"""A function that returns the treatment of a frame. It is called once per frame, with the complete
frame or at least its first TREATMENT_PREFIX_BYTES. It gets fewer bytes only if the connection ends
within them."""

SkipUnchanged = Callable[[Buffer, int, list[int]], int]
"""A function that skips complete frames that are written unchanged. It is called at the start of a
frame, before `ChooseTreatment`. It appends the end of each skipped frame to the list, and returns
the position after the last one."""


class FrameSplitter:
    """Splits one direction of a connection. A blanked frame keeps its first `unchanged_bytes`.

    Bytes that are not frames are written only if `keeps_unframed`, because they may be secret.
    """

    __slots__ = (
        "_buffered",
        "_choose_treatment",
        "_frame_size",
        "_is_unframed",
        "_needed_bytes",
        "_remaining_unframed_bytes",
        "_skip_unchanged",
        "_treatment",
        "_unchanged_bytes",
        "remaining_frame_bytes",
    )  # fmt: skip

    def __init__(
        self,
        skip_unchanged: SkipUnchanged,
        choose_treatment: ChooseTreatment,
        unchanged_bytes: int,
        *,
        keeps_unframed: bool = True,
    ) -> None:
        self._skip_unchanged = skip_unchanged
        self._choose_treatment = choose_treatment
        self._unchanged_bytes = {
            SimpleTreatment.BLANK: unchanged_bytes,
            SimpleTreatment.HIDE: LENGTH_BYTES,
        }
        self._buffered = bytearray()
        self._needed_bytes = LENGTH_BYTES
        """Number of buffered bytes at which splitting can continue."""
        self.remaining_frame_bytes = 0
        """Remaining bytes of a frame whose first part was written."""
        self._frame_size = 0
        """Size of that frame."""
        self._treatment: Treatment | None = None
        """Treatment of the buffered or partly written frame, if already chosen."""
        self._is_unframed = False
        """Whether the bytes are not frames."""
        self._remaining_unframed_bytes = None if keeps_unframed else UNFRAMED_PREFIX_BYTES
        """Remaining number of bytes to write of data that is not frames; None for no limit."""

    def feed(self, data: Buffer, out: list[PacketPayload]) -> None:
        """Append to `out` the packets that `data` completes; most of them refer to `data`."""
        position, end = self._process_buffered(data, out) if self._buffered else 0, len(data)
        while position < end:
            if self._is_unframed:
                self._add_unframed(data[position:], out)
                return
            if not self.remaining_frame_bytes and self._treatment is None:
                ends: list[int] = []
                after = self._skip_unchanged(data, position, ends)
                if ends:
                    _add_unchanged(data, position, ends, out)
                    position = after
                    continue
            size = self._add_next(data, position, end - position, out)
            if size < 0:
                self._buffered = bytearray(data[position:])
                return
            position += size

    def _process_buffered(self, data: Buffer, out: list[PacketPayload]) -> int:
        """Process the buffered bytes with the bytes of `data` that complete them.

        Returns the number of bytes of `data` that were processed.
        """
        position = 0
        while buffered := self._buffered:
            missing = self._needed_bytes - len(buffered)
            if missing > 0:
                buffered += data[position : position + missing]
                position = min(position + missing, len(data))
                if len(buffered) < self._needed_bytes:
                    return position
            # The buffer must not change from here on: parts of it are output without being copied.
            self._buffered = bytearray()
            size = 0
            while size == 0 and not self._is_unframed:
                size = self._add_next(buffered, 0, len(buffered), out)
            if self._is_unframed:
                self._add_unframed(buffered, out)
            elif size < 0:
                self._buffered = buffered
        return position

    def finish(self, out: list[PacketPayload]) -> None:
        """Append the remaining bytes to `out`, at the end of the connection."""
        remaining, self._buffered = bytes(self._buffered), bytearray()
        if not remaining:
            return
        if self.remaining_frame_bytes:
            self._add_part(remaining, out)
            return
        treatment = self._treatment
        if treatment is None and len(remaining) > LENGTH_BYTES:
            treatment = self._choose_treatment(remaining)
        if treatment is not None and treatment is not SimpleTreatment.KEEP:
            # A function needs the complete frame.
            simple = treatment if isinstance(treatment, SimpleTreatment) else SimpleTreatment.BLANK
            _add_segments(*blank_frame(remaining, self._unchanged_bytes[simple]), out)
        else:
            _add_segments(remaining, None, out)

    def _add_next(
        self, data: Buffer, position: int, available: int, out: list[PacketPayload]
    ) -> int:
        """Append a frame or a part; return its size, or -1 if more bytes are needed."""
        if self.remaining_frame_bytes:
            self._needed_bytes = size = min(SEGMENT_BYTES, self.remaining_frame_bytes)
            if available < size:
                return -1
            self._add_part(_slice(data, position, size), out)
            return size
        self._needed_bytes = size = self._next_size(data, position, available)
        if available < size:
            return -1
        if not size:
            return 0
        frame = _slice(data, position, size)
        treatment, self._treatment = self._treatment, None
        if treatment is None:
            treatment = self._choose_treatment(bytes(frame))
        if treatment is SimpleTreatment.KEEP:
            out.append((frame, None))
        elif isinstance(treatment, SimpleTreatment):
            out.append(blank_frame(frame, self._unchanged_bytes[treatment]))
        else:
            _add_segments(*treatment(bytes(frame)), out)
        return size

    def _next_size(self, data: Buffer, position: int, available: int) -> int:
        """Return the number of bytes that the next step needs.

        This is the size of the frame, or the number of bytes that decide its size and treatment. It
        is 0 if the frame is written in parts, or if the bytes are not a frame.
        """
        if available < LENGTH_BYTES:
            return LENGTH_BYTES
        length: int = _unpack_length(data, position)[0]
        if not 0 <= length <= MAX_FRAME_BYTES:
            self._is_unframed = True
            return 0
        size = LENGTH_BYTES + length
        if size <= SEGMENT_BYTES:
            return size
        if available < TREATMENT_PREFIX_BYTES:
            return TREATMENT_PREFIX_BYTES
        if self._treatment is None:
            self._treatment = self._choose_treatment(
                bytes(data[position : position + TREATMENT_PREFIX_BYTES])
            )
            if size > MAX_BUFFERED_FRAME_BYTES and not isinstance(self._treatment, SimpleTreatment):
                self._treatment = SimpleTreatment.BLANK
        if isinstance(self._treatment, SimpleTreatment):
            self.remaining_frame_bytes = self._frame_size = size
            return 0
        return size

    def _add_part(self, part: Buffer, out: list[PacketPayload]) -> None:
        """Append a part of a large frame."""
        treatment, size = self._treatment, len(part)
        if treatment is SimpleTreatment.KEEP:
            out.append((part, None))
        elif self.remaining_frame_bytes == self._frame_size and isinstance(
            treatment, SimpleTreatment
        ):
            out.append(blank_frame(part, self._unchanged_bytes[treatment]))
        else:
            out.append(blank_frame(part, 0))
        self.remaining_frame_bytes -= size
        if not self.remaining_frame_bytes:
            self._treatment = None

    def _add_unframed(self, data: Buffer, out: list[PacketPayload]) -> None:
        """Append bytes that are not frames."""
        if self._remaining_unframed_bytes is None:
            _add_segments(data, None, out)
            return
        written = bytes(data[: self._remaining_unframed_bytes])
        self._remaining_unframed_bytes -= len(written)
        count = len(data) - len(written)
        _add_segments(written + bytes(count), PacketNote(blanked=count) if count else None, out)


def blank_frame(data: Buffer, start: int) -> TreatedFrame:
    """Return a frame, or a part of one, with zeros from `start` on."""
    count = max(0, len(data) - start)
    return bytes(data[:start]) + bytes(count), PacketNote(blanked=count) if count else None


def _slice(data: Buffer, start: int, size: int) -> Buffer:
    return data if size == len(data) else data[start : start + size]


def _add_unchanged(data: Buffer, start: int, ends: list[int], out: list[PacketPayload]) -> None:
    """Append complete frames that are written unchanged."""
    if len(ends) <= MAX_SEPARATE_FRAMES:
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


def _add_segments(data: Buffer, note: PacketNote | None, out: list[PacketPayload]) -> None:
    for start in range(0, len(data), SEGMENT_BYTES):
        out.append((data[start : start + SEGMENT_BYTES], note))
        note = None
