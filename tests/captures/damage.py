"""Captures with the damage that networks, tcpdump and disks cause, created from clean packets.

There are three layers, each a table by name, so that a test can iterate over all of them:

- `DAMAGES`: what happens to packets on their way or at the capturing process. These functions take
  packets and a `Random`, so that the same seed causes the same damage.
- `NETWORKS` and `LINKS`: the headers of packets.
- `CONTAINERS`: the file formats.

`capture_file(packets, network=, link=, container=)` returns the bytes of a file.
"""

from __future__ import annotations

import gzip
import ipaddress
import lzma
import struct
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from random import Random

    from kafkalite.capture.model import Endpoint

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
_MASK: Final = 0xFFFFFFFF
_US: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpPacket:
    """A TCP segment as a capturing process sees it."""

    at_ns: int
    source: Endpoint
    target: Endpoint
    seq: int
    ack: int
    flags: int
    payload: bytes = b""
    captured_bytes: int | None = None
    """Number of bytes of the packet in the capture; None for all."""

    @property
    def endpoints(self) -> frozenset[Endpoint]:
        """The endpoints of its connection."""
        return frozenset((self.source, self.target))

    @property
    def next_seq(self) -> int:
        """The sequence number of the next segment."""
        return self.seq + len(self.payload) + bool(self.flags & (SYN | FIN)) & _MASK


class TcpConnection:
    """Builds a clean TCP connection; `packets` are its captured packets."""

    def __init__(
        self,
        client: Endpoint,
        broker: Endpoint,
        at_ns: int,
        *,
        initials: tuple[int, int] = (0xFFFFFF00, 77_000),  # the client's wraps around soon
    ) -> None:
        self._endpoints = (client, broker)
        self._seqs = list(initials)
        self.packets: list[TcpPacket] = []
        self._put(0, at_ns, SYN)
        self._put(1, at_ns + 10 * _US, SYN | ACK)
        self._put(0, at_ns + 20 * _US, ACK)

    def request(self, at_ns: int, data: bytes) -> None:
        """Add data of the client, with its acknowledgement."""
        self._send(0, at_ns, data)

    def response(self, at_ns: int, data: bytes) -> None:
        """Add data of the broker, with its acknowledgement."""
        self._send(1, at_ns, data)

    def close(self, at_ns: int) -> None:
        """Close the connection by the client."""
        self._put(0, at_ns, FIN | ACK)
        self._put(1, at_ns + 10 * _US, FIN | ACK)
        self._put(0, at_ns + 20 * _US, ACK)

    def reset(self, at_ns: int) -> None:
        """Reset the connection by the client."""
        self._put(0, at_ns, RST | ACK)

    def _send(self, side: int, at_ns: int, data: bytes) -> None:
        self._put(side, at_ns, PSH | ACK, data)
        self._put(1 - side, at_ns + 5 * _US, ACK)

    def _put(self, side: int, at_ns: int, flags: int, payload: bytes = b"") -> None:
        packet = TcpPacket(
            at_ns=at_ns,
            source=self._endpoints[side],
            target=self._endpoints[1 - side],
            seq=self._seqs[side],
            ack=self._seqs[1 - side] if flags & ACK else 0,
            flags=flags,
            payload=payload,
        )
        self._seqs[side] = packet.next_seq
        self.packets.append(packet)


# -- damage to packets ---------------------------------------------------------------------------

Damage: TypeAlias = "Callable[[Sequence[TcpPacket], Random], list[TcpPacket]]"
MSS: Final = 1460


def segment(packets: Sequence[TcpPacket], _: Random, size: int = MSS) -> list[TcpPacket]:
    """Split payloads that are longer than `size`."""
    out = []
    for packet in packets:
        for start in range(0, max(1, len(packet.payload)), size):
            payload = packet.payload[start : start + size]
            out.append(replace(packet, seq=packet.seq + start & _MASK, payload=payload))
    return out


def split_randomly(packets: Sequence[TcpPacket], chance: Random) -> list[TcpPacket]:
    """Split payloads into pieces of a few bytes, also within lengths and headers."""
    out = []
    for packet in packets:
        start = 0
        while start < len(packet.payload):
            size = chance.randint(1, 40)
            payload = packet.payload[start : start + size]
            out.append(replace(packet, seq=packet.seq + start & _MASK, payload=payload))
            start += size
        if not packet.payload:
            out.append(packet)
    return out


