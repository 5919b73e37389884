"""Packets → TCP segments: link, IP and TCP headers, read for a whole chunk at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kafkalite.capture.model import ProblemKind
from kafkalite.columnar.arrays import NONE, Columns, Ints, Windows, none, u8, u16be, u64be, where

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.columnar.arrays import Bytes
    from kafkalite.columnar.blocks import Tell
    from kafkalite.columnar.captured import Interface, Packets

FIN, SYN, RST, ACK = 1, 2, 4, 16

_ETHERNET, _NULL, _LOOP, _SLL, _SLL2 = 1, 0, 108, 113, 276
_LINKS: Final[Mapping[int, tuple[int | None, int]]] = {
    _ETHERNET: (12, 14),
    _NULL: (None, 4),
    _LOOP: (None, 4),
    _SLL: (14, 16),
    _SLL2: (0, 20),
    12: (None, 0),
    14: (None, 0),
    101: (None, 0),
    228: (None, 0),
    229: (None, 0),
}
"""Where a link type says what it carries, if it does, and how long its header is."""

_VLAN: Final = np.array([0x8100, 0x88A8, 0x9100, 0x9200])
_IP: Final = np.array([0x0800, 0x86DD])
_MAX_TAGS: Final = 4
_MPLS, _PPPOE, _PPP_IP4, _PPP_IP6 = 0x8847, 0x8864, 0x0021, 0x0057
_MAX_LABELS: Final = 8
_TCP, _FRAGMENT, _AUTHENTICATION = 6, 44, 51
_EXTENSIONS: Final = np.array([0, 43, 44, 51, 60, 135, 139, 140])
_MAX_EXTENSIONS: Final = 8
_ODD, _OTHER_ODD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_V4_HEAD, _V6_HEAD, _TCP_HEAD = 20, 40, 20


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

    def read(self, data: Bytes, offset: int, packets: Packets) -> tuple[Segments, Segments]:
        """Return the TCP segments of a chunk's packets: those that say something, and the others.

        The others carry no byte, and open and close nothing: they only acknowledge.
        """
        if not len(packets):
            return Segments(), Segments()

        def tell(kind: ProblemKind, rows: Ints, detail: str) -> None:
            if len(rows):
                self._tell(kind, offset + int(packets.at[rows[0]]), detail, len(rows))

        rows, at = self._network(data, packets, tell)
        end = packets.start[rows] + packets.captured[rows]
        room = end - at
        version = np.zeros(len(rows), np.int64)
        some = room > 0
        version[some] = u8(data, at[some]) >> 4
        heads = [
            _v4(data, rows[w], at[w], end[w], tell)
            for w in [where((version == 4) & (room >= _V4_HEAD))]  # noqa: PLR2004
        ]
        sixth = where((version == 6) & (room >= _V6_HEAD))  # noqa: PLR2004
        if len(sixth):
            heads.append(_v6(data, rows[sixth], at[sixth], end[sixth], tell))
        cut = where(((version == 4) & (room < _V4_HEAD)) | ((version == 6) & (room < _V6_HEAD)))  # noqa: PLR2004
        tell(ProblemKind.TRUNCATED_PACKET, rows[cut], "packets cut before the end of their IP head")
        found = _joined(heads)
        return _segments(data, found, tell)

    def _network(
        self, data: Bytes, packets: Packets, tell: Callable[[ProblemKind, Ints, str], None]
    ) -> tuple[Ints, Ints]:
        """Return which packets carry IP, and where its header begins."""
        numbers = np.flatnonzero(np.bincount(packets.interface)).tolist()
        if len(numbers) == 1:
            link = self._interfaces[numbers[0]].link_type
            return _past_link(data, packets, np.arange(len(packets)), link, tell)
        links = np.array([each.link_type for each in self._interfaces])[packets.interface]
        found = [
            _past_link(data, packets, where(links == link), link, tell)
            for link in np.unique(links).tolist()
        ]
        rows = np.concatenate([rows for rows, _ in found])
        at = np.concatenate([at for _, at in found])
        if len(found) > 1:
            order = np.argsort(rows, kind="stable")
            rows, at = rows[order], at[order]
        return rows, at


def _past_link(
    data: Bytes,
    packets: Packets,
    rows: Ints,
    link: int,
    tell: Callable[[ProblemKind, Ints, str], None],
) -> tuple[Ints, Ints]:
    if link not in _LINKS:
        tell(ProblemKind.UNKNOWN_LINK_TYPE, rows, f"link type {link}")
        return NONE, NONE
    says, head = _LINKS[link]
    start = packets.start if len(rows) == len(packets) else packets.start[rows]
    if says is None:
        return rows, start + head
    end = start + packets.captured[rows]
    whole = end - start >= head
    tell(
        ProblemKind.TRUNCATED_PACKET, rows[~whole], "packets cut before the end of their link head"
    )
    rows, start, end = rows[whole], start[whole], end[whole]
    kind, at = u16be(data, start + says), start + head
    for _ in range(_MAX_TAGS):
        tagged = where(np.isin(kind, _VLAN) & (at + 4 <= end))
        if not len(tagged):
            break
        kind[tagged] = u16be(data, at[tagged] + 2)
        at[tagged] += 4
    at, kind = _past_stacks(data, at, end, kind)
    is_ip = (kind == _IP[0]) | (kind == _IP[1])
    return (rows, at) if is_ip.all() else (rows[is_ip], at[is_ip])


def _past_stacks(data: Bytes, at: Ints, end: Ints, kind: Ints) -> tuple[Ints, Ints]:
    """Go on behind the labels of MPLS and the head of PPPoE."""
    for _ in range(_MAX_LABELS):
        labelled = where((kind == _MPLS) & (at + 5 <= end))
        if not len(labelled):
            break
        is_last = u8(data, at[labelled] + 2) & 1 == 1
        at[labelled] += 4
        inner = labelled[is_last]
        version = u8(data, at[inner]) >> 4
        kind[inner] = np.where(version == 4, _IP[0], np.where(version == 6, _IP[1], 0))  # noqa: PLR2004
    tunnelled = where((kind == _PPPOE) & (at + 8 <= end))
    if len(tunnelled):
        inside = u16be(data, at[tunnelled] + 6)
        kind[tunnelled] = np.where(
            inside == _PPP_IP4, _IP[0], np.where(inside == _PPP_IP6, _IP[1], 0)
        )
        at[tunnelled] += 8
    return at, kind


@dataclass(frozen=True, slots=True)
class _Heads(Columns):
    """What IP says of packets that carry TCP: where that begins, and where the packet ends."""

    packet: Ints = field(default_factory=none)
    address: Ints = field(default_factory=none)
    is_v6: Ints = field(default_factory=none)
    tcp: Ints = field(default_factory=none)
    end: Ints = field(default_factory=none)
    """Where the packet ends by what IP says."""
    kept: Ints = field(default_factory=none)
    """Where it ends in the capture."""


def _v4(
    data: Bytes, rows: Ints, at: Ints, end: Ints, tell: Callable[[ProblemKind, Ints, str], None]
) -> _Heads:
    window = Windows(data, at, _V4_HEAD)
    first = window.read(">u4", 0)
    head = (first >> 24 & 15) * 4
    total = first & 0xFFFF
    # A length of zero is what a card that splits packets itself leaves to it.
    total = np.where(total == 0, end - at, total)
    fragment = window.read(">u2", 6) & 0x3FFF
    is_tcp = (window.read("u1", 9) == _TCP) & (head >= _V4_HEAD)
    tell(ProblemKind.IP_FRAGMENT, rows[is_tcp & (fragment != 0)], "fragments of IPv4 packets")
    is_tcp &= fragment == 0
    ip_end = at + total
    heads = _Heads(
        rows, at + 12, np.zeros(len(rows), np.int64), at + head, ip_end, np.minimum(end, ip_end)
    )
    return heads if is_tcp.all() else heads.picked(is_tcp)


def _v6(
    data: Bytes, rows: Ints, at: Ints, end: Ints, tell: Callable[[ProblemKind, Ints, str], None]
) -> _Heads:
    payload = u16be(data, at + 4)
    ip_end = np.where(payload == 0, end, at + _V6_HEAD + payload)
    kept = np.minimum(end, ip_end)
    kind, tcp = u8(data, at + 6), at + _V6_HEAD
    is_fragment = np.zeros(len(rows), np.bool_)
    for _ in range(_MAX_EXTENSIONS):
        more = where(np.isin(kind, _EXTENSIONS) & (tcp + 8 <= kept) & ~is_fragment)
        if not len(more):
            break
        here, this = tcp[more], kind[more]
        size = (u8(data, here + 1) + 1) * 8
        size[this == _AUTHENTICATION] = (u8(data, here[this == _AUTHENTICATION] + 1) + 2) * 4
        size[this == _FRAGMENT] = 8
        is_fragment[more] = (this == _FRAGMENT) & (u16be(data, here + 2) & 0xFFF9 != 0)
        kind[more] = np.where(is_fragment[more], this, u8(data, here))
        tcp[more] += size
    tell(ProblemKind.IP_FRAGMENT, rows[is_fragment], "fragments of IPv6 packets")
    heads = _Heads(rows, at + 8, np.ones(len(rows), np.int64), tcp, ip_end, kept)
    return heads.picked((kind == _TCP) & ~is_fragment)


def _joined(heads: Sequence[_Heads]) -> _Heads:
    both = _Heads.joined(heads)
    if sum(len(each) > 0 for each in heads) > 1:
        both = both.picked(np.argsort(both.packet, kind="stable"))
    return both


def _segments(
    data: Bytes, heads: _Heads, tell: Callable[[ProblemKind, Ints, str], None]
) -> tuple[Segments, Segments]:
    whole = heads.tcp + _TCP_HEAD <= heads.kept
    if not whole.all():
        tell(
            ProblemKind.TRUNCATED_PACKET, heads.packet[~whole], "packets cut within their TCP head"
        )
        heads = heads.picked(whole)
    tcp = heads.tcp
    window = Windows(data, tcp, _TCP_HEAD)
    word = window.read(">u2", 12)
    flags = word & 0xFF
    start = tcp + (word >> 12) * 4
    carried = heads.end - start
    is_right = (word >> 12 >= _TCP_HEAD // 4) & (carried >= 0)
    tell(ProblemKind.MALFORMED, heads.packet[~is_right], "TCP heads longer than their packets")
    says = is_right & ((carried > 0) | (flags & (SYN | FIN | RST) != 0))
    size = np.clip(heads.kept - start, 0, np.maximum(carried, 0))
    missing = np.maximum(carried - size, 0)
    cut = is_right & (missing > 0)
    tell(ProblemKind.TRUNCATED_PACKET, heads.packet[cut], "packets of which the end is not there")
    every = Segments(
        packet=heads.packet, address=heads.address, is_v6=heads.is_v6, tcp=tcp,
        ports=window.read(">u4", 0), seq=window.read(">u4", 4), flags=flags, start=start, size=size,
        missing=missing,
    )  # fmt: skip
    if says.all():
        return every, Segments()
    return every.picked(says), every.picked(is_right & ~says)


def flows(data: Bytes, segments: Segments) -> tuple[Ints, Ints]:
    """Give numbers to flows, which are single directions of connections, as they appear.

    Return each segment's flow, and each flow's first segment.
    """
    v6 = where(segments.is_v6 == 1)
    both = u64be(data, segments.address)  # of IPv4: the source's address and the destination's
    if len(v6):
        at = segments.address[v6]
        source = _paired(_codes(both[v6]), _codes(u64be(data, at + 8)))
        target = _paired(_codes(u64be(data, at + 16)), _codes(u64be(data, at + 24)))
        both[v6] = _paired(source, target)
    codes = _codes(_mixed(both, segments))
    firsts = _firsts(codes)
    first = firsts[codes]
    same = (both == both[first]) & (segments.ports == segments.ports[first])
    if not (same & (segments.is_v6 == segments.is_v6[first])).all():
        # Two flows have been mixed to the same number: seldom, unless somebody wants it so.
        addresses = _codes(both) * 2 + segments.is_v6
        codes = _paired(_codes(addresses), segments.ports)
        firsts = _firsts(codes)
    return codes, firsts


def _mixed(addresses: Ints, segments: Segments) -> Ints:
    """Return one number for each segment, which is another one for another flow."""
    mixed = addresses.view(np.uint64) * _ODD ^ segments.ports.view(np.uint64) * _OTHER_ODD
    return (mixed + segments.is_v6.view(np.uint64)).view(np.int64)


def _firsts(codes: Ints) -> Ints:
    """Return where each number is first."""
    # Numbers go up where a flow appears, and nowhere else.
    return where(np.diff(np.maximum.accumulate(codes), prepend=-1) > 0)


def _codes(values: Ints) -> Ints:
    """Give numbers to values in the order they appear: equal ones to equal values."""
    found: Ints = pa.array(values).dictionary_encode().indices.to_numpy().astype(np.int64)
    return found


def _paired(first: Ints, second: Ints) -> Ints:
    return _codes(first << 32 | second)
