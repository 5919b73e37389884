"""`SegmentReader`: extracts TCP segments from packets by their link, IP and TCP headers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.traffic.columnar.arrays import Columns, Ints, ReusableArray, none, where
from kafkalite.traffic.columnar.kernels import kernel, peek_u8, peek_u16, peek_u32, piece
from kafkalite.traffic.model import ProblemKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.traffic.columnar.arrays import Bytes
    from kafkalite.traffic.columnar.packet_index import Interface, Packets
    from kafkalite.traffic.columnar.pcapng import Report

FIN, SYN, RST, ACK = 1, 2, 4, 16

_NO_PROTOCOL_FIELD, _UNKNOWN = -1, -2
_LINKS: Final[Mapping[int, tuple[int, int]]] = {
    1: (12, 14),  # Ethernet
    0: (_NO_PROTOCOL_FIELD, 4),  # loopback, of BSD
    108: (_NO_PROTOCOL_FIELD, 4),
    113: (14, 16),  # Linux cooked, of both versions
    276: (0, 20),
    12: (_NO_PROTOCOL_FIELD, 0),  # bare IP
    14: (_NO_PROTOCOL_FIELD, 0),
    101: (_NO_PROTOCOL_FIELD, 0),
    228: (_NO_PROTOCOL_FIELD, 0),
    229: (_NO_PROTOCOL_FIELD, 0),
}
"""Link type → offset of its protocol field, if it has one, and size of its header."""

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

_VALID, _LINK, _LINK_CUT, _IP_CUT, _FRAGMENT4, _FRAGMENT6, _TCP_CUT, _WRONG, _END_CUT = range(9)
_FAULTS: Final = {
    _LINK_CUT: (ProblemKind.TRUNCATED_PACKET, "packets end within their link header"),
    _IP_CUT: (ProblemKind.TRUNCATED_PACKET, "packets end within their IP header"),
    _FRAGMENT4: (ProblemKind.IP_FRAGMENT, "fragments of IPv4 packets"),
    _FRAGMENT6: (ProblemKind.IP_FRAGMENT, "fragments of IPv6 packets"),
    _TCP_CUT: (ProblemKind.TRUNCATED_PACKET, "packets end within their TCP header"),
    _WRONG: (ProblemKind.MALFORMED, "TCP headers are longer than their packets"),
    _END_CUT: (ProblemKind.TRUNCATED_PACKET, "the end of packets was not captured"),
}
"""Fault code of a kernel → problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments(Columns):
    """TCP segments of one chunk in file order, one row each."""

    packet: Ints = field(default_factory=none)
    """Index into the chunk's packets."""
    address: Ints = field(default_factory=none)
    """Position of the addresses in the IP header."""
    is_v6: Ints = field(default_factory=none)
    tcp: Ints = field(default_factory=none)
    """Start of the TCP header."""
    ports: Ints = field(default_factory=none)
    """The source port times 2¹⁶, plus the destination port."""
    seq: Ints = field(default_factory=none)
    flags: Ints = field(default_factory=none)
    start: Ints = field(default_factory=none)
    """Start of the payload in the chunk."""
    size: Ints = field(default_factory=none)
    """Number of captured payload bytes."""
    missing: Ints = field(default_factory=none)
    """Number of payload bytes that were not captured."""


class SegmentReader:
    """Reads the packets of one file, and reports unreadable ones."""

    def __init__(self, report: Report, interfaces: Sequence[Interface]) -> None:
        self._report = report
        self._interfaces = interfaces
        self._data_memory, self._ack_memory, self._fault_memory = (
            ReusableArray(),
            ReusableArray(),
            ReusableArray(),
        )

    def read(self, data: Bytes, offset: int, packets: Packets) -> tuple[Segments, Segments]:
        """Return the TCP segments of a chunk's packets: those with data or flags, and the others.

        The others only acknowledge: they have no payload and no SYN, FIN or RST. The next call
        reuses the memory of the result.
        """
        count = len(packets)
        if not count:
            return Segments(), Segments()
        links = np.array(
            [_LINKS.get(each.link_type, (_UNKNOWN, 0)) for each in self._interfaces], np.int64
        )
        columns = len(Segments.__slots__)
        data_segments, ack_only = (
            self._data_memory.take(columns, count),
            self._ack_memory.take(columns, count),
        )
        faults = self._fault_memory.take(1, count)[0]
        data_count, ack_count = read_headers(
            data, packets.start, packets.captured, packets.original, packets.interface, links,
            data_segments, ack_only, faults,
        )  # fmt: skip
        self._report_faults(offset, packets, faults)
        names = Segments.__slots__
        return (
            Segments(**dict(zip(names, data_segments[:, :data_count], strict=True))),
            Segments(**dict(zip(names, ack_only[:, :ack_count], strict=True))),
        )

    def _report_faults(self, offset: int, packets: Packets, faults: Ints) -> None:
        counts = np.bincount(faults, minlength=len(_FAULTS) + 1)
        if counts[_VALID] == len(faults):
            return
        for fault, (kind, detail) in _FAULTS.items():
            rows = where(faults == fault)
            if len(rows):
                self._report(kind, offset + int(packets.at[rows[0]]), detail, len(rows))
        rows = where(faults == _LINK)
        links = np.array([each.link_type for each in self._interfaces])[packets.interface[rows]]
        found = np.unique(links, return_index=True, return_counts=True)
        for link, first, count in zip(*(each.tolist() for each in found), strict=True):
            first_offset = offset + int(packets.at[rows[first]])
            self._report(ProblemKind.UNKNOWN_LINK_TYPE, first_offset, f"link type {link}", count)


