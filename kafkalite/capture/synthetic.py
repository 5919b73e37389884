"""The packets that a connection would have been, had we watched its wire: IP and TCP made up.

We sit above TCP and see bytes, not packets. So that every tool for packets can read a capture, the
bytes are put into segments as large as IP allows, with sequence numbers and checksums that are
right, between a handshake and a farewell. There are no segments that only acknowledge.
"""

from __future__ import annotations

import ipaddress
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from kafkalite.capture.pcapng import ENHANCED_PACKET, comment_option, pack_packet_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.capture.model import Endpoint

SEGMENT_BYTES: Final = 65_480
"""The most bytes of a segment: what IPv4 can carry, without padding behind it in a file."""

_FIN, _SYN, _PUSH, _ACK = 0x01, 0x02, 0x08, 0x10
_MASK: Final = 0xFFFFFFFF
_ONES: Final = 0xFFFF
_SUMMAND_BYTES: Final = 1024
LARGE_BYTES: Final = 4096
"""From here on it pays to add up in other ways than by one division."""
_WINDOW: Final = 0xFFFF
_HEADER_BYTES: Final = 20
_OFFSET: Final = 5 << 12
_MSS: Final = SEGMENT_BYTES
_SYN_OPTIONS: Final = Struct(">BBHBBBB").pack(2, 4, _MSS, 1, 3, 3, 14)
"""The largest segment, and a window scale that never lets a window be full."""

_IPV4, _IPV6 = 4, 6
_TCP: Final = 6
_TTL: Final = 64
_pack_ipv4 = Struct(">HHIHH8sHHIIHHHH").pack
_pack_ipv6 = Struct(">IHBB32sHHIIHHHH").pack
_pack_word = Struct("<I").pack
_PADDING: Final = (b"", b"\0\0\0", b"\0\0", b"\0")


class Way:
    """One direction of a connection: all of its headers that does not change."""

    __slots__ = ("_addresses", "_ip_sum", "_ports", "_tcp_sum", "is_ipv6", "sequence")

    def __init__(self, source: Endpoint, target: Endpoint, sequence: int) -> None:
        self._addresses, self.is_ipv6 = _addresses(source.host, target.host)
        self._ports = (source.port, target.port)
        self.sequence = sequence
        sums = int.from_bytes(self._addresses) % _ONES
        # What of the headers' checksums never changes is added up once.
        self._ip_sum = sums + 0x4500 + 0x4000 + (_TTL << 8 | _TCP)
        self._tcp_sum = sums + _TCP + sum(self._ports) + _WINDOW

    def block(  # noqa: PLR0917 - once a packet, so no words for them
        self,
        interface: int,
        at_ns: int,
        acknowledged: int,
        payload: bytes,
        flags: int = _PUSH | _ACK,
        options: bytes = b"",
        comment: str | None = None,
    ) -> bytes:
        """Return the pcapng block of a segment, and count its bytes as sent."""
        size = len(payload)
        sequence = self.sequence
        self.sequence = (sequence + size + (flags & (_SYN | _FIN) != 0)) & _MASK
        length = _HEADER_BYTES + len(options) + size
        offset_flags = _OFFSET + (len(options) << 10) | flags
        total = (
            self._tcp_sum + length + offset_flags
            + (sequence >> 16) + (sequence & _ONES)
            + (acknowledged >> 16) + (acknowledged & _ONES)
            + checksum_part(payload)
        )  # fmt: skip
        if options:
            total += checksum_part(options)
        tcp_sum = _ONES - (total % _ONES or _ONES)
        source, target = self._ports
        if self.is_ipv6:
            header = _pack_ipv6(
                0x60000000, length, _TCP, _TTL, self._addresses, source, target, sequence,
                acknowledged, offset_flags, _WINDOW, tcp_sum, 0,
            )  # fmt: skip
        else:
            ip_length = length + _HEADER_BYTES
            ip_sum = _ONES - ((self._ip_sum + ip_length) % _ONES or _ONES)
            header = _pack_ipv4(
                0x4500, ip_length, 0x4000, _TTL << 8 | _TCP, ip_sum, self._addresses, source,
                target, sequence, acknowledged, offset_flags, _WINDOW, tcp_sum, 0,
            )  # fmt: skip
        captured = len(header) + len(options) + size
        behind = _PADDING[captured & 3]
        if comment is not None:
            behind += comment_option(comment)
        whole = 32 + captured + len(behind)
        head = pack_packet_head(
            ENHANCED_PACKET, whole, interface, at_ns >> 32, at_ns & _MASK, captured, captured
        )
        return b"".join((head, header, options, payload, behind, _pack_word(whole)))


