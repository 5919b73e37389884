"""What to read of captures, and in what portions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Table(StrEnum):
    """The tables that one capture file gives rows to."""

    FRAMES = "frames"
    PAIRS = "pairs"
    UNPAIRED = "unpaired"
    FRAGMENTS = "fragments"
    CONNECTIONS = "connections"
    PROBLEMS = "problems"


DEFAULT_TABLES: Final = frozenset(Table) - {Table.FRAMES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is left out is left out early, before its bytes are copied."""

    tables: frozenset[Table] = DEFAULT_TABLES
    api_keys: frozenset[int] | None = None
    from_ns: int | None = None
    """The first time of interest: of a frame's last byte, of a pair's request."""
    until_ns: int | None = None
    """The first time of no interest any more."""
    clients: str | None = None
    """A pattern of the client's end, as "10.0.0.*:*"."""
    payload: bool = True
    by_api: bool = False
    """Whether a batch of pairs has requests of one API and version only."""
    batch_rows: int = 32_768
    batch_bytes: int = 16 << 20
    chunk_bytes: int = 4 << 20
    """How much of a file is looked at at once: little enough to stay near the processor."""

    def __post_init__(self) -> None:
        """Refuse a span of time in which nothing can be; ValueError."""
        first_ns, end_ns = self.from_ns, self.until_ns
        if first_ns is not None and end_ns is not None and end_ns <= first_ns:
            raise ValueError("the time to read from is not before the one to read until")


EVERYTHING: Final = Options()
