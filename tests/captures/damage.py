"""What networks, tcpdump and disks do to traffic: a clean capture, mutilated in known ways.

Three layers, each a table by name, so that a test can go through all of them:

- `DAMAGES`: what happens to packets on their way, or to the one who captures them; all take
  packets and a `Random`, so that the same seed does the same damage.
- `NETWORKS` and `LINKS`: the headers that packets wear.
- `CONTAINERS`: the files that they are kept in.

`kept(packets, network=, link=, container=)` gives the bytes of a file.
"""

from __future__ import annotations

import gzip
import ipaddress
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
class Wired:
    """One TCP segment as a sniffer sees it."""

    at_ns: int
    source: Endpoint
    target: Endpoint
    seq: int
    ack: int
    flags: int
    payload: bytes = b""
    kept: int | None = None
    """How many bytes of the whole packet the capture keeps; None for all."""

    @property
    def ends(self) -> frozenset[Endpoint]:
        """Whose connection it belongs to."""
        return frozenset((self.source, self.target))

    @property
    def next_seq(self) -> int:
        """The number of the byte that follows."""
        return self.seq + len(self.payload) + bool(self.flags & (SYN | FIN)) & _MASK


class Talk:
    """A clean TCP connection, said packet by packet; `packets` is what a sniffer has of it."""

    def __init__(
        self,
        client: Endpoint,
        broker: Endpoint,
        at_ns: int,
        *,
        initials: tuple[int, int] = (0xFFFFFF00, 77_000),  # the client's wraps around soon
    ) -> None:
        self._ends = (client, broker)
        self._seqs = list(initials)
        self.packets: list[Wired] = []
        self._put(0, at_ns, SYN)
        self._put(1, at_ns + 10 * _US, SYN | ACK)
        self._put(0, at_ns + 20 * _US, ACK)

    def request(self, at_ns: int, data: bytes) -> None:
        """Let the client say something, which is acknowledged."""
        self._say(0, at_ns, data)

    def response(self, at_ns: int, data: bytes) -> None:
        """Let the broker say something, which is acknowledged."""
        self._say(1, at_ns, data)

    def close(self, at_ns: int) -> None:
        """Let the client hang up."""
        self._put(0, at_ns, FIN | ACK)
        self._put(1, at_ns + 10 * _US, FIN | ACK)
        self._put(0, at_ns + 20 * _US, ACK)

    def reset(self, at_ns: int) -> None:
        """Let the client break off."""
        self._put(0, at_ns, RST | ACK)

    def _say(self, side: int, at_ns: int, data: bytes) -> None:
        self._put(side, at_ns, PSH | ACK, data)
        self._put(1 - side, at_ns + 5 * _US, ACK)

    def _put(self, side: int, at_ns: int, flags: int, payload: bytes = b"") -> None:
        packet = Wired(
            at_ns=at_ns,
            source=self._ends[side],
            target=self._ends[1 - side],
            seq=self._seqs[side],
            ack=self._seqs[1 - side] if flags & ACK else 0,
            flags=flags,
            payload=payload,
        )
        self._seqs[side] = packet.next_seq
        self.packets.append(packet)


# -- what happens to packets ---------------------------------------------------------------------

Damage: TypeAlias = "Callable[[Sequence[Wired], Random], list[Wired]]"
MSS: Final = 1460


def segmented(packets: Sequence[Wired], _: Random, size: int = MSS) -> list[Wired]:
    """Split what is longer than an Ethernet frame can carry."""
    out = []
    for packet in packets:
        for start in range(0, max(1, len(packet.payload)), size):
            part = packet.payload[start : start + size]
            out.append(replace(packet, seq=packet.seq + start & _MASK, payload=part))
    return out


def crumbled(packets: Sequence[Wired], chance: Random) -> list[Wired]:
    """Split into pieces of a few bytes, lengths and headers torn apart."""
    out = []
    for packet in packets:
        start = 0
        while start < len(packet.payload):
            size = chance.randint(1, 40)
            part = packet.payload[start : start + size]
            out.append(replace(packet, seq=packet.seq + start & _MASK, payload=part))
            start += size
        if not packet.payload:
            out.append(packet)
    return out


def coalesced(packets: Sequence[Wired], _: Random) -> list[Wired]:
    """Join what one side says in a row, as large as IP allows."""
    out: list[Wired] = []
    pending: Wired | None = None
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
        is_silent = not packet.payload and not packet.flags & (SYN | FIN | RST)
        if is_silent:
            continue
        if pending is not None:
            out.append(pending)
        pending = packet
    return [*out, pending] if pending is not None else out


