"""Segments → pieces in order, per direction of each connection, where nothing was lost or repeated.

A connection of which that is not so in a chunk is for the exact way, segment by segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.columnar.arrays import where
from kafkalite.columnar.packets import FIN, RST, SYN

if TYPE_CHECKING:
    from kafkalite.columnar.arrays import Ints, Mask
    from kafkalite.columnar.packets import Segments

_MASK: Final = 0xFFFFFFFF
_RADIX: Final = 1 << 16


def grouped(keys: Ints) -> Ints:
    """Return the order that brings equal keys together, and keeps them in their order."""
    if len(keys) and int(keys.max()) < _RADIX:
        return np.argsort(keys.astype(np.uint16), kind="stable")  # sixteen bits: a radix sort
    return np.argsort(keys, kind="stable")


@dataclass(frozen=True, slots=True)
class Streams:
    """Segments, those of one direction of one connection in a row."""

    order: Ints
    """The segments' rows in this order."""
    group: Ints
    """Twice the number of the connection, and one more for responses: one row a direction."""
    first: Ints
    """Where each direction's segments begin in `order`; one more at the end."""
    seq: Ints
    """The first sequence number of a direction's own bytes, its SYN's included."""
    end: Ints
    """The next sequence number behind each direction."""
    flags: Ints
    """All flags of a direction's segments together."""
    is_plain: Mask
    """Whether segments follow each other, and begin or end the connection only at an end."""


def streams(segments: Segments, groups: Ints) -> Streams:
    """Bring the segments of each direction together; `groups` says whose each of them is."""
    order = grouped(groups)
    group = groups[order]
    new = np.empty(len(order), np.bool_)
    new[:1] = True
    new[1:] = group[1:] != group[:-1]
    first = where(new)
    seq, flags = segments.seq[order], segments.flags[order]
    missing = segments.missing[order]
    after = seq + segments.size[order] + missing
    special = where(flags & (SYN | FIN | RST) != 0)
    marks = flags[special]
    after[special] += (marks & SYN != 0).astype(np.int64) + (marks & FIN != 0)
    after &= _MASK
    follows = np.empty(len(order), np.bool_)
    follows[:1] = True
    follows[1:] = seq[1:] == after[:-1]
    follows |= new
    follows &= missing == 0
    bounds = np.append(first, len(order))
    is_last = np.zeros(len(order), np.bool_)
    is_last[bounds[1:] - 1] = True
    opens = marks & SYN != 0
    ends = marks & (FIN | RST) != 0
    # An opening within a stream, bytes behind its end: for the exact way.
    odd = special[(opens & ~new[special]) | (ends & ~is_last[special]) | (opens & ends)]
    follows[odd] = False
    wrong = where(~follows)
    is_plain = np.ones(len(first), np.bool_)
    is_plain[first.searchsorted(wrong, "right") - 1] = False
    flags_of = flags[first] | flags[bounds[1:] - 1]
    return Streams(
        order, group[first], bounds, seq[first], after[bounds[1:] - 1], flags_of, is_plain
    )
