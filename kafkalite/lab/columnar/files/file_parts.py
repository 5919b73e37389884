"""Splitting of a large file into parts that are read separately.

A part is treated like a file: `stitching` combines its connections with those of the previous part.
Blocks and interfaces are found only by reading a file from its beginning. So a scan first reads the
headers of all blocks, which takes a small part of the total time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.capture.formats.pcap import MAGICS
from kafkalite.capture.formats.pcapng_reader import MAGIC as SECTION_MAGIC
from kafkalite.lab.columnar.files.chunked_files import Chunks
from kafkalite.lab.columnar.files.pcap import RecordScanner
from kafkalite.lab.columnar.files.pcapng import BlockScanner

if TYPE_CHECKING:
    from kafkalite.capture.model import ProblemKind
    from kafkalite.lab.columnar.files.chunked_files import Source
    from kafkalite.lab.columnar.files.packet_index import ScannerState
    from kafkalite.lab.columnar.files.pcapng import Report

PART_BYTES: Final = 256 << 20
_MAX_CHUNK_BYTES: Final = 8 << 20

Scanner = BlockScanner | RecordScanner


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A range of a file, from the beginning of a block to the end of a block."""

    start: int
    stop: int | None
    """None for the end of the file."""
    magic: bytes
    """The first bytes of the file."""
    state: ScannerState
    """The scanner's state at the beginning of the part."""

    def size_in(self, file_bytes: int) -> int:
        """Return the part's size in a file of `file_bytes` bytes."""
        return max(0, (file_bytes if self.stop is None else self.stop) - self.start)


def new_scanner(magic: bytes, report: Report) -> Scanner | None:
    """Return the scanner for a file that begins with `magic`; None for an unknown format."""
    if magic == SECTION_MAGIC:
        return BlockScanner(report)
    return RecordScanner(report, magic) if magic in MAGICS else None


def split_file(source: Source, part_bytes: int = PART_BYTES) -> list[FilePart]:
    """Return the parts of a capture, each of `part_bytes` or a little more.

    The list is empty if the file cannot be split, because it is compressed or not a capture.
    """
    chunks = Chunks(source, min(_MAX_CHUNK_BYTES, part_bytes), _ignore_problem)
    scanner: Scanner | None = None
    magic, start, part_state = b"", 0, None
    parts: list[FilePart] = []
    for data, offset, is_last, _ in chunks:
        if scanner is None:
            magic = data[:4].tobytes()
            scanner = None if chunks.is_compressed else new_scanner(magic, _ignore_problem)
            if scanner is None:
                return []
            part_state = scanner.state()
        _, used = scanner.scan(data, offset, is_last=is_last)
        chunks.set_used_bytes(used)
        if is_last or offset + used - start < part_bytes:
            continue
        state = scanner.state()
        if state is not None and part_state is not None:
            stop = offset + used
            parts.append(FilePart(start=start, stop=stop, magic=magic, state=part_state))
            start, part_state = stop, state
    assert part_state is not None
    return [*parts, FilePart(start=start, stop=None, magic=magic, state=part_state)]


def _ignore_problem(kind: ProblemKind, offset: int | None, detail: str, count: int = 1) -> None:
    """Ignore a problem, because it is reported when the part is read."""
