"""A capture file as packets: what format it has, and its bytes as they are needed.

The containers are walked by hand. Chosen over dpkt's readers, which know one interface a file and
keep times as floating point, and over python-pcapng, which gives up at the first corrupt block:
others' captures have several interfaces, nanoseconds, torn tails, and now and then a bad sector.
What is inside a packet is left to dpkt, see `packets`.
"""

from __future__ import annotations

import gzip
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from kafkalite.capture.model import Problem, ProblemKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Reporter: TypeAlias = Callable[[Problem], None]

MAX_BLOCK_BYTES: Final = 64 * 1024 * 1024
"""What claims to be larger is corrupt: no link carries such packets."""

_CHUNK_BYTES: Final = 1024 * 1024
_GZIP_MAGIC: Final = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Interface:
    """Where packets were captured."""

    link_type: int
    name: str | None = None
    comment: str | None = None


class Packet(NamedTuple):
    """One packet as it was captured."""

    at_ns: int
    interface: Interface
    data: bytes
    length: int
    """How long it was on the wire, of which `data` may be the beginning."""
    offset: int
    """Where in the file it stands; in what is unpacked of it, where the file is compressed."""
    comment: str | None


class Readable(Protocol):
    """What bytes come from."""

    def read(self, size: int, /) -> bytes:
        """Return up to as many bytes, none at the end."""


class Window:
    """The part of a file that is being looked at; only so much is ever in memory."""

    __slots__ = ("_base", "_file", "_is_at_end", "_report", "buffer", "name", "position")

    def __init__(self, file: Readable, name: str, report: Reporter) -> None:
        self.name = name
        self.buffer = b""
        self.position = 0
        self._file = file
        self._base = 0
        self._is_at_end = False
        self._report = report

    @property
    def offset(self) -> int:
        """Where in the file the position is."""
        return self._base + self.position

    @property
    def left(self) -> int:
        """How many bytes from the position on are at hand."""
        return len(self.buffer) - self.position

    def has(self, size: int) -> bool:
        """Make `size` bytes from the position on be at hand, if the file has as many."""
        if len(self.buffer) - self.position >= size:
            return True
        if self._is_at_end:
            # Not for the sake of speed: a file may claim at each of its bytes that more follows.
            return False
        parts = [self.buffer[self.position :]]
        have = len(parts[0])
        while have < size and not self._is_at_end:
            part = self._read()
            parts.append(part)
            have += len(part)
        self._base += self.position
        self.position = 0
        self.buffer = b"".join(parts)
        return have >= size

    def _read(self) -> bytes:
        try:
            part = self._file.read(_CHUNK_BYTES)
        except EOFError:
            part = b""
            self.tell(ProblemKind.TRUNCATED_BLOCK, "the compressed file ends in its midst")
        except (OSError, zlib.error) as error:
            part = b""
            self.tell(ProblemKind.CORRUPT_BLOCK, f"cannot be read further: {error}")
        self._is_at_end = not part
        return part

    def tell(self, kind: ProblemKind, detail: str) -> None:
        """Report what is wrong at the position."""
        self._report(
            Problem(kind=kind, file=self.name, offset=self.offset, connection=None, detail=detail)
        )


@contextmanager
def window(path: str, report: Reporter) -> Iterator[Window]:
    """Open a capture file, unpacked if it is gzipped."""
    with open(path, "rb") as raw:  # noqa: PTH123 - paths are plain text here
        is_packed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        raw.seek(0)
        if is_packed:
            with gzip.open(raw, "rb") as unpacked:
                yield Window(unpacked, path, report)
        else:
            yield Window(raw, path, report)