def reordered(packets: Sequence[Wired], chance: Random) -> list[Wired]:
    """Let packets of a connection overtake each other, but for those that open or close it."""
    return _disturbed(packets, chance, 0.2, lambda out, packet: out.insert(len(out) - 1, packet))


def retransmitted(packets: Sequence[Wired], chance: Random) -> list[Wired]:
    """Send some segments again, some of them with bytes of the one before or without the first."""
    out: list[Wired] = []
    for previous, packet in pairwise((None, *packets)):
        assert packet is not None
        out.append(packet)
        if not packet.payload or chance.random() > 0.3:
            continue
        kind = chance.randrange(3)
        again = replace(packet, at_ns=packet.at_ns + 3)
        if (
            kind == 0
            and previous is not None
            and previous.payload
            and previous.source == packet.source
            and previous.next_seq == packet.seq
        ):
            again = replace(again, seq=previous.seq, payload=previous.payload + packet.payload)
        elif kind == 1 and len(packet.payload) > 1:
            cut = chance.randrange(1, len(packet.payload))
            again = replace(again, seq=again.seq + cut & _MASK, payload=again.payload[cut:])
        out.append(again)
    return out


def sent_late(packets: Sequence[Wired], chance: Random) -> list[Wired]:
    """Lose some segments on the network, before the sniffer: they come again 300 ms later.

    Until then the other side acknowledges nothing beyond them.
    """
    out: list[Wired] = []
    late: list[Wired] = []
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


def lost(packets: Sequence[Wired], chance: Random, share: float = 0.05) -> list[Wired]:
    """Let the sniffer miss some packets with data in them; the other side has them all."""
    return [each for each in packets if not each.payload or chance.random() >= share]


def captured_twice(packets: Sequence[Wired], _: Random) -> list[Wired]:
    """See every packet on two interfaces, as with `tcpdump -i any` before a container."""
    return [
        each for packet in packets for each in (packet, replace(packet, at_ns=packet.at_ns + 1))
    ]


