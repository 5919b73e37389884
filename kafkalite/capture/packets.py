"""Packets → TCP segments: what lies on the link, addresses, and the bytes of a stream.

Nearly all packets of a capture have plain headers: IPv4 or IPv6 and TCP, directly behind what the
link needs. Those are read in one step here, five times as fast as dpkt does it; dpkt reads all
others: IPv4 with options, IPv6 with extension headers. A test holds both ways against each other.
"""

from __future__ import annotations

import socket
import struct
from functools import cache
from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.capture.model import Endpoint, Problem, ProblemKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from kafkalite.capture.blocks import Interface, Packet, Reporter

_CUT: Final = "the capture kept only the beginning"
_NEEDS_EXTRA: Final = "its headers need dpkt: pip install 'kafkalite[capture]'"

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

JUMP_NS: Final = 1_000_000_000
"""A capture of several queues goes back in time, but by less than this."""
_IP4, _IP6 = 0x0800, 0x86DD
_VLANS: Final = frozenset((0x8100, 0x88A8, 0x9100, 0x9200))
_NULL, _ETHERNET, _RAW, _LOOP, _COOKED, _RAW4, _RAW6, _COOKED2 = 0, 1, 101, 108, 113, 228, 229, 276
_TCP: Final = 6
_IP4_BYTES, _IP6_BYTES, _TCP_BYTES = 20, 40, 20
_PLAIN_IP4: Final = 0x45
_IS_FRAGMENT: Final = 0x3FFF  # more fragments, or an offset

_word = Struct(">H").unpack_from
_ip4 = Struct(">BxHxxHxB").unpack_from
_tcp = Struct(">IIBB").unpack_from


class Segment(NamedTuple):
    """One TCP segment."""

    at_ns: int
    flow: bytes
    """Addresses, then ports, first the sender's: the same bytes for every segment one way."""
    seq: int
    ack: int
    flags: int
    payload: bytes
    missing: int
    """How many bytes at the payload's end the capture did not keep."""
    file: str
    offset: int
    interface: Interface
    comment: str | None


def reverse(flow: bytes) -> bytes:
    """Return the flow of the other way."""
    size = (len(flow) - 4) // 2
    return flow[size : 2 * size] + flow[:size] + flow[-2:] + flow[-4:-2]


def sender(flow: bytes) -> Endpoint:
    """Return who sends on a flow."""
    size = (len(flow) - 4) // 2
    family = socket.AF_INET if size == 4 else socket.AF_INET6  # noqa: PLR2004 - of IPv4
    return Endpoint(socket.inet_ntop(family, flow[:size]), int.from_bytes(flow[-4:-2]))


class _Unreadable(Exception):  # noqa: N818 - no error, a kind of packet
    """A packet that cannot be used, and why."""

    def __init__(self, kind: ProblemKind, detail: str) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail


class Dissector:
    """Makes segments of one file's packets, and reports those that it cannot read."""

    __slots__ = ("_file", "_is_told_of_extra", "_last_ns", "_report", "_unknown_links")

    def __init__(self, file: str, report: Reporter) -> None:
        self._file = file
        self._report = report
        self._last_ns = 0
        self._is_told_of_extra = False
        self._unknown_links: set[int] = set()

    def segment(self, packet: Packet) -> Segment | None:
        """Return the packet's segment, None where there is none in it."""
        data = packet.data
        if packet.at_ns < self._last_ns - JUMP_NS:
            back_s = (self._last_ns - packet.at_ns) // JUMP_NS
            self._tell(packet, ProblemKind.CLOCK_JUMP, f"time goes back by {back_s} s")
        self._last_ns = packet.at_ns
        try:
            return self._plain(packet, data, _START[packet.interface.link_type](data))
        except KeyError:
            self._tell_of_link(packet)
        except (struct.error, IndexError):
            self._tell(packet, ProblemKind.TRUNCATED_PACKET, "it ends within its headers")
        except ModuleNotFoundError:
            if not self._is_told_of_extra:
                self._is_told_of_extra = True
                self._tell(packet, ProblemKind.UNREADABLE, _NEEDS_EXTRA)
        except _Unreadable as reason:
            self._tell(packet, reason.kind, reason.detail)
        return None

    def _plain(self, packet: Packet, data: bytes, start: int) -> Segment | None:
        """Read a packet whose network header, were it IPv4 or IPv6, is at `start`."""
        if start < 0:
            return None
        first = data[start] if start < len(data) else 0
        if first == _PLAIN_IP4:
            _, size, fragment, protocol = _ip4(data, start)
            if protocol != _TCP:
                return None
            if fragment & _IS_FRAGMENT:
                raise _Unreadable(ProblemKind.IP_FRAGMENT, "a fragment of an IPv4 packet")
            at = start + _IP4_BYTES
            addresses = data[start + 12 : at]
        elif first >> 4 == 6 and data[start + 6] == _TCP:  # noqa: PLR2004 - of IPv6
            (size,) = _word(data, start + 4)
            size = size and size + _IP6_BYTES
            at = start + _IP6_BYTES
            addresses = data[start + 8 : at]
        else:
            found = _other(data, start)
            if found is None:
                return None
            addresses, at, size = found
        # A size of zero is what a card that splits packets itself leaves to it.
        end = start + size if size else max(packet.length, len(data))
        seq, ack, words, flags = _tcp(data, at + 4)
        body = at + (words >> 4 << 2)
        if body < at + _TCP_BYTES or body > end:
            raise _Unreadable(ProblemKind.CORRUPT_BLOCK, "a TCP header of an impossible length")
        payload = data[body:end]
        missing = end - body - len(payload)
        if missing:
            self._tell(packet, ProblemKind.TRUNCATED_PACKET, _CUT)
        return Segment(
            packet.at_ns, addresses + data[at : at + 4], seq, ack, flags, payload, missing,
            self._file, packet.offset, packet.interface, packet.comment,
        )  # fmt: skip

    def _tell_of_link(self, packet: Packet) -> None:
        link_type = packet.interface.link_type
        if link_type not in self._unknown_links:
            self._unknown_links.add(link_type)
            self._tell(packet, ProblemKind.UNKNOWN_LINK_TYPE, f"link type {link_type}")

    def _tell(self, packet: Packet, kind: ProblemKind, detail: str) -> None:
        self._report(
            Problem(
                kind=kind, file=self._file, offset=packet.offset, connection=None, detail=detail
            )
        )