def coalesce(packets: Sequence[TcpPacket], _: Random) -> list[TcpPacket]:
    """Join consecutive segments of one side up to the limit of IP."""
    out: list[TcpPacket] = []
    pending: TcpPacket | None = None
    for packet in packets:
        if (
            pending is not None
            and packet.payload
            and packet.source == pending.source
            and packet.target == pending.target
            and packet.seq == pending.next_seq
            and len(pending.payload) + len(packet.payload) < 60_000
        ):
            pending = replace(pending, at_ns=packet.at_ns, payload=pending.payload + packet.payload)
            continue
        is_pure_ack = not packet.payload and not packet.flags & (SYN | FIN | RST)
        if is_pure_ack:
            continue
        if pending is not None:
            out.append(pending)
        pending = packet
    return [*out, pending] if pending is not None else out


def reorder(packets: Sequence[TcpPacket], chance: Random) -> list[TcpPacket]:
    """Reorder packets of a connection, except those that open or close it."""
    return _disturb(packets, chance, 0.2, lambda out, packet: out.insert(len(out) - 1, packet))


def retransmit(packets: Sequence[TcpPacket], chance: Random) -> list[TcpPacket]:
    """Retransmit some segments, some with bytes of the previous one or without first bytes."""
    out: list[TcpPacket] = []
    for previous, packet in pairwise((None, *packets)):
        assert packet is not None
        out.append(packet)
        if not packet.payload or chance.random() > 0.3:
            continue
        variant = chance.randrange(3)
        repeated = replace(packet, at_ns=packet.at_ns + 3)
        if (
            variant == 0
            and previous is not None
            and previous.payload
            and previous.source == packet.source
            and previous.next_seq == packet.seq
        ):
            repeated = replace(
                repeated, seq=previous.seq, payload=previous.payload + packet.payload
            )
        elif variant == 1 and len(packet.payload) > 1:
            cut = chance.randrange(1, len(packet.payload))
            repeated = replace(
                repeated, seq=repeated.seq + cut & _MASK, payload=repeated.payload[cut:]
            )
        out.append(repeated)
    return out


def retransmit_late(packets: Sequence[TcpPacket], chance: Random) -> list[TcpPacket]:
    """Lose some segments before the capturing process; they are retransmitted 300 ms later.

    Until then the other side acknowledges only the bytes before them.
    """
    out: list[TcpPacket] = []
    late: list[TcpPacket] = []
    for packet in packets:
        out += [each for each in late if each.at_ns <= packet.at_ns]
        late = [each for each in late if each.at_ns > packet.at_ns]
        if packet.payload and not late and chance.random() < 0.1:
            late.append(replace(packet, at_ns=packet.at_ns + 300_000_000))
            continue
        if late and packet.source == late[0].target and packet.target == late[0].source:
            packet = replace(packet, ack=late[0].seq)  # noqa: PLW2901 - a variation of it
        if packet.flags & (FIN | RST):
            out += [replace(each, at_ns=packet.at_ns) for each in late]
            late = []
        out.append(packet)
    return out + late


def lose(packets: Sequence[TcpPacket], chance: Random, share: float = 0.05) -> list[TcpPacket]:
    """Remove some packets with data from the capture; the other side has received them."""
    return [packet for packet in packets if not packet.payload or chance.random() >= share]


def capture_twice(packets: Sequence[TcpPacket], _: Random) -> list[TcpPacket]:
    """Capture every packet on two interfaces, as `tcpdump -i any` does for a container."""
    return [
        each for packet in packets for each in (packet, replace(packet, at_ns=packet.at_ns + 1))
    ]


