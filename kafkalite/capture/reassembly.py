"""Segments of one direction → its bytes in order, and the holes that nothing filled.

A hole is waited for as long as a retransmission may still come: until the other side has
acknowledged what is missing, so that it was lost by the capture and not by the network, or until
too much has come behind it, or too long ago.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from kafkalite.capture.packets import Segment

MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
"""How much may wait behind a hole; memory is bounded by it, for each direction."""
MAX_WAITING_SEGMENTS: Final = 8192
MAX_WAIT_NS: Final = 10_000_000_000
"""How long a retransmission may take."""

_ACKNOWLEDGED_WAIT_NS: Final = 200_000_000
_ACKNOWLEDGED_SEGMENTS: Final = 16
"""A capture of several queues or interfaces disorders packets, but not by more than that."""
_MASK: Final = 0xFFFFFFFF
_HALF: Final = 0x80000000
_FAR_BACK: Final = 16 * 1024 * 1024
"""No retransmission goes back so far: another connection of the same ports must have begun."""
_STRIKES: Final = 3


class Piece(NamedTuple):
    """Bytes that follow the ones before."""

    data: bytes
    at_ns: int
    file: str
    offset: int


class Hole(NamedTuple):
    """Bytes that are missing between those before and those that follow."""

    size: int
    at_ns: int


Run: TypeAlias = tuple[Piece | Hole, ...] | list[Piece | Hole]


class _Waiting(NamedTuple):
    """A segment behind a hole, by its position in the stream."""

    position: int
    number: int
    segment: Segment


class Stream:
    """The bytes of one direction of a connection."""

    __slots__ = (
        "_bytes_waiting",
        "_end",
        "_latest_ns",
        "_next",
        "_number",
        "_position",
        "_strikes",
        "_waiting",
        "acknowledged",
        "since_ns",
    )

    def __init__(self) -> None:
        self._next: int | None = None
        self._position = 0
        self._waiting: list[_Waiting] = []
        self._bytes_waiting = 0
        self._number = 0
        self._latest_ns = 0
        self._strikes = 0
        self._end: int | None = None
        self.acknowledged: int | None = None
        """The sequence number that the other side has said last to expect."""
        self.since_ns: int | None = None
        """When the first segment came that waits behind a hole."""

    @property
    def next_seq(self) -> int | None:
        """The number of the byte that comes next; None before the first."""
        return self._next

    @property
    def has_moved(self) -> bool:
        """Whether any byte of it has come."""
        return self._position > 0 or bool(self._waiting)

    def begin(self, seq: int) -> None:
        """Take `seq` for the first byte's number, unless the direction has begun."""
        if self._next is None:
            self._next = seq

    @property
    def is_at_end(self) -> bool:
        """Whether all has come that was sent before the direction was closed."""
        return self._end is not None and self._position >= self._end

    def push(self, segment: Segment, seq: int) -> Run:
        """Return what a segment, whose payload begins at `seq`, makes available."""
        payload = segment.payload
        if self._next == seq and not self._waiting and not segment.missing:
            size = len(payload)
            self._position += size
            self._next = (seq + size) & _MASK
            self._strikes = 0
            return (self._piece(segment, payload),)
        self.begin(seq)
        distance = self._distance(seq)
        if distance <= -_FAR_BACK and not self._is_far_back(seq):
            return ()
        size = len(payload) + segment.missing
        if self._next == seq:
            distance = 0
        if distance + size <= 0:
            return ()
        insort(self._waiting, _Waiting(self._position + distance, self._number, segment))
        self._number += 1
        self._bytes_waiting += len(payload)
        if self.since_ns is None or self.since_ns > segment.at_ns:
            self.since_ns = segment.at_ns
        return self._drain()

    def close(self, seq: int) -> None:
        """Note that the direction ends where `seq` is."""
        self.begin(seq)
        if self._end is None:
            self._end = self._position + self._distance(seq)

    def overdue(self, now_ns: int) -> bool:
        """Whether the first hole is no longer to be waited for."""
        if self.since_ns is None:
            return False
        waited = now_ns - self.since_ns
        if (
            self._bytes_waiting > MAX_WAITING_BYTES
            or len(self._waiting) > MAX_WAITING_SEGMENTS
            or waited >= MAX_WAIT_NS
        ):
            return True
        return self._is_acknowledged() and (
            waited >= _ACKNOWLEDGED_WAIT_NS or len(self._waiting) >= _ACKNOWLEDGED_SEGMENTS
        )

    def give_up(self, now_ns: int) -> Run:
        """Return the first hole as one, and what follows it up to the next."""
        run: list[Piece | Hole] = []
        if self._waiting:
            size = self._waiting[0].position - self._position
            run.append(Hole(size, now_ns))
            self._skip(size)
            run += self._drain()
        return run

    def finish(self, now_ns: int) -> Run:
        """Return all that is left, with holes where it has any, one at the end included."""
        run: list[Piece | Hole] = []
        while self._waiting:
            run += self.give_up(now_ns)
        left = 0 if self._end is None else self._end - self._position
        if self._end is None and self.acknowledged is not None and self._next is not None:
            # The last byte acknowledged may be the mark of an end that was not captured.
            acknowledged = self._distance(self.acknowledged)
            left = acknowledged if acknowledged > 1 else 0
        if left > 0:
            run.append(Hole(left, now_ns))
            self._skip(left)
        return run

    def _distance(self, seq: int) -> int:
        assert self._next is not None
        distance = (seq - self._next) & _MASK
        return distance - _MASK - 1 if distance >= _HALF else distance

    def _is_far_back(self, seq: int) -> bool:
        """Begin anew at `seq` if this is not the first that lies far back."""
        self._strikes += 1
        if self._strikes < _STRIKES:
            return False
        self._strikes = 0
        self._next = seq
        return True

    def _is_acknowledged(self) -> bool:
        if self.acknowledged is None:
            return False
        return self._distance(self.acknowledged) >= self._waiting[0].position - self._position

    def _piece(self, segment: Segment, data: bytes) -> Piece:
        """Return bytes with the time from which they could be read.

        What waits behind a hole can be read once the hole is filled. A clock that was set back is
        believed.
        """
        at_ns = segment.at_ns
        if not 0 <= self._latest_ns - at_ns < MAX_WAIT_NS:
            self._latest_ns = at_ns
        return Piece(data, self._latest_ns, segment.file, segment.offset)

    def _skip(self, size: int) -> None:
        assert self._next is not None
        self._position += size
        self._next = (self._next + size) & _MASK

    def _drain(self) -> list[Piece | Hole]:
        """Take what waits and now follows, less what came before."""
        run: list[Piece | Hole] = []
        waiting = self._waiting
        taken = 0
        while taken < len(waiting) and waiting[taken].position <= self._position:
            position, _, segment = waiting[taken]
            taken += 1
            self._bytes_waiting -= len(segment.payload)
            fresh = segment.payload[self._position - position :]
            if fresh:
                run.append(self._piece(segment, fresh))
                self._skip(len(fresh))
            cut = position + len(segment.payload) + segment.missing - self._position
            if segment.missing and cut > 0:
                # What the capture did not keep of one packet it keeps of no other.
                run.append(Hole(cut, segment.at_ns))
                self._skip(cut)
        if taken:
            del waiting[:taken]
            self.since_ns = min((each.segment.at_ns for each in waiting), default=None)
        return run
