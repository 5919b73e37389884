"""`Dissector`: extracts TCP segments from packets of all supported link layers.

Nearly all packets have plain headers: IPv4 without options or IPv6 without extension headers, then
TCP. These are parsed here, five times as fast as by dpkt. dpkt parses the others. A test checks
that both give the same result.
"""

from __future__ import annotations

import socket
import struct
from functools import cache
from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, Final

from kafkalite.capture.model import Endpoint, Problem, ProblemKind
from kafkalite.ports.extras import install_command
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from kafkalite.capture.formats.capture_files import Interface, Packet, Reporter

_TRUNCATED_DETAIL: Final = "the capture has only the start of the packet"
_NEEDS_DPKT: Final = f"reading its headers needs dpkt: {install_command('capture')}"

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

MIN_CLOCK_JUMP_NS: Final = NANOSECONDS_PER_SECOND
"""A packet is reported if it is earlier than the previous one by more than this. The times of
packets of several queues differ by less."""
_IP4, _IP6 = 0x0800, 0x86DD
_VLANS: Final = frozenset((0x8100, 0x88A8, 0x9100, 0x9200))
_NULL, _ETHERNET, _RAW, _LOOP, _COOKED, _RAW4, _RAW6, _COOKED2 = 0, 1, 101, 108, 113, 228, 229, 276
_TCP: Final = 6
_IP4_BYTES, _IP6_BYTES, _TCP_BYTES = 20, 40, 20
_PLAIN_IP4: Final = 0x45
_FRAGMENT_MASK: Final = 0x3FFF  # the flag "more fragments", and the fragment offset

_unpack_uint16 = Struct(">H").unpack_from
_unpack_ip4 = Struct(">BxHxxHxB").unpack_from
_unpack_tcp = Struct(">IIBB").unpack_from


class Segment(NamedTuple):
    """One TCP segment."""

    at_ns: int
    flow: bytes
    """Both addresses, then both ports, the sender's first; it identifies one direction."""
    seq: int
    ack: int
    flags: int
    payload: bytes
    missing: int
    """Number of bytes at the end of the payload that were not captured."""
    file: str
    offset: int
    interface: Interface
    comment: str | None


def reverse(flow: bytes) -> bytes:
    """Return the flow of the other direction."""
    size = (len(flow) - 4) // 2
    return flow[size : 2 * size] + flow[:size] + flow[-2:] + flow[-4:-2]


def sender(flow: bytes) -> Endpoint:
    """Return the sender's endpoint of a flow."""
    size = (len(flow) - 4) // 2
    family = socket.AF_INET if size == 4 else socket.AF_INET6  # noqa: PLR2004 - of IPv4
    return Endpoint(socket.inet_ntop(family, flow[:size]), int.from_bytes(flow[-4:-2]))


class _UnreadablePacket(Exception):  # noqa: N818 - control flow, not an error
    """A packet without a usable segment, with the reason."""

    def __init__(self, kind: ProblemKind, detail: str) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail


class Dissector:
    """Extracts segments from one file's packets, and reports unreadable packets."""

    __slots__ = ("_file", "_has_reported_dpkt", "_last_ns", "_report", "_unknown_links")

    def __init__(self, file: str, report: Reporter) -> None:
        self._file = file
        self._report = report
        self._last_ns = 0
        self._has_reported_dpkt = False
        self._unknown_links: set[int] = set()

    def extract_segment(self, packet: Packet) -> Segment | None:
        """Return the TCP segment of a packet; None if it has none, or is unreadable."""
        data = packet.data
        if packet.at_ns < self._last_ns - MIN_CLOCK_JUMP_NS:
            back_s = (self._last_ns - packet.at_ns) // NANOSECONDS_PER_SECOND
            self._report_problem(packet, ProblemKind.CLOCK_JUMP, f"time goes back by {back_s} s")
        self._last_ns = packet.at_ns
        try:
            return self._parse(
                packet, data, _NETWORK_HEADER_OFFSETS[packet.interface.link_type](data)
            )
        except KeyError:
            self._report_link_type(packet)
        except (struct.error, IndexError):
            self._report_problem(
                packet, ProblemKind.TRUNCATED_PACKET, "the packet ends within its headers"
            )
        except ModuleNotFoundError:
            if not self._has_reported_dpkt:
                self._has_reported_dpkt = True
                self._report_problem(packet, ProblemKind.UNREADABLE, _NEEDS_DPKT)
        except _UnreadablePacket as reason:
            self._report_problem(packet, reason.kind, reason.detail)
        return None

    def _parse(self, packet: Packet, data: bytes, start: int) -> Segment | None:
        """Parse a packet whose network header is at `start`."""
        if start < 0:
            return None
        first_byte = data[start] if start < len(data) else 0
        if first_byte == _PLAIN_IP4:
            _, size, fragment, protocol = _unpack_ip4(data, start)
            if protocol != _TCP:
                return None
            if fragment & _FRAGMENT_MASK:
                raise _UnreadablePacket(ProblemKind.IP_FRAGMENT, "a fragment of an IPv4 packet")
            tcp_start = start + _IP4_BYTES
            addresses = data[start + 12 : tcp_start]
        elif first_byte >> 4 == 6 and data[start + 6] == _TCP:  # noqa: PLR2004 - of IPv6
            (size,) = _unpack_uint16(data, start + 4)
            size = size and size + _IP6_BYTES
            tcp_start = start + _IP6_BYTES
            addresses = data[start + 8 : tcp_start]
        else:
            header = _parse_with_dpkt(data, start)
            if header is None:
                return None
            addresses, tcp_start, size = header
        # The size is 0 if a network card sets it later, when it splits the packet.
        end = start + size if size else max(packet.length, len(data))
        seq, ack, data_offset, flags = _unpack_tcp(data, tcp_start + 4)
        payload_start = tcp_start + (data_offset >> 4 << 2)
        if payload_start < tcp_start + _TCP_BYTES or payload_start > end:
            raise _UnreadablePacket(ProblemKind.CORRUPT_BLOCK, "invalid TCP header length")
        payload = data[payload_start:end]
        missing_bytes = end - payload_start - len(payload)
        if missing_bytes:
            self._report_problem(packet, ProblemKind.TRUNCATED_PACKET, _TRUNCATED_DETAIL)
        return Segment(
            packet.at_ns, addresses + data[tcp_start : tcp_start + 4], seq, ack, flags, payload,
            missing_bytes, self._file, packet.offset, packet.interface, packet.comment,
        )  # fmt: skip

    def _report_link_type(self, packet: Packet) -> None:
        link_type = packet.interface.link_type
        if link_type not in self._unknown_links:
            self._unknown_links.add(link_type)
            self._report_problem(packet, ProblemKind.UNKNOWN_LINK_TYPE, f"link type {link_type}")

    def _report_problem(self, packet: Packet, kind: ProblemKind, detail: str) -> None:
        self._report(
            Problem(
                kind=kind,
                file=self._file,
                offset=packet.offset,
                connection=None,
                detail=detail,
            )
        )


