"""`Framer`: splits one direction's bytes into frames, and finds boundaries after missing bytes.

If bytes are missing within a frame of known length, only that frame is lost. After other gaps, and
if a capture starts within a connection, the start of a frame is searched: the first position at
which a complete message parses.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.capture.reading.reassembly import Piece

LENGTH_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
"""Maximum size of a frame; Kafka's default of socket.request.max.bytes."""

_SEARCH_BYTES: Final = 4 * 1024 * 1024
"""Maximum buffered bytes while the start of a frame is searched."""
_MAX_OPEN_CANDIDATES: Final = 64
"""Maximum number of candidates that wait for more bytes. Valid traffic has fewer."""
_BUDGET_PER_BYTE: Final = 16
_COST_PER_CANDIDATE: Final = 256
_INITIAL_BUDGET: Final = 1024 * 1024
"""The budget limits the cost of a search. It grows with each received byte. Each candidate costs a
fixed amount, plus its parsed bytes. Without a budget, malicious bytes that look like a frame at
every position would take quadratic time."""
_unpack_length = Struct(">i").unpack_from


class CompleteFrame(NamedTuple):
    """A frame without its length."""

    body: bytes
    at_ns: int
    file: str
    offset: int
    last_piece: Piece
    """The piece that completed it."""


class PartialFrame(NamedTuple):
    """The received bytes of an incomplete frame, and the file offset of its first packet."""

    data: bytes
    offset: int | None


class Verdict(Enum):
    """Whether a frame begins at a position."""

    NO = 0
    UNKNOWN = 1
    """More bytes are needed."""
    YES = 2


class FrameFinder(Protocol):
    """Finds frames of one direction."""

    def candidates(self, buffer: bytearray, start: int) -> Iterator[int]:
        """Return the positions from `start` on at which a frame may begin."""

    def check(self, buffer: bytearray, candidate: int) -> Verdict:
        """Check whether a frame begins at a position."""

    @property
    def overlap_bytes(self) -> int:
        """Number of last bytes of a buffer that are searched again with the next bytes."""


Frames: TypeAlias = list[CompleteFrame]


