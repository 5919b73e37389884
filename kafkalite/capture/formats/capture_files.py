"""Packets of a capture file, and a buffered view of the file's bytes.

This package parses pcap and pcapng itself, because real captures have several interfaces,
nanosecond timestamps, truncated ends and corrupt blocks. dpkt's readers support one interface per
file and store timestamps as floats; python-pcapng stops at the first corrupt block. The contents of
packets are parsed in `capture.reading.packets`, with dpkt for rare headers.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kafkalite.capture.formats.compressed_files import (
    MAGIC_BYTES,
    DecompressedFile,
    decompressor_of,
)
from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Reporter: TypeAlias = Callable[[Problem], None]

MAX_BLOCK_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a block. A larger one is corrupt, because no network carries such packets."""

_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface of a capture, on which packets were captured."""

    link_type: int
    name: str | None = None
    comment: str | None = None


class Packet(NamedTuple):
    """One packet as it was captured."""

    at_ns: int
    interface: Interface
    data: bytes
    length: int
    """Size on the wire in bytes. `data` may be shorter."""
    offset: int
    """File offset of the packet; of a compressed file, the offset in the uncompressed data."""
    comment: str | None


class Readable(Protocol):
    """A binary file."""

    def read(self, size: int, /) -> bytes | None:
        """Return at most `size` bytes; empty at the end."""


class Window:
    """The buffered part of a file, and the read position in it."""

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
        """File offset of the position."""
        return self._base + self.position

    @property
    def remaining_bytes(self) -> int:
        """Number of buffered bytes from the position on."""
        return len(self.buffer) - self.position

    def buffer_bytes(self, size: int) -> bool:
        """Read until `size` bytes from the position on are buffered.

        Returns False if the file has fewer bytes.
        """
        if len(self.buffer) - self.position >= size:
            return True
        if self._is_at_end:
            # A corrupt block can ask for more bytes at every position; copying the buffer each time
            # would take quadratic time.
            return False
        parts = [self.buffer[self.position :]]
        available_bytes = len(parts[0])
        while available_bytes < size and not self._is_at_end:
            part = self._read()
            parts.append(part)
            available_bytes += len(part)
        self._base += self.position
        self.position = 0
        self.buffer = b"".join(parts)
        return available_bytes >= size

    def _read(self) -> bytes:
        try:
            part = self._file.read(_CHUNK_BYTES) or b""
        except EOFError:
            part = b""
            self.report(ProblemKind.TRUNCATED_BLOCK, "the compressed file is truncated")
        except OSError as error:
            part = b""
            self.report(ProblemKind.CORRUPT_BLOCK, f"cannot read further: {error}")
        self._is_at_end = not part
        return part

    def report(self, kind: ProblemKind, detail: str) -> None:
        """Report a problem at the position."""
        self._report(
            Problem(kind=kind, file=self.name, offset=self.offset, connection=None, detail=detail)
        )


@contextmanager
def open_window(path: str, report: Reporter) -> Iterator[Window]:
    """Open a capture file, and decompress it if it is compressed."""
    with open(path, "rb") as file:  # noqa: PTH123 - paths are plain text here
        new_decompressor = decompressor_of(file.read(MAGIC_BYTES))
        file.seek(0)
        if new_decompressor is None:
            yield Window(file, path, report)
        else:
            yield Window(DecompressedFile(file, new_decompressor), path, report)