def checksum_part(data: bytes) -> int:
    """Return what `data` adds to a one's complement sum, not yet folded to 16 bits.

    A number modulo 2^16 - 1 is the one's complement sum of its halfwords.
    """
    if len(data) >= LARGE_BYTES:
        return large_sum()(data)
    value = int.from_bytes(data) % _ONES
    return value << 8 if len(data) & 1 else value


def sum_by_numbers(data: bytes) -> int:
    """Return the sum of much data: of large numbers, for one division of it all takes longer."""
    if len(data) & 1:
        data += b"\0"
    numbers = [
        int.from_bytes(data[start : start + _SUMMAND_BYTES])
        for start in range(0, len(data), _SUMMAND_BYTES)
    ]
    return sum(numbers) % _ONES


@cache
def large_sum() -> Callable[[bytes], int]:
    """Return what adds up much data: numpy, where it is there, in a tenth of the time."""
    try:
        import numpy as np  # noqa: PLC0415 - not needed, and not before there is much to add up
    except ImportError:
        return sum_by_numbers

    def sum_by_numpy(data: bytes) -> int:
        whole = len(data) & -4
        words = np.frombuffer(data, ">u4", count=whole // 4)
        rest = int.from_bytes(data[whole:].ljust(4, b"\0"))
        return (int(words.sum(dtype=np.uint64)) + rest) % _ONES

    return sum_by_numpy


class Wire:
    """A connection as packets: both ways, and what one has seen of the other."""

    __slots__ = ("interface", "opened_ns", "to_broker", "to_client")

    def __init__(
        self, client: Endpoint, broker: Endpoint, interface: int, opened_ns: int, number: int
    ) -> None:
        self.interface = interface
        self.opened_ns = opened_ns
        # Different for each use of a pair of ports, so that tools take them apart.
        seed = b"%d %d" % (opened_ns, number)
        self.to_broker = Way(client, broker, crc32(seed))
        self.to_client = Way(broker, client, crc32(b"broker %s" % seed))

    def open(self, comment: str | None = None) -> list[bytes]:
        """Return the handshake."""
        there, back, at_ns, here = self.to_broker, self.to_client, self.opened_ns, self.interface
        return [
            there.block(here, at_ns, 0, b"", _SYN, _SYN_OPTIONS, comment),
            back.block(here, at_ns, there.sequence, b"", _SYN | _ACK, _SYN_OPTIONS),
            there.block(here, at_ns, back.sequence, b"", _ACK),
        ]

    def close(self, at_ns: int, comment: str | None = None) -> list[bytes]:
        """Return the farewell: who began it is not known, so the client is said to have."""
        there, back, here = self.to_broker, self.to_client, self.interface
        return [
            there.block(here, at_ns, back.sequence, b"", _FIN | _ACK, comment=comment),
            back.block(here, at_ns, there.sequence, b"", _FIN | _ACK),
            there.block(here, at_ns, back.sequence, b"", _ACK),
        ]


def _addresses(source: str, target: str) -> tuple[bytes, bool]:
    """Return both addresses as headers hold them; where families differ, IPv4 is mapped into v6."""
    ends = [ipaddress.ip_address(host.partition("%")[0]) for host in (source, target)]
    if all(each.version == _IPV4 for each in ends):
        return b"".join(each.packed for each in ends), False
    wide = (
        each.packed if each.version == _IPV6 else bytes(10) + b"\xff\xff" + each.packed
        for each in ends
    )
    return b"".join(wide), True