def _other(data: bytes, start: int) -> tuple[bytes, int, int] | None:
    """Let dpkt read an IP header, and whatever stands between it and TCP's.

    Returns the addresses, where TCP begins, and how long the packet was.
    """
    version = data[start] >> 4 if start < len(data) else 0
    if version != 4 and (version != 6 or data[start + 6] in _NOT_TCP):  # noqa: PLR2004
        return None
    found = _stacked().network_packet(data[start:])
    if found is None:
        return None
    if found.is_fragment:
        raise _Unreadable(ProblemKind.IP_FRAGMENT, "a fragment of an IP packet")
    return found.addresses, start + found.tcp, found.size


@cache
def _stacked() -> ModuleType:
    """Return the module that reads rare packets; most captures need neither it nor dpkt."""
    return import_module("kafkalite.capture.stacked")


# -- where the network header starts, by link type --------------------------------------------

_NOT_IP: Final = -1
_NOT_TCP: Final = frozenset((17, 58, 59, 132))
"""What an IPv6 packet carries at once that is neither TCP nor a header before it."""


def _after_type(data: bytes, at: int) -> int:
    """Return where the network header starts behind an EtherType and VLAN tags."""
    (kind,) = _word(data, at)
    while kind in _VLANS:
        at += 4
        (kind,) = _word(data, at)
    at += 2
    if kind in _MPLS:
        while not data[at + 2] & 1:  # the last label says that it is
            at += 4
        return at + 4
    if kind == _PPPOE:
        (kind,) = _word(data, at + 6)
        return at + 8 if kind in _PPP_IP else _NOT_IP
    return at if kind in (_IP4, _IP6) else _NOT_IP


_MPLS: Final = frozenset((0x8847, 0x8848))
_PPPOE: Final = 0x8864
_PPP_IP: Final = frozenset((0x0021, 0x0057))


def _ethernet(data: bytes) -> int:
    return _after_type(data, 12)


def _cooked(data: bytes) -> int:
    return _after_type(data, 14)


def _cooked2(data: bytes) -> int:
    (kind,) = _word(data, 0)
    if kind in (_IP4, _IP6):
        return 20
    if kind not in _VLANS:
        return _NOT_IP
    return _after_type(data, 22)  # the tags follow the header


def _raw(_: bytes) -> int:
    return 0


def _loopback(_: bytes) -> int:
    # The address family before it has the byte order and the numbers of the machine that captured;
    # the header says itself whether it is IPv4 or IPv6.
    return 4


_START: Final[Mapping[int, Callable[[bytes], int]]] = {
    _NULL: _loopback,
    _LOOP: _loopback,
    _ETHERNET: _ethernet,
    _COOKED: _cooked,
    _COOKED2: _cooked2,
    **dict.fromkeys((_RAW, 12, 14, _RAW4, _RAW6), _raw),  # some systems number raw packets so
}
"""Link type → where the network header starts."""
