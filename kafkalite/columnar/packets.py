"""Packets → TCP segments: link, IP and TCP headers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.capture.model import ProblemKind
from kafkalite.columnar.arrays import Columns, Ints, Room, none, where
from kafkalite.columnar.compiled import kernel, peek_u8, peek_u16, peek_u32, piece

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.columnar.arrays import Bytes
    from kafkalite.columnar.blocks import Tell
    from kafkalite.columnar.captured import Interface, Packets

FIN, SYN, RST, ACK = 1, 2, 4, 16

_SAYS_NOTHING, _UNKNOWN = -1, -2
_LINKS: Final[Mapping[int, tuple[int, int]]] = {
    1: (12, 14),  # Ethernet
    0: (_SAYS_NOTHING, 4),  # loopback, of BSD
    108: (_SAYS_NOTHING, 4),
    113: (14, 16),  # Linux cooked, of both versions
    276: (0, 20),
    12: (_SAYS_NOTHING, 0),  # bare IP
    14: (_SAYS_NOTHING, 0),
    101: (_SAYS_NOTHING, 0),
    228: (_SAYS_NOTHING, 0),
    229: (_SAYS_NOTHING, 0),
}
"""Where a link type says what it carries, if it does, and how long its header is."""

_VLANS: Final = (0x8100, 0x88A8, 0x9100, 0x9200)
_IP4, _IP6 = 0x0800, 0x86DD
_MAX_TAGS: Final = 4
_MPLS: Final = (0x8847, 0x8848)
_PPPOE, _PPP_IP4, _PPP_IP6 = 0x8864, 0x0021, 0x0057
_MAX_LABELS: Final = 8
_TCP, _FRAGMENT, _AUTHENTICATION = 6, 44, 51
_EXTENSIONS: Final = (0, 43, 44, 51, 60, 135, 139, 140)
_MAX_EXTENSIONS: Final = 8
_V4_HEAD, _V6_HEAD, _TCP_HEAD = 20, 40, 20

_FINE, _LINK, _LINK_CUT, _IP_CUT, _FRAGMENT4, _FRAGMENT6, _TCP_CUT, _WRONG, _END_CUT = range(9)
_FAULTS: Final = {
    _LINK_CUT: (ProblemKind.TRUNCATED_PACKET, "packets cut before the end of their link head"),
    _IP_CUT: (ProblemKind.TRUNCATED_PACKET, "packets cut before the end of their IP head"),
    _FRAGMENT4: (ProblemKind.IP_FRAGMENT, "fragments of IPv4 packets"),
    _FRAGMENT6: (ProblemKind.IP_FRAGMENT, "fragments of IPv6 packets"),
    _TCP_CUT: (ProblemKind.TRUNCATED_PACKET, "packets cut within their TCP head"),
    _WRONG: (ProblemKind.MALFORMED, "TCP heads longer than their packets"),
    _END_CUT: (ProblemKind.TRUNCATED_PACKET, "packets of which the end is not there"),
}
"""What may be wrong with a packet, by the number that a kernel has for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments(Columns):
    """TCP segments of one chunk, in the file's order: one row each."""

    packet: Ints = field(default_factory=none)
    """Index into the chunk's packets."""
    address: Ints = field(default_factory=none)
    """Where the IP header has its two addresses."""
    is_v6: Ints = field(default_factory=none)
    tcp: Ints = field(default_factory=none)
    """Where its TCP header begins."""
    ports: Ints = field(default_factory=none)
    """The source's port, times 2¹⁶, and the destination's."""
    seq: Ints = field(default_factory=none)
    flags: Ints = field(default_factory=none)
    start: Ints = field(default_factory=none)
    """Where its own bytes begin, in the chunk."""
    size: Ints = field(default_factory=none)
    """How many of them the capture has."""
    missing: Ints = field(default_factory=none)
    """How many more there were."""


