"""A direction's bytes → frames, and back into step after bytes that are missing.

A hole within a frame whose length is known costs that frame alone. After any other, and where a
capture starts within a connection, frames are looked for: a place is taken for a frame's start
where a whole message parses to its very end.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.capture.reassembly import Piece

LENGTH_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
"""Kafka's own default of socket.request.max.bytes."""

_SEARCH_BYTES: Final = 4 * 1024 * 1024
"""How much is kept while the start of a frame is looked for."""
_MAX_OPEN_PLACES: Final = 64
"""How many places wait for more bytes; where more do, somebody made them up."""
_EFFORT_A_BYTE: Final = 16
_EFFORT_A_PLACE: Final = 256
_FIRST_EFFORT: Final = 1024 * 1024
"""How much is looked at for each byte that comes, for each place, and beforehand: bytes made to
look like frames from each place on would otherwise be read over and over."""
_length = Struct(">i").unpack_from


class Whole(NamedTuple):
    """A frame without its length."""

    body: bytes
    at_ns: int
    file: str
    offset: int


class Unfinished(NamedTuple):
    """What there is of a frame that is not whole, and where the packet is that it begins in."""

    data: bytes
    offset: int | None


class Verdict(Enum):
    """Whether a frame begins at a place."""

    NO = 0
    UNKNOWN = 1
    """Not before more of it has come."""
    YES = 2


class Finder(Protocol):
    """Recognises frames of one direction."""

    def places(self, buffer: bytearray, start: int) -> Iterator[int]:
        """Return the places from `start` on where a frame may begin."""

    def judge(self, buffer: bytearray, place: int) -> Verdict:
        """Return whether a frame begins at a place."""

    @property
    def look_back(self) -> int:
        """How many bytes at the end may be the beginning of a frame that is not seen yet."""


Frames: TypeAlias = list[Whole]


