"""Synthetic IP and TCP packets around the bytes of a connection.

The recorder receives the bytes of connections, not packets, but packet tools need packets. So the
bytes are put into segments of the maximum IP size, with correct sequence numbers, between a
handshake and a close. There are no segments that only acknowledge. Checksums of large segments are
incomplete, as on a sender whose network card computes them: tools ignore them by default, and
computing them would take as long as writing the data.
"""

from __future__ import annotations

import ipaddress
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from kafkalite.capture.formats.pcapng import ENHANCED_PACKET, comment_option, pack_packet_header

if TYPE_CHECKING:
    from kafkalite.capture.formats.pcapng import Buffer
    from kafkalite.capture.model import Endpoint

SEGMENT_BYTES: Final = 65_480
"""Maximum payload of a segment; it fits into an IPv4 packet and needs no padding in a file."""

_FIN, _SYN, _PUSH, _ACK = 0x01, 0x02, 0x08, 0x10
_UINT32_MASK: Final = 0xFFFFFFFF
_MODULUS: Final = 0xFFFF
"""Modulus of checksums, which are one's complement sums of 16-bit words."""
LARGE_PAYLOAD_BYTES: Final = 4096
"""Minimum payload of a large segment, whose data is neither copied nor part of the checksum."""
_WINDOW_SIZE: Final = 0xFFFF
_HEADER_BYTES: Final = 20
_DATA_OFFSET: Final = 5 << 12
_SYN_OPTIONS: Final = Struct(">BBHBBBB").pack(2, 4, SEGMENT_BYTES, 1, 3, 3, 14)
"""Maximum segment size, and a window scale that is large enough for any data."""

_IPV4, _IPV6 = 4, 6
_TCP: Final = 6
_TTL: Final = 64
_pack_ipv4 = Struct(">HHIHH8sHHIIHHHH").pack
_pack_ipv6 = Struct(">IHBB32sHHIIHHHH").pack
_pack_block_end: Final = tuple(Struct(f"<{-size % 4}xI").pack for size in range(4))
"""Size of the packet modulo 4 → function that packs the padding and the block's final length."""


Block = tuple["Buffer", ...]
"""A pcapng block. A large one has three pieces, so that its data is not copied."""


class PacketStream:
    """One direction of a connection: the constant parts of its headers, and its sequence number."""

    __slots__ = (
        "_addresses",
        "_constant_ip_sum",
        "_constant_tcp_sum",
        "_ports",
        "_pseudo_header_sum",
        "is_ipv6",
        "sequence",
    )

    def __init__(self, source: Endpoint, target: Endpoint, sequence: int) -> None:
        self._addresses, self.is_ipv6 = _addresses(source.host, target.host)
        self._ports = (source.port, target.port)
        self.sequence = sequence
        addresses_sum = int.from_bytes(self._addresses) % _MODULUS
        # The constant part of the checksums is computed once.
        self._constant_ip_sum = addresses_sum + 0x4500 + 0x4000 + (_TTL << 8 | _TCP)
        self._pseudo_header_sum = addresses_sum + _TCP
        self._constant_tcp_sum = self._pseudo_header_sum + sum(self._ports) + _WINDOW_SIZE

    def block(  # noqa: PLR0917 - called once per packet: keyword arguments are slow
        self,
        interface: int,
        at_ns: int,
        acknowledged: int,
        payload: Buffer,
        flags: int = _PUSH | _ACK,
        options: bytes = b"",
        comment: str | None = None,
    ) -> Block:
        """Return the pcapng block of a segment, and advance the sequence number."""
        size = len(payload)
        sequence = self.sequence
        self.sequence = (sequence + size + (flags & (_SYN | _FIN) != 0)) & _UINT32_MASK
        length = _HEADER_BYTES + len(options) + size
        offset_flags = _DATA_OFFSET + (len(options) << 10) | flags
        if size < LARGE_PAYLOAD_BYTES:
            # Modulo 2^16 - 1 a 32-bit number equals the sum of its 16-bit words.
            total = self._constant_tcp_sum + length + offset_flags + sequence + acknowledged
            tcp_sum = _MODULUS - ((total + checksum_part(options + payload)) % _MODULUS or _MODULUS)
        else:
            tcp_sum = (self._pseudo_header_sum + length) % _MODULUS
        source, target = self._ports
        if self.is_ipv6:
            header = _pack_ipv6(
                0x60000000, length, _TCP, _TTL, self._addresses, source, target, sequence,
                acknowledged, offset_flags, _WINDOW_SIZE, tcp_sum, 0,
            )  # fmt: skip
        else:
            ip_length = length + _HEADER_BYTES
            ip_sum = _MODULUS - ((self._constant_ip_sum + ip_length) % _MODULUS or _MODULUS)
            header = _pack_ipv4(
                0x4500, ip_length, 0x4000, _TTL << 8 | _TCP, ip_sum, self._addresses, source,
                target, sequence, acknowledged, offset_flags, _WINDOW_SIZE, tcp_sum, 0,
            )  # fmt: skip
        captured = len(header) + len(options) + size
        trailer = b"" if comment is None else bytes(-captured % 4) + comment_option(comment)
        block_bytes = 32 + (len(trailer) + captured + 3 & -4)
        block_end = _pack_block_end[0 if trailer else captured & 3](block_bytes)
        block_start = pack_packet_header(
            ENHANCED_PACKET, block_bytes, interface, at_ns >> 32, at_ns & _UINT32_MASK, captured,
            captured,
        )  # fmt: skip
        if size < LARGE_PAYLOAD_BYTES:
            return (b"".join((block_start, header, options, payload, trailer, block_end)),)
        return b"".join((block_start, header, options)), payload, trailer + block_end