class SegmentReader:
    """Reads the packets of one file; tells what it could not read."""

    def __init__(self, tell: Tell, interfaces: Sequence[Interface]) -> None:
        self._tell = tell
        self._interfaces = interfaces
        self._said, self._silent, self._faults = Room(), Room(), Room()

    def read(self, data: Bytes, offset: int, packets: Packets) -> tuple[Segments, Segments]:
        """Return the TCP segments of a chunk's packets: those that say something, and the others.

        The others carry no byte, and open and close nothing: they only acknowledge. What was
        returned before is no more.
        """
        count = len(packets)
        if not count:
            return Segments(), Segments()
        links = np.array(
            [_LINKS.get(each.link_type, (_UNKNOWN, 0)) for each in self._interfaces], np.int64
        )
        columns = len(Segments.__slots__)
        said, silent = self._said.take(columns, count), self._silent.take(columns, count)
        faults = self._faults.take(1, count)[0]
        spoken, quiet = read_heads(
            data, packets.start, packets.captured, packets.original, packets.interface, links,
            said, silent, faults,
        )  # fmt: skip
        self._tell_faults(offset, packets, faults)
        names = Segments.__slots__
        return (
            Segments(**dict(zip(names, said[:, :spoken], strict=True))),
            Segments(**dict(zip(names, silent[:, :quiet], strict=True))),
        )

    def _tell_faults(self, offset: int, packets: Packets, faults: Ints) -> None:
        counts = np.bincount(faults, minlength=len(_FAULTS) + 1)
        if counts[_FINE] == len(faults):
            return
        for fault, (kind, detail) in _FAULTS.items():
            rows = where(faults == fault)
            if len(rows):
                self._tell(kind, offset + int(packets.at[rows[0]]), detail, len(rows))
        rows = where(faults == _LINK)
        links = np.array([each.link_type for each in self._interfaces])[packets.interface[rows]]
        found = np.unique(links, return_index=True, return_counts=True)
        for link, first, count in zip(*(each.tolist() for each in found), strict=True):
            place = offset + int(packets.at[rows[first]])
            self._tell(ProblemKind.UNKNOWN_LINK_TYPE, place, f"link type {link}", count)


# -- kernels: each makes sure of its room before it reads ----------------------------------


@piece
def _past_link(data: Bytes, at: int, end: int, says: int, head: int) -> tuple[int, int]:
    """Return where IP begins, and what is wrong; behind all there is where there is no IP."""
    if says == _SAYS_NOTHING:
        return at + head, _FINE
    if says == _UNKNOWN:
        return end, _LINK
    if end - at < head:
        return end, _LINK_CUT
    kind, at = peek_u16(data, at + says), at + head
    for _ in range(_MAX_TAGS):
        if kind not in _VLANS or at + 4 > end:
            break
        kind, at = peek_u16(data, at + 2), at + 4
    for _ in range(_MAX_LABELS):
        if kind not in _MPLS or at + 5 > end:
            break
        is_last = peek_u8(data, at + 2) & 1
        at += 4
        if is_last:
            version = peek_u8(data, at) >> 4
            kind = _IP4 if version == 4 else _IP6 if version == 6 else 0  # noqa: PLR2004
    if kind == _PPPOE and at + 8 <= end:
        inside, at = peek_u16(data, at + 6), at + 8
        kind = _IP4 if inside == _PPP_IP4 else _IP6 if inside == _PPP_IP6 else 0
    return (at if kind in (_IP4, _IP6) else end), _FINE


@piece
def _past_v4(data: Bytes, at: int, end: int, whole: int) -> tuple[int, int, int]:
    """Return where TCP begins, 0 where it does not; where the packet ends; and what is wrong.

    A length of zero is what a card that splits packets itself leaves to it: the end is `whole`.
    """
    if end - at < _V4_HEAD:
        return 0, end, _IP_CUT
    head, total = (peek_u8(data, at) & 15) * 4, peek_u16(data, at + 2)
    ip_end = whole if total == 0 else at + total
    if peek_u8(data, at + 9) != _TCP or head < _V4_HEAD:
        return 0, ip_end, _FINE
    if peek_u16(data, at + 6) & 0x3FFF:
        return 0, ip_end, _FRAGMENT4
    return at + head, ip_end, _FINE


