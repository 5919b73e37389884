"""What scanning a capture file gives: its interfaces, and where packets stand in its bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kafkalite.columnar.arrays import Columns, Ints, none

NS_PER_S: Final = 1_000_000_000
LATEST_NS: Final = int(np.iinfo(np.int64).max)
"""A later time is told as this one: no column could hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """What a capture says of an interface that packets came by."""

    link_type: int
    snap_length: int = 0
    ticks: int = 1_000_000
    """How many units of its timestamps make a second."""
    offset_s: int = 0
    name: str = ""
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What is to be known to go on reading a file in its midst."""

    interfaces: tuple[Interface, ...] = ()
    """Those that packets can name from here on."""
    order: str = "<"
    last_ns: int = 0
    """The time of the packet before."""
    near: bytes = b""
    """Of classic files: what times nearby begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packets(Columns):
    """Packets of one chunk of a file, in the file's order: one row each.

    Positions count from the chunk's first byte.
    """

    at: Ints = field(default_factory=none)
    """Where the packet's block begins."""
    start: Ints = field(default_factory=none)
    """Where the packet's own bytes begin."""
    captured: Ints = field(default_factory=none)
    original: Ints = field(default_factory=none)
    at_ns: Ints = field(default_factory=none)
    interface: Ints = field(default_factory=none)
    """Index into the interfaces of the file."""
    options: Ints = field(default_factory=none)
    """Bytes of options; they begin at the next multiple of four bytes behind the packet."""


def nanoseconds(ticks: Ints, unit: int, offset_s: Ints) -> Ints:
    """Return times in nanoseconds, `unit` of whose ticks make a second; `ticks` are unsigned."""
    unsigned, per_second = ticks.view(np.uint64), np.uint64(unit)
    is_plain = unit == NS_PER_S and not offset_s.any()
    if is_plain and int(unsigned.max(initial=0)) < LATEST_NS - 2 * NS_PER_S:
        return ticks
    seconds = (unsigned // per_second).astype(np.int64) + offset_s
    rest = unsigned % per_second
    if unit <= NS_PER_S and NS_PER_S % unit == 0:
        fraction = rest * np.uint64(NS_PER_S // unit)
    else:
        # Units finer than a nanosecond, or powers of two: exact up to 2⁵³.
        fraction = (rest.astype(np.float64) * (NS_PER_S / unit)).astype(np.uint64)
    latest = LATEST_NS // NS_PER_S - 1
    times: Ints = np.clip(seconds, 0, latest) * NS_PER_S + fraction.astype(np.int64)
    return times
