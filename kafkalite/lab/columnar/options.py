"""Options of reading captures: tables, filters and batch sizes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Table(StrEnum):
    """The tables of a capture file."""

    FRAMES = "frames"
    """Every frame."""
    PAIRS = "pairs"
    """Requests with their responses."""
    UNPAIRED = "unpaired"
    """Requests and responses whose counterpart may be in another file."""
    FRAGMENTS = "fragments"
    """Incomplete frames at the start and the end of the file."""
    CONNECTIONS = "connections"
    PROBLEMS = "problems"


DEFAULT_TABLES: Final = frozenset(Table) - {Table.FRAMES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of reading a capture; filters apply before bytes are copied."""

    tables: frozenset[Table] = DEFAULT_TABLES
    """Tables to yield; by default all except FRAMES."""
    api_keys: frozenset[int] | None = None
    """Keys of the APIs to read; None for all."""
    from_ns: int | None = None
    """First time to read: the time of a frame's last byte, or of a pair's request."""
    until_ns: int | None = None
    """First time not to read."""
    clients: str | None = None
    """A pattern for the address of the client, such as "10.0.0.*:*"."""
    payload: bool = True
    """Whether rows contain the bytes of frames; otherwise these columns are null."""
    by_api: bool = False
    """Whether all requests of a batch of pairs have the same API and version."""
    batch_rows: int = 32_768
    """Maximum number of rows of a batch."""
    batch_bytes: int = 16 << 20
    """Size of frames in bytes after which a batch ends."""
    chunk_bytes: int = 4 << 20
    """Number of bytes that are processed at once; the default fits into the processor's cache."""

    def __post_init__(self) -> None:
        """Raise ValueError for an empty time range."""
        first_ns, end_ns = self.from_ns, self.until_ns
        if first_ns is not None and end_ns is not None and end_ns <= first_ns:
            raise ValueError("the start of the time range is not before its end")


DEFAULT_OPTIONS: Final = Options()