class _Search:
    """Bytes in which a frame's start is looked for."""

    __slots__ = ("_effort", "_finder", "_origins", "_places", "_searched", "buffer")

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self.buffer = bytearray()
        self._origins: list[tuple[int, Piece]] = []
        self._places: list[int] = []
        self._searched = 0
        self._effort = _FIRST_EFFORT

    def add(self, piece: Piece) -> list[Piece] | None:
        """Return what begins with a frame, None while that is not found."""
        self._origins.append((len(self.buffer), piece))
        self.buffer += piece.data
        self._effort += len(piece.data) * _EFFORT_A_BYTE
        place = self._find()
        if place is not None:
            return self._from(place)
        self._forget()
        return None

    def _find(self) -> int | None:
        judge, buffer = self._finder.judge, self.buffer
        open_places = []
        for place in self._candidates():
            if self._effort <= 0:
                break
            verdict = judge(buffer, place)
            if verdict is Verdict.YES:
                return place
            self._effort -= _EFFORT_A_PLACE
            if verdict is Verdict.UNKNOWN:
                open_places.append(place)
            else:
                self._effort -= min(max(_length(buffer, place)[0], 0), len(buffer) - place)
        self._places = open_places[:_MAX_OPEN_PLACES]
        self._searched = max(0, len(buffer) - self._finder.look_back)
        return None

    def _candidates(self) -> Iterator[int]:
        yield from self._places
        yield from self._finder.places(self.buffer, self._searched)

    def _from(self, place: int) -> list[Piece]:
        """Return the pieces from a place on, the first one cut."""
        found = []
        for start, piece in self._origins:
            if start + len(piece.data) > place:
                cut = max(0, place - start)
                found.append(piece._replace(data=piece.data[cut:]) if cut else piece)
        return found

    def _forget(self) -> None:
        """Drop what no frame begins in, and the beginning of what has become too much."""
        keep = min(self._places, default=self._searched)
        size = len(self.buffer)
        if size - keep > _SEARCH_BYTES:
            keep = size - _SEARCH_BYTES // 2
        if keep < min(size, _SEARCH_BYTES // 8) and size <= _SEARCH_BYTES:
            return
        del self.buffer[:keep]
        self._places = [place - keep for place in self._places if place >= keep]
        self._searched = max(0, self._searched - keep)
        self._origins = [
            (start - keep, piece)
            for start, piece in self._origins
            if start + len(piece.data) > keep
        ]


class Framer:
    """Splits one direction's bytes into frames."""

    __slots__ = (
        "_finder",
        "_have",
        "_maximum",
        "_need",
        "_origin",
        "_parts",
        "_report",
        "_search",
        "_skip",
    )

    def __init__(
        self,
        finder: Finder,
        *,
        is_in_step: bool,
        maximum: int = MAX_FRAME_BYTES,
        report: Callable[[str], None],
    ) -> None:
        self._finder = finder
        self._maximum = maximum
        self._report = report
        self._parts: list[bytes] = []
        self._have = 0
        self._need = LENGTH_BYTES
        self._skip = 0
        self._origin: Piece | None = None
        self._search = None if is_in_step else _Search(finder)

    @property
    def is_in_step(self) -> bool:
        """Whether it is known where frames begin."""
        return self._search is None

    @property
    def searched_bytes(self) -> int:
        """How much is kept because a frame may begin in it."""
        return 0 if self._search is None else len(self._search.buffer)

    @property
    def unfinished(self) -> Unfinished | None:
        """What is left of the bytes so far; None while it is not known where frames begin."""
        if self._search is not None or self._skip:
            return None
        offset = self._origin.offset if self._origin is not None and self._have else None
        return Unfinished(b"".join(self._parts), offset)

    def skip(self, size: int) -> None:
        """Pass over the rest of a frame that began before anything came here."""
        if not self._have and self._search is None:
            self._skip = size

    def feed(self, piece: Piece) -> Frames:
        """Return the frames that more bytes complete."""
        frames: Frames = []
        waiting = [piece]
        while waiting:
            each = waiting.pop()
            if self._search is not None:
                found = self._search.add(each)
                if found is not None:
                    self._search = None
                    waiting += reversed(found)
                continue
            rest = self._split(each, frames)
            if rest is not None:
                waiting.append(rest)
        return frames

    def hole(self, size: int) -> None:
        """Go on after missing bytes."""
        left = self._skip or (self._need - self._have if self._have >= LENGTH_BYTES else 0)
        self._drop()
        if self._search is not None or not left or size > left:
            self._lose()
        else:
            self._skip = left - size

    def _drop(self) -> None:
        self._parts = []
        self._have = 0
        self._need = LENGTH_BYTES
        self._skip = 0

    def _lose(self) -> None:
        self._drop()
        self._search = _Search(self._finder)

    def _split(self, piece: Piece, frames: Frames) -> Piece | None:
        """Add the frames that a piece completes; return what is left once it is out of step."""
        data = piece.data
        if self._skip:
            cut = min(self._skip, len(data))
            self._skip -= cut
            data = data[cut:]
            piece = piece._replace(data=data)
        origin = piece
        if self._have:
            self._parts.append(data)
            self._have += len(data)
            if self._have < self._need:
                return None
            data = b"".join(self._parts)
            assert self._origin is not None
            origin = self._origin
        position, size, need = 0, len(data), LENGTH_BYTES
        while size - position >= LENGTH_BYTES:
            (length,) = _length(data, position)
            if not 0 <= length <= self._maximum:
                self._report(f"a frame of {length} bytes")
                self._lose()
                return piece._replace(data=data[position + 1 :])
            stop = position + LENGTH_BYTES + length
            if stop > size:
                need = stop - position
                break
            body = data[position + LENGTH_BYTES : stop]
            frames.append(Whole(body, piece.at_ns, origin.file, origin.offset))
            position = stop
            origin = piece
        self._have = size - position
        self._need = need
        self._parts = [data[position:]] if self._have else []
        self._origin = origin
        return None