def _parse_with_dpkt(data: bytes, start: int) -> tuple[bytes, int, int] | None:
    """Parse an IP header with options or extension headers, using dpkt.

    Returns the addresses, the offset of the TCP header, and the size of the packet.
    """
    version = data[start] >> 4 if start < len(data) else 0
    if version != 4 and (version != 6 or data[start + 6] in _NOT_TCP):  # noqa: PLR2004
        return None
    header = _import_encapsulation().parse_network_packet(data[start:])
    if header is None:
        return None
    if header.is_fragment:
        raise _UnreadablePacket(ProblemKind.IP_FRAGMENT, "a fragment of an IP packet")
    return header.addresses, start + header.tcp_start, header.size


@cache
def _import_encapsulation() -> ModuleType:
    """Import the parser of rare packets; most captures need neither it nor dpkt."""
    return import_module("kafkalite.capture.reading.encapsulation")


# -- offset of the network header, by link type ------------------------------------------------

_NOT_IP: Final = -1
_NOT_TCP: Final = frozenset((17, 58, 59, 132))
"""Next-header values of IPv6 packets that are neither TCP nor an extension header."""


def _offset_after_ethertype(data: bytes, offset: int) -> int:
    """Return the offset of the network header after an EtherType and VLAN tags."""
    (ethertype,) = _unpack_uint16(data, offset)
    while ethertype in _VLANS:
        offset += 4
        (ethertype,) = _unpack_uint16(data, offset)
    offset += 2
    if ethertype in _MPLS:
        while not data[offset + 2] & 1:  # bottom of the label stack
            offset += 4
        return offset + 4
    if ethertype == _PPPOE:
        (ethertype,) = _unpack_uint16(data, offset + 6)
        return offset + 8 if ethertype in _PPP_IP else _NOT_IP
    return offset if ethertype in (_IP4, _IP6) else _NOT_IP


_MPLS: Final = frozenset((0x8847, 0x8848))
_PPPOE: Final = 0x8864
_PPP_IP: Final = frozenset((0x0021, 0x0057))


def _ethernet(data: bytes) -> int:
    return _offset_after_ethertype(data, 12)


def _cooked(data: bytes) -> int:
    return _offset_after_ethertype(data, 14)


def _cooked2(data: bytes) -> int:
    (ethertype,) = _unpack_uint16(data, 0)
    if ethertype in (_IP4, _IP6):
        return 20
    if ethertype not in _VLANS:
        return _NOT_IP
    return _offset_after_ethertype(data, 22)  # the tags follow the header


def _raw(_: bytes) -> int:
    return 0


def _loopback(_: bytes) -> int:
    # The address family before the header has the capturing machine's byte order and numbering.
    # The IP header has its own version field.
    return 4


_NETWORK_HEADER_OFFSETS: Final[Mapping[int, Callable[[bytes], int]]] = {
    _NULL: _loopback,
    _LOOP: _loopback,
    _ETHERNET: _ethernet,
    _COOKED: _cooked,
    _COOKED2: _cooked2,
    **dict.fromkeys((_RAW, 12, 14, _RAW4, _RAW6), _raw),  # 12 and 14: raw packets on some systems
}
"""Link type → function that returns the offset of the network header, -1 if it is not IP."""
