"""`SegmentReader`: extracts TCP segments from packets by their link, IP and TCP headers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar.arrays import Columns, Ints, ReusableArray, empty_ints, true_indexes
from kafkalite.lab.columnar.kernels import inlined, kernel, peek_u8, peek_u16, peek_u32

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.lab.columnar.arrays import Bytes
    from kafkalite.lab.columnar.files.packet_index import Interface, Packets
    from kafkalite.lab.columnar.files.pcapng import Report

FIN, SYN, RST, ACK = 1, 2, 4, 16
ACKNOWLEDGMENT_OFFSET: Final = 8
"""Offset of the acknowledgment number in a TCP header."""

_NO_PROTOCOL_FIELD, _UNKNOWN_LINK_TYPE = -1, -2
_LINK_LAYOUTS: Final[Mapping[int, tuple[int, int]]] = {
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

_VLAN_TYPES: Final = (0x8100, 0x88A8, 0x9100, 0x9200)
_IP4, _IP6 = 0x0800, 0x86DD
_MAX_VLAN_TAGS: Final = 4
_MPLS_TYPES: Final = (0x8847, 0x8848)
_PPPOE, _PPP_IP4, _PPP_IP6 = 0x8864, 0x0021, 0x0057
_MAX_MPLS_LABELS: Final = 8
_TCP, _FRAGMENT_HEADER, _AUTHENTICATION_HEADER = 6, 44, 51
_EXTENSION_HEADERS: Final = (0, 43, 44, 51, 60, 135, 139, 140)
_MAX_EXTENSION_HEADERS: Final = 8
_IP4_HEADER_BYTES, _IP6_HEADER_BYTES, _MIN_TCP_HEADER_BYTES = 20, 40, 20

(
    _VALID,
    _UNKNOWN_LINK,
    _LINK_TRUNCATED,
    _IP_TRUNCATED,
    _IP4_FRAGMENT,
    _IP6_FRAGMENT,
    _TCP_TRUNCATED,
    _INVALID_TCP_LENGTH,
    _PAYLOAD_TRUNCATED,
) = range(9)
_FAULTS: Final = {
    _LINK_TRUNCATED: (ProblemKind.TRUNCATED_PACKET, "packets end within their link header"),
    _IP_TRUNCATED: (ProblemKind.TRUNCATED_PACKET, "packets end within their IP header"),
    _IP4_FRAGMENT: (ProblemKind.IP_FRAGMENT, "fragments of IPv4 packets"),
    _IP6_FRAGMENT: (ProblemKind.IP_FRAGMENT, "fragments of IPv6 packets"),
    _TCP_TRUNCATED: (ProblemKind.TRUNCATED_PACKET, "packets end within their TCP header"),
    _INVALID_TCP_LENGTH: (ProblemKind.MALFORMED, "TCP headers are longer than their packets"),
    _PAYLOAD_TRUNCATED: (ProblemKind.TRUNCATED_PACKET, "the end of packets was not captured"),
}
"""Fault code of a kernel → problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments(Columns):
    """TCP segments of one chunk in file order, one row each."""

    packet: Ints = field(default_factory=empty_ints)
    """Index into the chunk's packets."""
    addresses_start: Ints = field(default_factory=empty_ints)
    """Start of the addresses in the IP header."""
    is_v6: Ints = field(default_factory=empty_ints)
    tcp_start: Ints = field(default_factory=empty_ints)
    """Start of the TCP header."""
    ports: Ints = field(default_factory=empty_ints)
    """The source port times 2¹⁶, plus the destination port."""
    seq: Ints = field(default_factory=empty_ints)
    flags: Ints = field(default_factory=empty_ints)
    start: Ints = field(default_factory=empty_ints)
    """Start of the payload in the chunk."""
    size: Ints = field(default_factory=empty_ints)
    """Number of captured payload bytes."""
    missing_bytes: Ints = field(default_factory=empty_ints)
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
            [
                _LINK_LAYOUTS.get(each.link_type, (_UNKNOWN_LINK_TYPE, 0))
                for each in self._interfaces
            ],
            np.int64,
        )
        columns = len(Segments.__slots__)
        data_segments, ack_only = (
            self._data_memory.allocate(columns, count),
            self._ack_memory.allocate(columns, count),
        )
        faults = self._fault_memory.allocate(1, count)[0]
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
            rows = true_indexes(faults == fault)
            if len(rows):
                self._report(kind, offset + int(packets.block_start[rows[0]]), detail, len(rows))
        rows = true_indexes(faults == _UNKNOWN_LINK)
        links = np.array([each.link_type for each in self._interfaces])[packets.interface[rows]]
        found = np.unique(links, return_index=True, return_counts=True)
        for link, first, count in zip(*(each.tolist() for each in found), strict=True):
            first_offset = offset + int(packets.block_start[rows[first]])
            self._report(ProblemKind.UNKNOWN_LINK_TYPE, first_offset, f"link type {link}", count)


# -- kernels: each checks the bounds before it reads -----------------------------------------


