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


def nanoseconds(ticks: Ints, interface: Interface) -> Ints:
    """Return times of an interface in nanoseconds; `ticks` are unsigned."""
    unsigned = ticks.view(np.uint64)
    unit = np.uint64(interface.ticks)
    is_plain = interface.ticks == NS_PER_S and not interface.offset_s
    if is_plain and int(unsigned.max(initial=0)) < LATEST_NS - 2 * NS_PER_S:
        return ticks
    seconds = (unsigned // unit).astype(np.int64) + interface.offset_s
    rest = unsigned % unit
    if interface.ticks <= NS_PER_S and NS_PER_S % interface.ticks == 0:
        fraction = rest * np.uint64(NS_PER_S // interface.ticks)
    else:
        # Units finer than a nanosecond, or powers of two: exact up to 2⁵³.
        fraction = (rest.astype(np.float64) * (NS_PER_S / interface.ticks)).astype(np.uint64)
    latest = LATEST_NS // NS_PER_S - 1
    return np.clip(seconds, 0, latest) * NS_PER_S + fraction.astype(np.int64)
