"""The packets that a connection would have been, had we watched its wire: IP and TCP made up.

We sit above TCP and see bytes, not packets. So that every tool for packets can read a capture, the
bytes are put into segments as large as IP allows, with sequence numbers that are right, between a
handshake and a farewell. There are no segments that only acknowledge. The checksums of large
segments are left unfinished, as they are wherever a sender is watched whose network card finishes
them: tools for packets do not look at them unless told to, and to add all of it up would take as
long as to write it.
"""

from __future__ import annotations

import ipaddress
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from kafkalite.capture.pcapng import ENHANCED_PACKET, comment_option, pack_packet_head

if TYPE_CHECKING:
    from kafkalite.capture.model import Endpoint
    from kafkalite.capture.pcapng import Buffer

SEGMENT_BYTES: Final = 65_480
"""The most bytes of a segment: what IPv4 can carry, without padding behind it in a file."""

_FIN, _SYN, _PUSH, _ACK = 0x01, 0x02, 0x08, 0x10
_MASK: Final = 0xFFFFFFFF
_ONES: Final = 0xFFFF
LARGE_BYTES: Final = 4096
"""From here on a segment's data is neither copied nor added up."""
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
_pack_end: Final = tuple(Struct(f"<{-size % 4}xI").pack for size in range(4))
"""By how many bytes go beyond a word: padding, and the block's length once more."""


Block = tuple["Buffer", ...]
"""A pcapng block; around much data it is in three pieces, for to join them is to copy them."""


class Way:
    """One direction of a connection: all of its headers that does not change."""

    __slots__ = (
        "_addresses",
        "_fixed_sum",
        "_ip_sum",
        "_ports",
        "_pseudo_sum",
        "is_ipv6",
        "sequence",
    )

    def __init__(self, source: Endpoint, target: Endpoint, sequence: int) -> None:
        self._addresses, self.is_ipv6 = _addresses(source.host, target.host)
        self._ports = (source.port, target.port)
        self.sequence = sequence
        sums = int.from_bytes(self._addresses) % _ONES
        # What of the headers' checksums never changes is added up once.
        self._ip_sum = sums + 0x4500 + 0x4000 + (_TTL << 8 | _TCP)
        self._pseudo_sum = sums + _TCP
        self._fixed_sum = self._pseudo_sum + sum(self._ports) + _WINDOW

    def block(  # noqa: PLR0917 - once a packet, so no words for them
        self,
        interface: int,
        at_ns: int,
        acknowledged: int,
        payload: Buffer,
        flags: int = _PUSH | _ACK,
        options: bytes = b"",
        comment: str | None = None,
    ) -> Block:
        """Return the pcapng block of a segment, and count its bytes as sent."""
        size = len(payload)
        sequence = self.sequence
        self.sequence = (sequence + size + (flags & (_SYN | _FIN) != 0)) & _MASK
        length = _HEADER_BYTES + len(options) + size
        offset_flags = _OFFSET + (len(options) << 10) | flags
        if size < LARGE_BYTES:
            # A number and its halfwords' sum are the same here, but for folding.
            total = self._fixed_sum + length + offset_flags + sequence + acknowledged
            tcp_sum = _ONES - ((total + checksum_part(options + payload)) % _ONES or _ONES)
        else:
            tcp_sum = (self._pseudo_sum + length) % _ONES
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
        behind = b"" if comment is None else bytes(-captured % 4) + comment_option(comment)
        whole = 32 + (len(behind) + captured + 3 & -4)
        end = _pack_end[0 if behind else captured & 3](whole)
        head = pack_packet_head(
            ENHANCED_PACKET, whole, interface, at_ns >> 32, at_ns & _MASK, captured, captured
        )
        if size < LARGE_BYTES:
            return (b"".join((head, header, options, payload, behind, end)),)
        return b"".join((head, header, options)), payload, behind + end


def checksum_part(data: Buffer) -> int:
    """Return what `data` adds to a one's complement sum, not yet folded to 16 bits.

    A number modulo 2^16 - 1 is the one's complement sum of its halfwords.
    """
    value = int.from_bytes(data) % _ONES
    return value << 8 if len(data) & 1 else value


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

    def open(self, comment: str | None = None) -> list[Block]:
        """Return the handshake."""
        there, back, at_ns, here = self.to_broker, self.to_client, self.opened_ns, self.interface
        return [
            there.block(here, at_ns, 0, b"", _SYN, _SYN_OPTIONS, comment),
            back.block(here, at_ns, there.sequence, b"", _SYN | _ACK, _SYN_OPTIONS),
            there.block(here, at_ns, back.sequence, b"", _ACK),
        ]

    def close(self, at_ns: int, comment: str | None = None) -> list[Block]:
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