@inlined
def _find_ip_header(
    data: Bytes, at: int, end: int, type_offset: int, header_bytes: int
) -> tuple[int, int]:
    """Return the start of the IP header or `end` if there is none, and the fault code."""
    if type_offset == _NO_PROTOCOL_FIELD:
        return at + header_bytes, _VALID
    if type_offset == _UNKNOWN_LINK_TYPE:
        return end, _UNKNOWN_LINK
    if end - at < header_bytes:
        return end, _LINK_TRUNCATED
    protocol, at = peek_u16(data, at + type_offset), at + header_bytes
    for _ in range(_MAX_VLAN_TAGS):
        if protocol not in _VLAN_TYPES or at + 4 > end:
            break
        protocol, at = peek_u16(data, at + 2), at + 4
    for _ in range(_MAX_MPLS_LABELS):
        if protocol not in _MPLS_TYPES or at + 5 > end:
            break
        is_last = peek_u8(data, at + 2) & 1
        at += 4
        if is_last:
            version = peek_u8(data, at) >> 4
            protocol = _IP4 if version == 4 else _IP6 if version == 6 else 0  # noqa: PLR2004
    if protocol == _PPPOE and at + 8 <= end:
        ppp_protocol, at = peek_u16(data, at + 6), at + 8
        protocol = _IP4 if ppp_protocol == _PPP_IP4 else _IP6 if ppp_protocol == _PPP_IP6 else 0
    return (at if protocol in (_IP4, _IP6) else end), _VALID


@inlined
def _find_tcp_in_ipv4(data: Bytes, at: int, end: int, original_end: int) -> tuple[int, int, int]:
    """Return the start of the TCP header or 0, the end of the packet, and the fault code.

    If a network card sets the length later, it is 0 in the header, and the end is `original_end`.
    """
    if end - at < _IP4_HEADER_BYTES:
        return 0, end, _IP_TRUNCATED
    header_bytes, total_bytes = (peek_u8(data, at) & 15) * 4, peek_u16(data, at + 2)
    ip_end = original_end if total_bytes == 0 else at + total_bytes
    if peek_u8(data, at + 9) != _TCP or header_bytes < _IP4_HEADER_BYTES:
        return 0, ip_end, _VALID
    if peek_u16(data, at + 6) & 0x3FFF:
        return 0, ip_end, _IP4_FRAGMENT
    return at + header_bytes, ip_end, _VALID


@inlined
def _find_tcp_in_ipv6(data: Bytes, at: int, end: int, original_end: int) -> tuple[int, int, int]:
    """Return the same as `_find_tcp_in_ipv4`, for an IPv6 packet."""
    if end - at < _IP6_HEADER_BYTES:
        return 0, end, _IP_TRUNCATED
    payload = peek_u16(data, at + 4)
    ip_end = original_end if payload == 0 else at + _IP6_HEADER_BYTES + payload
    captured_end = min(end, ip_end)
    protocol, tcp = peek_u8(data, at + 6), at + _IP6_HEADER_BYTES
    for _ in range(_MAX_EXTENSION_HEADERS):
        if protocol not in _EXTENSION_HEADERS or tcp + 8 > captured_end:
            break
        size = (peek_u8(data, tcp + 1) + 1) * 8
        if protocol == _AUTHENTICATION_HEADER:
            size = (peek_u8(data, tcp + 1) + 2) * 4
        elif protocol == _FRAGMENT_HEADER:
            size = 8
            if peek_u16(data, tcp + 2) & 0xFFF9:
                return 0, ip_end, _IP6_FRAGMENT
        protocol, tcp = peek_u8(data, tcp), tcp + size
    if protocol in _EXTENSION_HEADERS and end < min(tcp + 8, ip_end):
        return 0, ip_end, _IP_TRUNCATED
    return (tcp if protocol == _TCP else 0), ip_end, _VALID


@inlined
def _find_tcp(
    data: Bytes, at: int, end: int, original_end: int, version: int
) -> tuple[int, int, int]:
    """Return the same as `_find_tcp_in_ipv4`, for a packet of any IP version."""
    if version == 4:  # noqa: PLR2004
        return _find_tcp_in_ipv4(data, at, end, original_end)
    if version == 6:  # noqa: PLR2004
        return _find_tcp_in_ipv6(data, at, end, original_end)
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
        type_offset, header_bytes = links[interface[packet], 0], links[interface[packet], 1]
        original_end = starts[packet] + max(captured[packet], original[packet])
        at, faults[packet] = _find_ip_header(data, starts[packet], end, type_offset, header_bytes)
        if at >= end:
            continue
        version = peek_u8(data, at) >> 4
        tcp, ip_end, faults[packet] = _find_tcp(data, at, end, original_end, version)
        if tcp == 0:
            continue
        captured_end = min(end, ip_end)
        if tcp + _MIN_TCP_HEADER_BYTES > captured_end:
            faults[packet] = _TCP_TRUNCATED
            continue
        offset_and_flags = peek_u16(data, tcp + 12)
        flags, start = offset_and_flags & 0xFF, tcp + (offset_and_flags >> 12) * 4
        payload_bytes = ip_end - start
        if offset_and_flags >> 12 < _MIN_TCP_HEADER_BYTES // 4 or payload_bytes < 0:
            faults[packet] = _INVALID_TCP_LENGTH
            continue
        size = min(max(captured_end - start, 0), payload_bytes)
        faults[packet] = _PAYLOAD_TRUNCATED if size < payload_bytes else _VALID
        has_data = payload_bytes > 0 or flags & (SYN | FIN | RST) != 0
        out, row = (data_segments, data_count) if has_data else (ack_only, ack_count)
        data_count, ack_count = data_count + has_data, ack_count + (not has_data)
        is_v6 = version == 6  # noqa: PLR2004
        out[0, row], out[1, row] = packet, at + (8 if is_v6 else 12)
        out[2, row], out[3, row] = is_v6, tcp
        out[4, row], out[5, row] = peek_u32(data, tcp), peek_u32(data, tcp + 4)
        out[6, row], out[7, row] = flags, start
        out[8, row], out[9, row] = size, payload_bytes - size
    return data_count, ack_count
