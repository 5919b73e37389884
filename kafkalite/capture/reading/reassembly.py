"""`Stream`: reassembles one direction of a TCP connection into bytes in order, and gaps.

A gap stays open while a retransmission may fill it. It is skipped when the other side has
acknowledged the missing bytes (the capture lost them, not the network), when too many bytes after
it are buffered, or after a timeout.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkalite.capture.reading.packets import ACK
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.capture.reading.packets import Segment

MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
"""Maximum buffered bytes after a gap, per direction."""
MAX_WAITING_SEGMENTS: Final = 8192
MAX_WAIT_NS: Final = 10_000_000_000
"""Maximum wait for a retransmission."""

_ACKNOWLEDGED_WAIT_NS: Final = 200_000_000
_ACKNOWLEDGED_SEGMENTS: Final = 16
"""Time, or number of buffered segments, after which acknowledged missing bytes are skipped. Packets
of several queues or interfaces are out of order by less."""
_SEQ_MASK: Final = 0xFFFFFFFF
_HALF_SEQ_RANGE: Final = 0x80000000
_MIN_RESTART_DISTANCE_BYTES: Final = 16 * 1024 * 1024
"""Minimum distance before the current position of a segment that is too old to be a retransmission.
Several such segments are the start of a new connection between the same ports."""
_MIN_RESTART_SEGMENTS: Final = 3


class Piece(NamedTuple):
    """Contiguous bytes after the previous piece."""

    data: bytes
    at_ns: int
    file: str
    offset: int
    seq: int | None = None
    """TCP sequence number of its first byte; it does not change if the piece is cut."""
    acknowledged: int | None = None
    """The number that its segment acknowledges; None if it acknowledges nothing."""


class MissingBytes(NamedTuple):
    """A gap between the previous and the next piece."""

    size: int
    at_ns: int


StreamItems: TypeAlias = tuple[Piece | MissingBytes, ...] | list[Piece | MissingBytes]


class _WaitingSegment(NamedTuple):
    """A segment after a gap, with its position in the stream."""

    position: int
    number: int
    segment: Segment


class Stream:
    """The bytes of one direction of a connection."""

    __slots__ = (
        "_end",
        "_latest_ns",
        "_next_seq",
        "_position",
        "_restart_segments",
        "_segment_number",
        "_waiting",
        "_waiting_bytes",
        "acknowledged",
        "gap_since_ns",
    )

    def __init__(self) -> None:
        self._next_seq: int | None = None
        self._position = 0
        self._waiting: list[_WaitingSegment] = []
        self._waiting_bytes = 0
        self._segment_number = 0
        self._latest_ns = 0
        self._restart_segments = 0
        self._end: int | None = None
        self.acknowledged: int | None = None
        """The last sequence number that the other side acknowledged."""
        self.gap_since_ns: int | None = None
        """Time of the earliest segment after the gap; None if there is no gap."""

    @property
    def next_seq(self) -> int | None:
        """Sequence number of the next byte; None before the first."""
        return self._next_seq

    @property
    def has_received_bytes(self) -> bool:
        """Whether any bytes were received."""
        return self._position > 0 or bool(self._waiting)

    def begin(self, seq: int) -> None:
        """Set the first byte's sequence number, unless the stream has begun."""
        if self._next_seq is None:
            self._next_seq = seq

    @property
    def is_at_end(self) -> bool:
        """Whether all bytes before the FIN were received."""
        return self._end is not None and self._position >= self._end

    def push(self, segment: Segment, seq: int) -> StreamItems:
        """Return the bytes that a segment makes available; its payload begins at `seq`."""
        payload = segment.payload
        if self._next_seq == seq and not self._waiting and not segment.missing:
            size = len(payload)
            piece = self._piece(segment, payload)
            self._position += size
            self._next_seq = (seq + size) & _SEQ_MASK
            self._restart_segments = 0
            return (piece,)
        self.begin(seq)
        distance = self._distance(seq)
        if distance <= -_MIN_RESTART_DISTANCE_BYTES and not self._restart_if_repeated(seq):
            return ()
        size = len(payload) + segment.missing
        if self._next_seq == seq:
            distance = 0
        if distance + size <= 0:
            return ()
        insort(
            self._waiting, _WaitingSegment(self._position + distance, self._segment_number, segment)
        )
        self._segment_number += 1
        self._waiting_bytes += len(payload)
        if self.gap_since_ns is None or self.gap_since_ns > segment.at_ns:
            self.gap_since_ns = segment.at_ns
        return self._drain()

    def close(self, seq: int) -> None:
        """Note that the direction ends at `seq`."""
        self.begin(seq)
        if self._end is None:
            self._end = self._position + self._distance(seq)

    def is_overdue(self, now_ns: int) -> bool:
        """Whether the first gap is to be skipped."""
        if self.gap_since_ns is None:
            return False
        waited = now_ns - self.gap_since_ns
        if (
            self._waiting_bytes > MAX_WAITING_BYTES
            or len(self._waiting) > MAX_WAITING_SEGMENTS
            or waited >= MAX_WAIT_NS
        ):
            return True
        return self._is_acknowledged() and (
            waited >= _ACKNOWLEDGED_WAIT_NS or len(self._waiting) >= _ACKNOWLEDGED_SEGMENTS
        )

    def skip_gap(self, now_ns: int) -> StreamItems:
        """Return the first gap, and the bytes between it and the next one."""
        items: list[Piece | MissingBytes] = []
        if self._waiting:
            size = self._waiting[0].position - self._position
            items.append(MissingBytes(size, now_ns))
            self._skip(size)
            items += self._drain()
        return items

    def finish(self, now_ns: int) -> StreamItems:
        """Return all remaining bytes and gaps, including a gap at the end."""
        items: list[Piece | MissingBytes] = []
        while self._waiting:
            items += self.skip_gap(now_ns)
        missing_bytes = 0 if self._end is None else self._end - self._position
        if self._end is None and self.acknowledged is not None and self._next_seq is not None:
            # The last acknowledged byte may be a FIN that was not captured.
            acknowledged = self._distance(self.acknowledged)
            missing_bytes = acknowledged if acknowledged > 1 else 0
        if missing_bytes > 0:
            items.append(MissingBytes(missing_bytes, now_ns))
            self._skip(missing_bytes)
        return items

    def _distance(self, seq: int) -> int:
        assert self._next_seq is not None
        distance = (seq - self._next_seq) & _SEQ_MASK
        return distance - _SEQ_MASK - 1 if distance >= _HALF_SEQ_RANGE else distance

    def _restart_if_repeated(self, seq: int) -> bool:
        """Restart at `seq` after several segments that are too old; return whether it restarted."""
        self._restart_segments += 1
        if self._restart_segments < _MIN_RESTART_SEGMENTS:
            return False
        self._restart_segments = 0
        self._next_seq = seq
        return True

    def _is_acknowledged(self) -> bool:
        if self.acknowledged is None:
            return False
        return self._distance(self.acknowledged) >= self._waiting[0].position - self._position

    def _piece(self, segment: Segment, data: bytes) -> Piece:
        """Return bytes with the time at which they became readable.

        Bytes after a gap become readable when the gap is filled. Times never decrease, unless the
        clock of the capture was set back.
        """
        at_ns = segment.at_ns
        if not 0 <= self._latest_ns - at_ns < MAX_WAIT_NS:
            self._latest_ns = at_ns
        acknowledged = segment.ack if segment.flags & ACK else None
        return Piece(
            data, self._latest_ns, segment.file, segment.offset, self._next_seq, acknowledged
        )

    def _skip(self, size: int) -> None:
        assert self._next_seq is not None
        self._position += size
        self._next_seq = (self._next_seq + size) & _SEQ_MASK

    def _drain(self) -> list[Piece | MissingBytes]:
        """Return the buffered bytes that now follow without a gap; repeated bytes are removed."""
        items: list[Piece | MissingBytes] = []
        waiting = self._waiting
        count = 0
        while count < len(waiting) and waiting[count].position <= self._position:
            position, _, segment = waiting[count]
            count += 1
            self._waiting_bytes -= len(segment.payload)
            new_bytes = segment.payload[self._position - position :]
            if new_bytes:
                items.append(self._piece(segment, new_bytes))
                self._skip(len(new_bytes))
            missing = position + len(segment.payload) + segment.missing - self._position
            if segment.missing and missing > 0:
                # Bytes that were not captured in this packet do not appear in another one.
                items.append(MissingBytes(missing, segment.at_ns))
                self._skip(missing)
        if count:
            del waiting[:count]
            self.gap_since_ns = min(
                (waiting_segment.segment.at_ns for waiting_segment in waiting), default=None
            )
        return items
