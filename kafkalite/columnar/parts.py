"""One huge file in parts that are read apart: where they begin, and what is to be known there.

A part is to the tables what a file is: connections that go on in it are put together with those
of the part before by `stitching`. Where a block begins, and which interfaces there are, can only
be told from the file's beginning on; that walk looks at the heads of blocks alone, and takes a
small share of the time that reading takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.capture.classic import MAGICS
from kafkalite.capture.sections import MAGIC as SECTION_MAGIC
from kafkalite.columnar.blocks import BlockScanner
from kafkalite.columnar.classic import RecordScanner
from kafkalite.columnar.files import Chunks

if TYPE_CHECKING:
    from kafkalite.capture.model import ProblemKind
    from kafkalite.columnar.blocks import Tell
    from kafkalite.columnar.captured import Rest
    from kafkalite.columnar.files import Source

PART_BYTES: Final = 256 << 20
_CHUNK_BYTES: Final = 8 << 20

Scanner = BlockScanner | RecordScanner


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A range of a file, from the beginning of a block to the end of one."""

    start: int
    stop: int | None
    """None for the file's end."""
    magic: bytes
    """The bytes that the file begins with."""
    rest: Rest
    """What is known at its beginning from what stands before."""

    def size_in(self, whole: int) -> int:
        """Return how many bytes it has in a file of so many."""
        return max(0, (whole if self.stop is None else self.stop) - self.start)


def scanner_of(magic: bytes, tell: Tell) -> Scanner | None:
    """Return what reads a file that begins so; None where nothing does."""
    if magic == SECTION_MAGIC:
        return BlockScanner(tell)
    return RecordScanner(tell, magic) if magic in MAGICS else None


def parts_of(source: Source, part_bytes: int = PART_BYTES) -> list[FilePart]:
    """Return the parts of a capture, each of so many bytes or a little more.

    Empty where it cannot be read in parts: packed files, and what is none of ours.
    """
    chunks = Chunks(source, min(_CHUNK_BYTES, part_bytes), _say_nothing)
    scanner: Scanner | None = None
    magic, start, known = b"", 0, None
    found: list[FilePart] = []
    for data, offset, is_last, _ in chunks:
        if scanner is None:
            magic = data[:4].tobytes()
            scanner = None if chunks.is_packed else scanner_of(magic, _say_nothing)
            if scanner is None:
                return []
            known = scanner.rest()
        _, used = scanner.scan(data, offset, is_last=is_last)
        chunks.used(used)
        if is_last or offset + used - start < part_bytes:
            continue
        rest = scanner.rest()
        if rest is not None and known is not None:
            stop = offset + used
            found.append(FilePart(start=start, stop=stop, magic=magic, rest=known))
            start, known = stop, rest
    assert known is not None
    return [*found, FilePart(start=start, stop=None, magic=magic, rest=known)]


def _say_nothing(kind: ProblemKind, offset: int | None, detail: str, count: int = 1) -> None:
    """Take problems that whoever reads the part will tell."""