# -- kernels: each checks the bounds before it reads -----------------------------------------


@piece
def _after_link(data: Bytes, at: int, end: int, protocol_at: int, head: int) -> tuple[int, int]:
    """Return the start of the IP header, and the fault; `end` if the packet is not IP."""
    if protocol_at == _NO_PROTOCOL_FIELD:
        return at + head, _VALID
    if protocol_at == _UNKNOWN:
        return end, _LINK
    if end - at < head:
        return end, _LINK_CUT
    kind, at = peek_u16(data, at + protocol_at), at + head
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
    return (at if kind in (_IP4, _IP6) else end), _VALID


@piece
def _after_ipv4(data: Bytes, at: int, end: int, whole: int) -> tuple[int, int, int]:
    """Return the start of the TCP header or 0, the end of the packet, and the fault.

    If the length in the header is 0, because a network card sets it later, the end is `whole`.
    """
    if end - at < _V4_HEAD:
        return 0, end, _IP_CUT
    head, total = (peek_u8(data, at) & 15) * 4, peek_u16(data, at + 2)
    ip_end = whole if total == 0 else at + total
    if peek_u8(data, at + 9) != _TCP or head < _V4_HEAD:
        return 0, ip_end, _VALID
    if peek_u16(data, at + 6) & 0x3FFF:
        return 0, ip_end, _FRAGMENT4
    return at + head, ip_end, _VALID


@piece
def _after_ipv6(data: Bytes, at: int, end: int, whole: int) -> tuple[int, int, int]:
    """Return the same as `_after_ipv4`, for an IPv6 packet."""
    if end - at < _V6_HEAD:
        return 0, end, _IP_CUT
    payload = peek_u16(data, at + 4)
    ip_end = whole if payload == 0 else at + _V6_HEAD + payload
    captured_end = min(end, ip_end)
    kind, tcp = peek_u8(data, at + 6), at + _V6_HEAD
    for _ in range(_MAX_EXTENSIONS):
        if kind not in _EXTENSIONS or tcp + 8 > captured_end:
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
    return (tcp if kind == _TCP else 0), ip_end, _VALID


@piece
def _after_ip(data: Bytes, at: int, end: int, whole: int, version: int) -> tuple[int, int, int]:
    """Return the same as `_after_ipv4`, for a packet of any IP version."""
    if version == 4:  # noqa: PLR2004
        return _after_ipv4(data, at, end, whole)
    if version == 6:  # noqa: PLR2004
        return _after_ipv6(data, at, end, whole)
    return 0, end, _VALID


@kernel
def read_headers(  # noqa: PLR0917
    data: Bytes,
    starts: Ints,
    captured: Ints,
    original: Ints,
    interface: Ints,
    links: Ints,
    data_segments: Ints,
    ack_only: Ints,
    faults: Ints,
) -> tuple[int, int]:
    """Parse the headers of all packets; return the numbers of data and of ack-only segments.

    `data_segments` and `ack_only` receive the columns of `Segments`. The scanners have checked that
    packets are within the data, and that their interfaces exist.
    """
    data_count = ack_count = 0
    for packet in range(len(starts)):
        end = starts[packet] + captured[packet]
        protocol_at, head = links[interface[packet], 0], links[interface[packet], 1]
        whole = starts[packet] + max(captured[packet], original[packet])
        at, faults[packet] = _after_link(data, starts[packet], end, protocol_at, head)
        if at >= end:
            continue
        version = peek_u8(data, at) >> 4
        tcp, ip_end, faults[packet] = _after_ip(data, at, end, whole, version)
        if tcp == 0:
            continue
        captured_end = min(end, ip_end)
        if tcp + _TCP_HEAD > captured_end:
            faults[packet] = _TCP_CUT
            continue
        word = peek_u16(data, tcp + 12)
        flags, start = word & 0xFF, tcp + (word >> 12) * 4
        carried = ip_end - start
        if word >> 12 < _TCP_HEAD // 4 or carried < 0:
            faults[packet] = _WRONG
            continue
        size = min(max(captured_end - start, 0), carried)
        faults[packet] = _END_CUT if size < carried else _VALID
        has_data = carried > 0 or flags & (SYN | FIN | RST) != 0
        out, row = (data_segments, data_count) if has_data else (ack_only, ack_count)
        data_count, ack_count = data_count + has_data, ack_count + (not has_data)
        is_v6 = version == 6  # noqa: PLR2004
        out[0, row], out[1, row] = packet, at + (8 if is_v6 else 12)
        out[2, row], out[3, row] = is_v6, tcp
        out[4, row], out[5, row] = peek_u32(data, tcp), peek_u32(data, tcp + 4)
        out[6, row], out[7, row] = flags, start
        out[8, row], out[9, row] = size, carried - size
    return data_count, ack_count