def begun_late(packets: Sequence[Wired], chance: Random) -> list[Wired]:
    """Start within the connections: neither their handshakes nor some of what follows is there."""
    data = [number for number, each in enumerate(packets) if each.payload]
    if len(data) < 2:
        return list(packets)
    return list(packets[data[chance.randrange(1, max(2, len(data) // 3))] :])


def without_handshake(packets: Sequence[Wired], _: Random) -> list[Wired]:
    """Miss the packets that open connections, and nothing else."""
    return [each for each in packets if not each.flags & SYN]


def without_farewell(packets: Sequence[Wired], _: Random) -> list[Wired]:
    """Stop before connections are closed."""
    return [each for each in packets if not each.flags & (FIN | RST)]


def without_acknowledgements(packets: Sequence[Wired], _: Random) -> list[Wired]:
    """Leave out what carries no data, as offloading does, and some filters."""
    return [each for each in packets if each.payload or each.flags & (SYN | FIN | RST)]


def snapped(packets: Sequence[Wired], _: Random, size: int = 200) -> list[Wired]:
    """Keep only the beginning of each packet, as `tcpdump -s` does."""
    return [replace(packet, kept=size) for packet in packets]


def disordered_queues(packets: Sequence[Wired], chance: Random) -> list[Wired]:
    """Get packets from several queues, some a few places and microseconds too late."""
    order = [(number + chance.randrange(4), number, each) for number, each in enumerate(packets)]
    return [each for _, _, each in sorted(order, key=lambda entry: entry[:2])]


def _disturbed(
    packets: Sequence[Wired],
    chance: Random,
    share: float,
    put: Callable[[list[Wired], Wired], None],
) -> list[Wired]:
    out: list[Wired] = []
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
    "segmented": segmented,
    "crumbled": crumbled,
    "coalesced": coalesced,
    "reordered": lambda packets, chance: reordered(segmented(packets, chance, 60), chance),
    "retransmitted": retransmitted,
    "sent late": sent_late,
    "captured twice": captured_twice,
    "without acknowledgements": without_acknowledgements,
    "without farewell": without_farewell,
    "disordered queues": disordered_queues,
}
"""What takes nothing away: every frame can be read."""

LOSSY: Final[Mapping[str, Damage]] = {
    "lost": lost,
    "segmented and lost": lambda packets, chance: lost(segmented(packets, chance, 100), chance),
    "begun late": begun_late,
    "without handshake": without_handshake,
    "snapped": snapped,
}
"""What takes something away: frames that are touched cannot be read, all others can."""

DAMAGES: Final[Mapping[str, Damage]] = {**HARMLESS, **LOSSY}


def again(packets: Sequence[Wired], gap_ns: int = 1_000_000_000) -> list[Wired]:
    """Return the packets, and behind them the same connections over the same ports once more."""
    later = packets[-1].at_ns - packets[0].at_ns + gap_ns
    shift = 123_456_789
    return [
        *packets,
        *(
            replace(
                each,
                at_ns=each.at_ns + later,
                seq=each.seq + shift & _MASK,
                ack=each.ack + shift & _MASK if each.flags & ACK else 0,
            )
            for each in packets
        ),
    ]


# -- headers -------------------------------------------------------------------------------------

_IP4, _IP6 = 0x0800, 0x86DD
Network: TypeAlias = "Callable[[Wired], tuple[int, bytes]]"
Link: TypeAlias = "Callable[[int, bytes], bytes]"


def _tcp(packet: Wired, options: bytes = b"") -> bytes:
    offset = 5 + len(options) // 4 << 4
    ends = (packet.source.port, packet.target.port)
    head = struct.pack(
        ">HHIIBBHHH", *ends, packet.seq, packet.ack, offset, packet.flags, 65535, 0, 0
    )
    return head + options + packet.payload


_TIMESTAMPS: Final = b"\x01\x01\x08\x0a" + bytes(8)


def _ip4(packet: Wired, options: bytes = b"", tcp_options: bytes = b"") -> tuple[int, bytes]:
    body = _tcp(packet, tcp_options)
    hosts = b"".join(_address(end.host, 4) for end in (packet.source, packet.target))
    words = 5 + len(options) // 4
    total = words * 4 + len(body)
    head = struct.pack(">BBHHHBBH", 0x40 | words, 0, total, 7, 0x4000, 64, 6, 0)
    return _IP4, head + hosts + options + body


def _ip6(packet: Wired, extensions: Sequence[tuple[int, bytes]] = ()) -> tuple[int, bytes]:
    body = _tcp(packet, _TIMESTAMPS)
    following = 6
    for number, content in reversed(extensions):
        body = struct.pack(">BB", following, (len(content) + 2) // 8 - 1) + content + body
        following = number
    hosts = b"".join(_address(end.host, 6) for end in (packet.source, packet.target))
    return _IP6, struct.pack(">IHBB", 6 << 28, len(body), following, 64) + hosts + body


def _address(host: str, version: int) -> bytes:
    address = ipaddress.ip_address(host)
    if address.version == version:
        return address.packed
    return b"\xfd" + bytes(11) + address.packed if version == 6 else address.packed[-4:]


def _left_to_the_card(network: Network) -> Network:
    """Leave out the length, as what a card will split has none; the smallest are not split."""

    def without_length(packet: Wired) -> tuple[int, bytes]:
        kind, data = network(packet)
        at = 2 if kind == _IP4 else 4
        return kind, data if len(data) <= SPLIT_BYTES else data[:at] + bytes(2) + data[at + 2 :]

    return without_length


SPLIT_BYTES: Final = 46
"""Cards do not split what is no larger; Ethernet pads it."""
_PLAIN: Final[Mapping[str, Network]] = {
    "ip4": _ip4,
    "ip4 with options": lambda packet: _ip4(packet, b"\x94\x04\x00\x00", _TIMESTAMPS),
    "ip6": _ip6,
    "ip6 with extension headers": lambda packet: _ip6(
        packet, ((0, b"\x05\x02\x00\x00\x01\x00"), (60, b"\x01\x04" + bytes(4)))
    ),
}
NETWORKS: Final[Mapping[str, Network]] = {
    **_PLAIN,
    **{f"{name}, left to the card": _left_to_the_card(each) for name, each in _PLAIN.items()},
}
"""Name → what makes (EtherType, network packet) of a segment."""

_MACS: Final = b"\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02"
_FAMILIES: Final = {_IP4: 2, _IP6: 30}


def _ethernet(kind: int, packet: bytes) -> bytes:
    return (_MACS + struct.pack(">H", kind) + packet).ljust(60, b"\xee")  # padded to the least


def _tagged(tags: bytes) -> Link:
    return lambda kind, packet: _MACS + tags + struct.pack(">H", kind) + packet


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
"""Name → link type, and what puts the link's header before a network packet."""


# -- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kept:
    """A packet as it is in a file."""

    at_ns: int
    data: bytes
    length: int


Container: TypeAlias = "Callable[[Iterable[Kept], int], bytes]"


def _pcap(order: str, magic: int, unit_ns: int) -> Container:
    def container(packets: Iterable[Kept], link: int) -> bytes:
        out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, link)]
        for each in packets:
            seconds, rest = divmod(each.at_ns, 1_000_000_000)
            head = (seconds, rest // unit_ns, len(each.data), each.length)
            out += [struct.pack(order + "4I", *head), each.data]
        return b"".join(out)

    return container


def block(order: str, kind: int, body: bytes) -> bytes:
    """Return a pcapng block."""
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def section(order: str) -> bytes:
    """Return the block that a pcapng section begins with."""
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order: str, link: int, options: bytes = b"") -> bytes:
    """Return the description of an interface, by default one that counts microseconds."""
    return block(order, 1, struct.pack(order + "HHI", link, 0, 0) + options)


def resolution(order: str, value: int) -> bytes:
    """Return the option that says what the times of an interface count."""
    return struct.pack(order + "HHB3xHH", 9, 1, value, 0, 0)


def enhanced(order: str, number: int, ticks: int, packet: Kept, options: bytes = b"") -> bytes:
    """Return an enhanced packet block."""
    head = (number, ticks >> 32, ticks & _MASK, len(packet.data), packet.length)
    data = packet.data + bytes(-len(packet.data) % 4)
    return block(order, 6, struct.pack(order + "5I", *head) + data + options)


def _pcapng(order: str) -> Container:
    def container(packets: Iterable[Kept], link: int) -> bytes:
        out = [section(order), interface(order, link)]
        out += [enhanced(order, 0, each.at_ns // _US, each) for each in packets]
        return b"".join(out)

    return container


def _several(packets: Iterable[Kept], link: int) -> bytes:
    """Alternate between interfaces whose clocks count differently, one described in the midst."""
    out = [section("<"), interface("<", 1), interface("<", link, resolution("<", 9))]
    clocks: list[Callable[[int], int]] = [lambda ns: ns, lambda ns: (ns << 30) // 1_000_000_000]
    for number, each in enumerate(packets):
        if number == 1:
            out.append(interface("<", link, resolution("<", 0x80 | 30)))
        which = number % 2
        out.append(enhanced("<", 1 + which, clocks[which](each.at_ns) + which, each))
    return b"".join(out)


def _old(packets: Iterable[Kept], link: int) -> bytes:
    """Use the obsolete block that Wireshark 1.0 wrote."""
    out = [section("<"), interface("<", link)]
    for each in packets:
        ticks = each.at_ns // _US
        head = (0, 0, ticks >> 32, ticks & _MASK, len(each.data), each.length)
        out.append(block("<", 2, struct.pack("<HHIIII", *head) + each.data))
    return b"".join(out)


def _simple(packets: Iterable[Kept], link: int) -> bytes:
    """Use the blocks that have no times."""
    out = [section("<"), interface("<", link)]
    out += [block("<", 3, struct.pack("<I", each.length) + each.data) for each in packets]
    return b"".join(out)


def _mixed(packets: Iterable[Kept], link: int) -> bytes:
    """Put blocks between that say something else, and a second section the other way round."""
    out = [section(">"), block(">", 4, bytes(8)), interface(">", link)]
    order = ">"
    for number, each in enumerate(packets):
        if number == 5:
            order = "<"
            out += [section(order), interface(order, link)]
        out.append(block(order, 0x0BAD, b"whatever that is" * number))
        comment = struct.pack(order + "HH", 1, 5) + b"hello\0\0\0" + bytes(4)
        out.append(enhanced(order, 0, each.at_ns // _US, each, comment))
    out.append(block(order, 5, bytes(12)))
    return b"".join(out)


CONTAINERS: Final[Mapping[str, Container]] = {
    "pcap": _pcap("<", 0xA1B2C3D4, _US),
    "pcap big-endian": _pcap(">", 0xA1B2C3D4, _US),
    "pcap ns": _pcap("<", 0xA1B23C4D, 1),
    "pcap ns big-endian": _pcap(">", 0xA1B23C4D, 1),
    "pcapng": _pcapng("<"),
    "pcapng big-endian": _pcapng(">"),
    "pcapng several interfaces": _several,
    "pcapng old blocks": _old,
    "pcapng simple blocks": _simple,
    "pcapng mixed": _mixed,
    "pcapng gz": lambda packets, link: gzip.compress(_pcapng("<")(packets, link), 1, mtime=0),
    "pcap gz": lambda packets, link: gzip.compress(
        _pcap("<", 0xA1B2C3D4, _US)(packets, link), 1, mtime=0
    ),
}
"""Name → what makes a file of packets and their link type."""


def kept(
    packets: Iterable[Wired],
    *,
    network: str = "ip4",
    link: str = "ethernet",
    container: str = "pcapng",
) -> bytes:
    """Return the bytes of a capture file."""
    link_type, around = LINKS[link]
    wear = NETWORKS[network]
    captured = []
    for packet in packets:
        data = around(*wear(packet))
        captured.append(Kept(packet.at_ns, data[: packet.kept], len(data)))
    return CONTAINERS[container](captured, link_type)