class _Search:
    """A search for the start of a frame, with the buffered bytes."""

    __slots__ = ("_budget", "_finder", "_open_candidates", "_pieces", "_searched_bytes", "buffer")

    def __init__(self, finder: FrameFinder) -> None:
        self._finder = finder
        self.buffer = bytearray()
        self._pieces: list[tuple[int, Piece]] = []
        self._open_candidates: list[int] = []
        self._searched_bytes = 0
        self._budget = _INITIAL_BUDGET

    def add(self, piece: Piece) -> list[Piece] | None:
        """Return the pieces from the start of a frame on; None if none was found yet."""
        self._pieces.append((len(self.buffer), piece))
        self.buffer += piece.data
        self._budget += len(piece.data) * _BUDGET_PER_BYTE
        candidate = self._find()
        if candidate is not None:
            return self._pieces_from(candidate)
        self._drop_searched()
        return None

    def _find(self) -> int | None:
        check, buffer = self._finder.check, self.buffer
        open_candidates = []
        for candidate in self._all_candidates():
            if self._budget <= 0:
                break
            verdict = check(buffer, candidate)
            if verdict is Verdict.YES:
                return candidate
            self._budget -= _COST_PER_CANDIDATE
            if verdict is Verdict.UNKNOWN:
                open_candidates.append(candidate)
            else:
                self._budget -= min(
                    max(_unpack_length(buffer, candidate)[0], 0), len(buffer) - candidate
                )
        self._open_candidates = open_candidates[:_MAX_OPEN_CANDIDATES]
        self._searched_bytes = max(0, len(buffer) - self._finder.overlap_bytes)
        return None

    def _all_candidates(self) -> Iterator[int]:
        yield from self._open_candidates
        yield from self._finder.candidates(self.buffer, self._searched_bytes)

    def _pieces_from(self, candidate: int) -> list[Piece]:
        """Return the pieces from a position on; the first one is cut there."""
        pieces = []
        for start, piece in self._pieces:
            if start + len(piece.data) > candidate:
                cut = max(0, candidate - start)
                pieces.append(piece._replace(data=piece.data[cut:]) if cut else piece)
        return pieces

    def _drop_searched(self) -> None:
        """Drop the bytes in which no frame begins. Above the limit, drop the oldest bytes too."""
        retained_start = min(self._open_candidates, default=self._searched_bytes)
        size = len(self.buffer)
        if size - retained_start > _SEARCH_BYTES:
            retained_start = size - _SEARCH_BYTES // 2
        if retained_start < min(size, _SEARCH_BYTES // 8) and size <= _SEARCH_BYTES:
            return
        del self.buffer[:retained_start]
        self._open_candidates = [
            candidate - retained_start
            for candidate in self._open_candidates
            if candidate >= retained_start
        ]
        self._searched_bytes = max(0, self._searched_bytes - retained_start)
        self._pieces = [
            (start - retained_start, piece)
            for start, piece in self._pieces
            if start + len(piece.data) > retained_start
        ]


class Framer:
    """Splits one direction's bytes into frames."""

    __slots__ = (
        "_buffered_bytes",
        "_bytes_to_skip",
        "_finder",
        "_first_piece",
        "_max_frame_bytes",
        "_needed_bytes",
        "_parts",
        "_report",
        "_search",
    )

    def __init__(
        self,
        finder: FrameFinder,
        *,
        is_synchronized: bool,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        report: Callable[[str], None],
    ) -> None:
        self._finder = finder
        self._max_frame_bytes = max_frame_bytes
        self._report = report
        self._parts: list[bytes] = []
        self._buffered_bytes = 0
        self._needed_bytes = LENGTH_BYTES
        self._bytes_to_skip = 0
        self._first_piece: Piece | None = None
        self._search = None if is_synchronized else _Search(finder)

    @property
    def is_synchronized(self) -> bool:
        """Whether frame boundaries are known."""
        return self._search is None

    @property
    def searched_bytes(self) -> int:
        """Number of buffered bytes in which a frame may begin."""
        return 0 if self._search is None else len(self._search.buffer)

    @property
    def partial_frame(self) -> PartialFrame | None:
        """The incomplete frame; None while frame boundaries are unknown or bytes are skipped."""
        if self._search is not None or self._bytes_to_skip:
            return None
        offset = (
            self._first_piece.offset
            if self._first_piece is not None and self._buffered_bytes
            else None
        )
        return PartialFrame(b"".join(self._parts), offset)

    def skip(self, size: int) -> None:
        """Skip the first `size` bytes, the end of a frame that began in an earlier file."""
        if not self._buffered_bytes and self._search is None:
            self._bytes_to_skip = size

    def feed(self, piece: Piece) -> Frames:
        """Return the frames that the piece completes."""
        frames: Frames = []
        pieces = [piece]
        while pieces:
            current = pieces.pop()
            if self._search is not None:
                synchronized_pieces = self._search.add(current)
                if synchronized_pieces is not None:
                    self._search = None
                    pieces += reversed(synchronized_pieces)
                continue
            remaining_piece = self._split(current, frames)
            if remaining_piece is not None:
                pieces.append(remaining_piece)
        return frames

    def skip_missing(self, size: int) -> None:
        """Continue after missing bytes."""
        remaining_bytes = self._bytes_to_skip or (
            self._needed_bytes - self._buffered_bytes if self._buffered_bytes >= LENGTH_BYTES else 0
        )
        self._drop_partial_frame()
        if self._search is not None or not remaining_bytes or size > remaining_bytes:
            self._start_search()
        else:
            self._bytes_to_skip = remaining_bytes - size

    def _drop_partial_frame(self) -> None:
        self._parts = []
        self._buffered_bytes = 0
        self._needed_bytes = LENGTH_BYTES
        self._bytes_to_skip = 0

    def _start_search(self) -> None:
        self._drop_partial_frame()
        self._search = _Search(self._finder)

    def _split(self, piece: Piece, frames: Frames) -> Piece | None:
        """Append the frames that a piece completes; after an invalid length, return the rest."""
        data = piece.data
        if self._bytes_to_skip:
            cut = min(self._bytes_to_skip, len(data))
            self._bytes_to_skip -= cut
            data = data[cut:]
            piece = piece._replace(data=data)
        first_piece = piece
        if self._buffered_bytes:
            self._parts.append(data)
            self._buffered_bytes += len(data)
            if self._buffered_bytes < self._needed_bytes:
                return None
            data = b"".join(self._parts)
            assert self._first_piece is not None
            first_piece = self._first_piece
        position, size, needed_bytes = 0, len(data), LENGTH_BYTES
        while size - position >= LENGTH_BYTES:
            (length,) = _unpack_length(data, position)
            if not 0 <= length <= self._max_frame_bytes:
                self._report(f"invalid frame length {length}")
                self._start_search()
                return piece._replace(data=data[position + 1 :])
            stop = position + LENGTH_BYTES + length
            if stop > size:
                needed_bytes = stop - position
                break
            body = data[position + LENGTH_BYTES : stop]
            frames.append(
                CompleteFrame(body, piece.at_ns, first_piece.file, first_piece.offset, piece)
            )
            position = stop
            first_piece = piece
        self._buffered_bytes = size - position
        self._needed_bytes = needed_bytes
        self._parts = [data[position:]] if self._buffered_bytes else []
        self._first_piece = first_piece
        return None