def start_late(packets: Sequence[TcpPacket], chance: Random) -> list[TcpPacket]:
    """Start the capture within the connections, without handshakes and first packets."""
    data = [number for number, packet in enumerate(packets) if packet.payload]
    if len(data) < 2:
        return list(packets)
    return list(packets[data[chance.randrange(1, max(2, len(data) // 3))] :])


def remove_handshake(packets: Sequence[TcpPacket], _: Random) -> list[TcpPacket]:
    """Remove only the packets that open connections."""
    return [packet for packet in packets if not packet.flags & SYN]


def remove_close(packets: Sequence[TcpPacket], _: Random) -> list[TcpPacket]:
    """Remove the packets that close connections."""
    return [packet for packet in packets if not packet.flags & (FIN | RST)]


def remove_acknowledgements(packets: Sequence[TcpPacket], _: Random) -> list[TcpPacket]:
    """Remove packets without data, as offloading and some filters do."""
    return [packet for packet in packets if packet.payload or packet.flags & (SYN | FIN | RST)]


def truncate(packets: Sequence[TcpPacket], _: Random, size: int = 200) -> list[TcpPacket]:
    """Truncate each packet, as `tcpdump -s` does."""
    return [replace(packet, captured_bytes=size) for packet in packets]


def shuffle_queues(
    packets: Sequence[TcpPacket], chance: Random, distance: int = 4
) -> list[TcpPacket]:
    """Reorder packets by less than `distance`, as a capture from several queues does."""
    order = [
        (number + chance.randrange(distance), number, packet)
        for number, packet in enumerate(packets)
    ]
    return [packet for _, _, packet in sorted(order, key=lambda entry: entry[:2])]


def _disturb(
    packets: Sequence[TcpPacket],
    chance: Random,
    share: float,
    put: Callable[[list[TcpPacket], TcpPacket], None],
) -> list[TcpPacket]:
    out: list[TcpPacket] = []
    for packet in packets:
        is_plain = not packet.flags & (SYN | FIN | RST)
        before = out[-1] if out else None
        if (
            is_plain
            and before is not None
            and not before.flags & (SYN | FIN | RST)
            and packet.source == before.source
            and packet.target == before.target
            and chance.random() < share * 2
        ):
            put(out, replace(packet, at_ns=before.at_ns))
        else:
            out.append(packet)
    return out


HARMLESS: Final[Mapping[str, Damage]] = {
    "segmented": segment,
    "tiny segments": split_randomly,
    "coalesced": coalesce,
    "reordered": lambda packets, chance: reorder(segment(packets, chance, 60), chance),
    "retransmitted": retransmit,
    "late retransmission": retransmit_late,
    "captured twice": capture_twice,
    "without acknowledgements": remove_acknowledgements,
    "without close": remove_close,
    "disordered queues": shuffle_queues,
}
"""Damage without loss: every frame can be read."""

LOSSY: Final[Mapping[str, Damage]] = {
    "lost": lose,
    "segmented and lost": lambda packets, chance: lose(segment(packets, chance, 100), chance),
    "late start": start_late,
    "without handshake": remove_handshake,
    "snapped": truncate,
}
"""Damage with loss: affected frames cannot be read, all others can."""

DAMAGES: Final[Mapping[str, Damage]] = {**HARMLESS, **LOSSY}


def repeat_connections(
    packets: Sequence[TcpPacket], gap_ns: int = 1_000_000_000
) -> list[TcpPacket]:
    """Return the packets, and then the same connections on the same ports again."""
    later = packets[-1].at_ns - packets[0].at_ns + gap_ns
    shift = 123_456_789
    return [
        *packets,
        *(
            replace(
                packet,
                at_ns=packet.at_ns + later,
                seq=packet.seq + shift & _MASK,
                ack=packet.ack + shift & _MASK if packet.flags & ACK else 0,
            )
            for packet in packets
        ),
    ]


# -- headers -------------------------------------------------------------------------------------

_IP4, _IP6 = 0x0800, 0x86DD
Network: TypeAlias = "Callable[[TcpPacket], tuple[int, bytes]]"
Link: TypeAlias = "Callable[[int, bytes], bytes]"


def _tcp(packet: TcpPacket, options: bytes = b"") -> bytes:
    offset = 5 + len(options) // 4 << 4
    endpoints = (packet.source.port, packet.target.port)
    header = struct.pack(
        ">HHIIBBHHH", *endpoints, packet.seq, packet.ack, offset, packet.flags, 65535, 0, 0
    )
    return header + options + packet.payload


_TIMESTAMPS: Final = b"\x01\x01\x08\x0a" + bytes(8)


def _ip4(packet: TcpPacket, options: bytes = b"", tcp_options: bytes = b"") -> tuple[int, bytes]:
    body = _tcp(packet, tcp_options)
    hosts = b"".join(_address(endpoint.host, 4) for endpoint in (packet.source, packet.target))
    header_words = 5 + len(options) // 4
    total = header_words * 4 + len(body)
    header = struct.pack(">BBHHHBBH", 0x40 | header_words, 0, total, 7, 0x4000, 64, 6, 0)
    return _IP4, header + hosts + options + body


def _ip6(packet: TcpPacket, extensions: Sequence[tuple[int, bytes]] = ()) -> tuple[int, bytes]:
    body = _tcp(packet, _TIMESTAMPS)
    following = 6
    for number, content in reversed(extensions):
        body = struct.pack(">BB", following, (len(content) + 2) // 8 - 1) + content + body
        following = number
    hosts = b"".join(_address(endpoint.host, 6) for endpoint in (packet.source, packet.target))
    return _IP6, struct.pack(">IHBB", 6 << 28, len(body), following, 64) + hosts + body


def _address(host: str, version: int) -> bytes:
    address = ipaddress.ip_address(host)
    if address.version == version:
        return address.packed
    return b"\xfd" + bytes(11) + address.packed if version == 6 else address.packed[-4:]


def _with_offloading(network: Network) -> Network:
    """Set the IP length to 0, as for packets that the network card splits (offloading)."""

    def without_length(packet: TcpPacket) -> tuple[int, bytes]:
        ether_type, data = network(packet)
        length_at = 2 if ether_type == _IP4 else 4
        return ether_type, data if len(data) <= SPLIT_BYTES else data[:length_at] + bytes(2) + data[
            length_at + 2 :
        ]

    return without_length


SPLIT_BYTES: Final = 46
"""Network cards do not split smaller packets; Ethernet pads them."""
_BASIC_NETWORKS: Final[Mapping[str, Network]] = {
    "ip4": _ip4,
    "ip4 with options": lambda packet: _ip4(packet, b"\x94\x04\x00\x00", _TIMESTAMPS),
    "ip6": _ip6,
    "ip6 with extension headers": lambda packet: _ip6(
        packet, ((0, b"\x05\x02\x00\x00\x01\x00"), (60, b"\x01\x04" + bytes(4)))
    ),
}
NETWORKS: Final[Mapping[str, Network]] = {
    **_BASIC_NETWORKS,
    **{
        f"{name}, with offloading": _with_offloading(each) for name, each in _BASIC_NETWORKS.items()
    },
}
"""Name → function from a TCP segment to (EtherType, network packet)."""

_MACS: Final = b"\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02"
_FAMILIES: Final = {_IP4: 2, _IP6: 30}


def _ethernet(ether_type: int, packet: bytes) -> bytes:
    return (_MACS + struct.pack(">H", ether_type) + packet).ljust(
        60, b"\xee"
    )  # padded to the minimum size


def _tagged(tags: bytes) -> Link:
    return lambda ether_type, packet: _MACS + tags + struct.pack(">H", ether_type) + packet


LINKS: Final[Mapping[str, tuple[int, Link]]] = {
    "ethernet": (1, _ethernet),
    "vlan": (1, _tagged(b"\x81\x00\x00\x2a")),
    "qinq": (1, _tagged(b"\x88\xa8\x00\x07\x81\x00\x00\x2a")),
    "mpls": (1, lambda _, packet: _MACS + b"\x88\x47\x00\x01\x01\x40" + packet),
    "mpls to many": (1, lambda _, packet: _MACS + b"\x88\x48\x00\x01\x01\x40" + packet),
    "cooked": (113, lambda kind, packet: struct.pack(">HHH8sH", 0, 1, 6, b"", kind) + packet),
    "cooked vlan": (
        113,
        lambda kind, packet: struct.pack(">HHH8sHHH", 0, 1, 6, b"", 0x8100, 42, kind) + packet,
    ),
    "cooked2": (
        276,
        lambda kind, packet: struct.pack(">HHIHBB8s", kind, 0, 2, 1, 0, 6, b"") + packet,
    ),
    "null": (0, lambda kind, packet: struct.pack("<I", _FAMILIES[kind]) + packet),
    "null big-endian": (0, lambda kind, packet: struct.pack(">I", _FAMILIES[kind]) + packet),
    "loop": (108, lambda kind, packet: struct.pack(">I", _FAMILIES[kind]) + packet),
    "raw": (101, lambda _, packet: packet),
}
"""Name → link type, and function that adds the link header to a network packet."""


# -- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilePacket:
    """A packet in a capture file."""

    at_ns: int
    data: bytes
    length: int


Container: TypeAlias = "Callable[[Iterable[FilePacket], int], bytes]"


def _pcap(order: str, magic: int, unit_ns: int) -> Container:
    def container(packets: Iterable[FilePacket], link: int) -> bytes:
        out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, link)]
        for packet in packets:
            seconds, subseconds_ns = divmod(packet.at_ns, 1_000_000_000)
            header = (seconds, subseconds_ns // unit_ns, len(packet.data), packet.length)
            out += [struct.pack(order + "4I", *header), packet.data]
        return b"".join(out)

    return container


def block(order: str, block_type: int, body: bytes) -> bytes:
    """Return a pcapng block."""
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", block_type) + size + body + size


def section(order: str) -> bytes:
    """Return the first block of a pcapng section."""
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order: str, link: int, options: bytes = b"") -> bytes:
    """Return an interface description block, by default with times in microseconds."""
    return block(order, 1, struct.pack(order + "HHI", link, 0, 0) + options)


def resolution(order: str, value: int) -> bytes:
    """Return the option with the time resolution of an interface."""
    return struct.pack(order + "HHB3xHH", 9, 1, value, 0, 0)


def enhanced_packet(
    order: str, number: int, ticks: int, packet: FilePacket, options: bytes = b""
) -> bytes:
    """Return an enhanced packet block."""
    header = (number, ticks >> 32, ticks & _MASK, len(packet.data), packet.length)
    data = packet.data + bytes(-len(packet.data) % 4)
    return block(order, 6, struct.pack(order + "5I", *header) + data + options)


def _pcapng(order: str) -> Container:
    def container(packets: Iterable[FilePacket], link: int) -> bytes:
        out = [section(order), interface(order, link)]
        out += [enhanced_packet(order, 0, packet.at_ns // _US, packet) for packet in packets]
        return b"".join(out)

    return container


def _several_interfaces(packets: Iterable[FilePacket], link: int) -> bytes:
    """Alternate between interfaces with different resolutions, one described between packets."""
    out = [section("<"), interface("<", 1), interface("<", link, resolution("<", 9))]
    clocks: list[Callable[[int], int]] = [lambda ns: ns, lambda ns: (ns << 30) // 1_000_000_000]
    for number, packet in enumerate(packets):
        if number == 1:
            out.append(interface("<", link, resolution("<", 0x80 | 30)))
        index = number % 2
        out.append(enhanced_packet("<", 1 + index, clocks[index](packet.at_ns) + index, packet))
    return b"".join(out)


def _obsolete_blocks(packets: Iterable[FilePacket], link: int) -> bytes:
    """Use the obsolete packet block of Wireshark 1.0."""
    out = [section("<"), interface("<", link)]
    for packet in packets:
        ticks = packet.at_ns // _US
        header = (0, 0, ticks >> 32, ticks & _MASK, len(packet.data), packet.length)
        out.append(block("<", 2, struct.pack("<HHIIII", *header) + packet.data))
    return b"".join(out)


def _simple_blocks(packets: Iterable[FilePacket], link: int) -> bytes:
    """Use simple packet blocks, which have no times."""
    out = [section("<"), interface("<", link)]
    out += [block("<", 3, struct.pack("<I", packet.length) + packet.data) for packet in packets]
    return b"".join(out)


def _mixed_blocks(packets: Iterable[FilePacket], link: int) -> bytes:
    """Add blocks of other types, and a second section with the other byte order."""
    out = [section(">"), block(">", 4, bytes(8)), interface(">", link)]
    order = ">"
    for number, packet in enumerate(packets):
        if number == 5:
            order = "<"
            out += [section(order), interface(order, link)]
        out.append(block(order, 0x0BAD, b"unknown contents" * number))
        comment = struct.pack(order + "HH", 1, 5) + b"hello\0\0\0" + bytes(4)
        out.append(enhanced_packet(order, 0, packet.at_ns // _US, packet, comment))
    out.append(block(order, 5, bytes(12)))
    return b"".join(out)


CONTAINERS: Final[Mapping[str, Container]] = {
    "pcap": _pcap("<", 0xA1B2C3D4, _US),
    "pcap big-endian": _pcap(">", 0xA1B2C3D4, _US),
    "pcap ns": _pcap("<", 0xA1B23C4D, 1),
    "pcap ns big-endian": _pcap(">", 0xA1B23C4D, 1),
    "pcapng": _pcapng("<"),
    "pcapng big-endian": _pcapng(">"),
    "pcapng several interfaces": _several_interfaces,
    "pcapng old blocks": _obsolete_blocks,
    "pcapng simple blocks": _simple_blocks,
    "pcapng mixed": _mixed_blocks,
    "pcapng gz": lambda packets, link: gzip.compress(_pcapng("<")(packets, link), 1, mtime=0),
    "pcap gz": lambda packets, link: gzip.compress(
        _pcap("<", 0xA1B2C3D4, _US)(packets, link), 1, mtime=0
    ),
    "pcapng xz": lambda packets, link: lzma.compress(_pcapng("<")(packets, link), preset=0),
}
"""Name → function from packets and their link type to the bytes of a file."""

COMPRESSED: Final = ("pcapng gz", "pcap gz", "pcapng xz")
"""The names of compressed files."""


def capture_file(
    packets: Iterable[TcpPacket],
    *,
    network: str = "ip4",
    link: str = "ethernet",
    container: str = "pcapng",
) -> bytes:
    """Return the bytes of a capture file."""
    link_type, add_link_header = LINKS[link]
    network_packet = NETWORKS[network]
    captured = []
    for packet in packets:
        data = add_link_header(*network_packet(packet))
        captured.append(FilePacket(packet.at_ns, data[: packet.captured_bytes], len(data)))
    return CONTAINERS[container](captured, link_type)