@piece
def _past_v6(data: Bytes, at: int, end: int, whole: int) -> tuple[int, int, int]:
    """Return the same of an IPv6 packet."""
    if end - at < _V6_HEAD:
        return 0, end, _IP_CUT
    payload = peek_u16(data, at + 4)
    ip_end = whole if payload == 0 else at + _V6_HEAD + payload
    kept = min(end, ip_end)
    kind, tcp = peek_u8(data, at + 6), at + _V6_HEAD
    for _ in range(_MAX_EXTENSIONS):
        if kind not in _EXTENSIONS or tcp + 8 > kept:
            break
        size = (peek_u8(data, tcp + 1) + 1) * 8
        if kind == _AUTHENTICATION:
            size = (peek_u8(data, tcp + 1) + 2) * 4
        elif kind == _FRAGMENT:
            size = 8
            if peek_u16(data, tcp + 2) & 0xFFF9:
                return 0, ip_end, _FRAGMENT6
        kind, tcp = peek_u8(data, tcp), tcp + size
    if kind in _EXTENSIONS and end < min(tcp + 8, ip_end):
        return 0, ip_end, _IP_CUT
    return (tcp if kind == _TCP else 0), ip_end, _FINE


@piece
def _past_ip(data: Bytes, at: int, end: int, whole: int, version: int) -> tuple[int, int, int]:
    """Return the same of what may be either, or neither."""
    if version == 4:  # noqa: PLR2004
        return _past_v4(data, at, end, whole)
    if version == 6:  # noqa: PLR2004
        return _past_v6(data, at, end, whole)
    return 0, end, _FINE


@kernel
def read_heads(  # noqa: PLR0917
    data: Bytes,
    starts: Ints,
    captured: Ints,
    original: Ints,
    interface: Ints,
    links: Ints,
    said: Ints,
    silent: Ints,
    faults: Ints,
) -> tuple[int, int]:
    """Read the headers of all packets; return how many segments speak, and how many do not.

    `said` and `silent` have the columns of `Segments`. That packets lie within the data, and
    name interfaces that there are, the scanners have seen to.
    """
    spoken = quiet = 0
    for packet in range(len(starts)):
        end = starts[packet] + captured[packet]
        says, head = links[interface[packet], 0], links[interface[packet], 1]
        whole = starts[packet] + max(captured[packet], original[packet])
        at, faults[packet] = _past_link(data, starts[packet], end, says, head)
        if at >= end:
            continue
        version = peek_u8(data, at) >> 4
        tcp, ip_end, faults[packet] = _past_ip(data, at, end, whole, version)
        if tcp == 0:
            continue
        kept = min(end, ip_end)
        if tcp + _TCP_HEAD > kept:
            faults[packet] = _TCP_CUT
            continue
        word = peek_u16(data, tcp + 12)
        flags, start = word & 0xFF, tcp + (word >> 12) * 4
        carried = ip_end - start
        if word >> 12 < _TCP_HEAD // 4 or carried < 0:
            faults[packet] = _WRONG
            continue
        size = min(max(kept - start, 0), carried)
        faults[packet] = _END_CUT if size < carried else _FINE
        speaks = carried > 0 or flags & (SYN | FIN | RST) != 0
        room, row = (said, spoken) if speaks else (silent, quiet)
        spoken, quiet = spoken + speaks, quiet + (not speaks)
        is_v6 = version == 6  # noqa: PLR2004
        room[0, row], room[1, row] = packet, at + (8 if is_v6 else 12)
        room[2, row], room[3, row] = is_v6, tcp
        room[4, row], room[5, row] = peek_u32(data, tcp), peek_u32(data, tcp + 4)
        room[6, row], room[7, row] = flags, start
        room[8, row], room[9, row] = size, carried - size
    return spoken, quiet
