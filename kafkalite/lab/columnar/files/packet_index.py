"""Results of scanning a capture file: its interfaces, and the positions of packets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kafkalite.lab.columnar.arrays import Columns, Ints, empty_ints
from kafkalite.ports.units import NANOSECONDS_PER_SECOND

MAX_TIME_NS: Final = int(np.iinfo(np.int64).max)
"""The maximum of the time columns; later times are clipped to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """An interface on which packets were captured."""

    link_type: int
    snap_length: int = 0
    ticks_per_second: int = 1_000_000
    """Timestamp units per second."""
    offset_s: int = 0
    name: str = ""
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannerState:
    """State of a scanner from which reading can continue in the middle of a file."""

    interfaces: tuple[Interface, ...] = ()
    """The interfaces that following packets can refer to."""
    order: str = "<"
    last_ns: int = 0
    """Time of the previous packet."""
    high_seconds: bytes = b""
    """For pcap: the two high bytes of the previous packet's seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packets(Columns):
    """Packets of one chunk in file order, one row each.

    Positions count from the first byte of the chunk.
    """

    block_start: Ints = field(default_factory=empty_ints)
    """Start of the block that contains the packet."""
    start: Ints = field(default_factory=empty_ints)
    """Start of the packet."""
    captured: Ints = field(default_factory=empty_ints)
    """Number of captured bytes."""
    original: Ints = field(default_factory=empty_ints)
    """Size of the packet on the network in bytes."""
    at_ns: Ints = field(default_factory=empty_ints)
    interface: Ints = field(default_factory=empty_ints)
    """Index of the interface in the file."""
    options: Ints = field(default_factory=empty_ints)
    """Size of the options in bytes. They begin at the next multiple of 4 bytes after the data."""


def nanoseconds(ticks: Ints, unit: int, offset_s: Ints) -> Ints:
    """Return times in nanoseconds; `ticks` are unsigned, `unit` is ticks per second."""
    unsigned, per_second = ticks.view(np.uint64), np.uint64(unit)
    is_plain = unit == NANOSECONDS_PER_SECOND and not offset_s.any()
    if is_plain and int(unsigned.max(initial=0)) < MAX_TIME_NS - 2 * NANOSECONDS_PER_SECOND:
        return ticks
    seconds = (unsigned // per_second).astype(np.int64) + offset_s
    remaining_ticks = unsigned % per_second
    if unit <= NANOSECONDS_PER_SECOND and NANOSECONDS_PER_SECOND % unit == 0:
        fraction = remaining_ticks * np.uint64(NANOSECONDS_PER_SECOND // unit)
    else:
        # Units finer than a nanosecond, or powers of two: exact up to 2⁵³.
        fraction = (remaining_ticks.astype(np.float64) * (NANOSECONDS_PER_SECOND / unit)).astype(
            np.uint64
        )
    max_seconds = MAX_TIME_NS // NANOSECONDS_PER_SECOND - 1
    times: Ints = np.clip(seconds, 0, max_seconds) * NANOSECONDS_PER_SECOND + fraction.astype(
        np.int64
    )
    return times