def checksum_part(data: Buffer) -> int:
    """Return the contribution of `data` to a one's complement sum, not folded to 16 bits.

    A number modulo 2^16 - 1 is the one's complement sum of its 16-bit words.
    """
    value = int.from_bytes(data) % _MODULUS
    return value << 8 if len(data) & 1 else value


class TcpConnection:
    """A connection as packets, in both directions."""

    __slots__ = ("interface", "opened_ns", "to_broker", "to_client")

    def __init__(
        self, client: Endpoint, broker: Endpoint, interface: int, opened_ns: int, number: int
    ) -> None:
        self.interface = interface
        self.opened_ns = opened_ns
        # Initial sequence numbers differ if two connections have the same endpoints, so that tools
        # do not merge them.
        seed = b"%d %d" % (opened_ns, number)
        self.to_broker = PacketStream(client, broker, crc32(seed))
        self.to_client = PacketStream(broker, client, crc32(b"broker %s" % seed))

    def open(self, comment: str | None = None) -> list[Block]:
        """Return the TCP handshake."""
        to_broker, to_client, interface = self.to_broker, self.to_client, self.interface
        at_ns = self.opened_ns
        return [
            to_broker.block(interface, at_ns, 0, b"", _SYN, _SYN_OPTIONS, comment),
            to_client.block(interface, at_ns, to_broker.sequence, b"", _SYN | _ACK, _SYN_OPTIONS),
            to_broker.block(interface, at_ns, to_client.sequence, b"", _ACK),
        ]

    def close(self, at_ns: int, comment: str | None = None) -> list[Block]:
        """Return the TCP close; the client sends FIN first, as the real initiator is unknown."""
        to_broker, to_client, interface = self.to_broker, self.to_client, self.interface
        return [
            to_broker.block(
                interface, at_ns, to_client.sequence, b"", _FIN | _ACK, comment=comment
            ),
            to_client.block(interface, at_ns, to_broker.sequence, b"", _FIN | _ACK),
            to_broker.block(interface, at_ns, to_client.sequence, b"", _ACK),
        ]


def _addresses(source: str, target: str) -> tuple[bytes, bool]:
    """Return both packed addresses, and whether they are IPv6.

    If only one address is IPv6, the other is mapped to IPv6.
    """
    addresses = [ipaddress.ip_address(host.partition("%")[0]) for host in (source, target)]
    if all(address.version == _IPV4 for address in addresses):
        return b"".join(address.packed for address in addresses), False
    packed_addresses = (
        address.packed if address.version == _IPV6 else bytes(10) + b"\xff\xff" + address.packed
        for address in addresses
    )
    return b"".join(packed_addresses), True
