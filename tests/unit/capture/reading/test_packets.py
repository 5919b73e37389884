"""Unit tests of extracting segments from packets: links, VLANs, other protocols, truncation."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.formats.capture_files import Interface, Packet
from kafkalite.capture.model import Endpoint, Problem, ProblemKind
from kafkalite.capture.reading.packets import Dissector, Segment, reverse, sender
from tests.captures.damage import LINKS, NETWORKS, TcpPacket

WIRED = TcpPacket(
    at_ns=5,
    source=Endpoint("10.0.0.1", 40_000),
    target=Endpoint("10.0.0.2", 9092),
    seq=4_000_000_000,
    ack=7,
    flags=0x18,
    payload=b"hello, broker",
)


def dissect(link_type: int, data: bytes, length: int = 0) -> tuple[Segment | None, list[Problem]]:
    found: list[Problem] = []
    packet = Packet(5, Interface(link_type), data, length or len(data), 99, None)
    return Dissector("f", found.append).extract_segment(packet), found


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("link", LINKS)
def test_segment_is_equal_for_all_links_and_networks(link: str, network: str) -> None:
    link_type, around = LINKS[link]
    segment, problems = dissect(link_type, around(*NETWORKS[network](WIRED)))
    assert problems == []
    assert segment is not None
    assert (segment.seq, segment.ack, segment.flags) == (WIRED.seq, 7, 0x18)
    assert (segment.payload, segment.missing) == (WIRED.payload, 0)
    assert (segment.at_ns, segment.file, segment.offset) == (5, "f", 99)
    ends = (sender(segment.flow), sender(reverse(segment.flow)))
    hosts = {"ip4": ("10.0.0.1", "10.0.0.2"), "ip6": ("fd00::a00:1", "fd00::a00:2")}
    assert ends == tuple(
        Endpoint(host, port) for host, port in zip(hosts[network[:3]], (40_000, 9092), strict=True)
    )
    assert reverse(reverse(segment.flow)) == segment.flow


def test_pppoe_packet_is_parsed() -> None:
    kind, packet = NETWORKS["ip4"](WIRED)
    assert kind == 0x0800
    around = bytes(12) + b"\x88\x64" + struct.pack(">BBHHH", 0x11, 0, 1, len(packet) + 2, 0x21)
    segment, problems = dissect(1, around + packet)
    assert problems == []
    assert segment is not None
    assert segment.payload == WIRED.payload


@pytest.mark.parametrize("network", NETWORKS)
def test_bytes_that_were_not_captured_are_counted(network: str) -> None:
    _, packet = NETWORKS[network](WIRED)
    around = bytes(12) + (b"\x08\x00" if network.startswith("ip4") else b"\x86\xdd") + packet
    for link_type, data in ((101, packet), (1, around)):
        segment, problems = dissect(link_type, data[:-5], len(data))
        assert segment is not None
        assert (segment.payload, segment.missing) == (WIRED.payload[:-5], 5)
        assert [each.kind for each in problems] == [ProblemKind.TRUNCATED_PACKET]


@pytest.mark.parametrize("network", NETWORKS)
def test_packet_truncated_within_its_headers_is_reported(network: str) -> None:
    _, packet = NETWORKS[network](WIRED)
    start = packet.index(struct.pack(">HH", 40_000, 9092))  # of TCP
    for size in range(1, start + 14):  # the fields up to the flags are needed
        for length in (len(packet), size):  # truncated by the capture, or sent truncated
            segment, problems = dissect(101, packet[:size], length)
            assert segment is None
            assert [each.kind for each in problems] == [ProblemKind.TRUNCATED_PACKET]


@pytest.mark.parametrize("network", NETWORKS)
def test_truncated_tcp_options_are_no_payload(network: str) -> None:
    _, packet = NETWORKS[network](WIRED)
    start = packet.index(struct.pack(">HH", 40_000, 9092))
    segment, problems = dissect(101, packet[: start + 20], len(packet))
    assert segment is not None
    assert (segment.payload, segment.missing) == (b"", len(WIRED.payload))
    assert [each.kind for each in problems] == [ProblemKind.TRUNCATED_PACKET]


@pytest.mark.parametrize("network", ["ip4", "ip4 with options"])
@pytest.mark.parametrize("fragment", [b"\x20\x00", b"\x00\x05"])
def test_fragment_is_reported(network: str, fragment: bytes) -> None:
    _, packet = NETWORKS[network](WIRED)
    segment, problems = dissect(101, packet[:6] + fragment + packet[8:])
    assert segment is None
    assert [each.kind for each in problems] == [ProblemKind.IP_FRAGMENT]


def test_ipv6_fragment_is_reported() -> None:
    _, packet = NETWORKS["ip6"](WIRED)
    body = packet[40:]
    head = packet[:4] + struct.pack(">HB", len(body) + 8, 44) + packet[7:40]
    whole = head + struct.pack(">BBHI", 6, 0, 0, 1) + body
    segment, problems = dissect(101, whole)
    assert problems == []
    assert segment is not None  # a fragment that is the whole packet
    segment, problems = dissect(101, head + struct.pack(">BBHI", 6, 0, 1, 1) + body)
    assert segment is None
    assert [each.kind for each in problems] == [ProblemKind.IP_FRAGMENT]


def test_packets_without_tcp_are_ignored() -> None:
    _, packet = NETWORKS["ip4"](WIRED)
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    udp = packet[:9] + b"\x11" + packet[10:]
    _, six = NETWORKS["ip6"](WIRED)
    icmp6 = six[:6] + b"\x3a" + six[7:]
    for link_type, data in ((1, arp), (101, udp), (101, icmp6), (101, b"\x00" * 60), (276, arp)):
        assert dissect(link_type, data) == (None, [])


def test_unknown_link_type_is_reported_once_per_file() -> None:
    found: list[Problem] = []
    dissector = Dissector("f", found.append)
    for _ in range(3):
        assert dissector.extract_segment(Packet(0, Interface(147), b"x", 1, 0, None)) is None
    assert [(each.kind, each.detail) for each in found] == [
        (ProblemKind.UNKNOWN_LINK_TYPE, "link type 147")
    ]


@pytest.mark.parametrize("words", [4, 15])
@pytest.mark.parametrize("network", NETWORKS)
def test_invalid_tcp_header_length_is_reported(network: str, words: int) -> None:
    _, packet = NETWORKS[network](replace(WIRED, payload=b"0123"))
    at = packet.index(struct.pack(">HH", 40_000, 9092)) + 12
    segment, problems = dissect(101, packet[:at] + bytes([words << 4]) + packet[at + 1 :])
    assert segment is None
    assert [each.kind for each in problems] == [ProblemKind.CORRUPT_BLOCK]


def test_clock_jump_is_reported_but_small_disorder_is_not() -> None:
    found: list[Problem] = []
    dissector = Dissector("f", found.append)
    _, packet = NETWORKS["ip4"](WIRED)
    for at_ns in (10**12, 10**12 - 5_000, 10**12, 10**11, 10**11 + 1):
        dissector.extract_segment(Packet(at_ns, Interface(101), packet, len(packet), 0, None))
    assert [(each.kind, each.detail) for each in found] == [
        (ProblemKind.CLOCK_JUMP, "time goes back by 900 s")
    ]


@given(
    link=st.sampled_from(sorted({number for number, _ in LINKS.values()})),
    data=st.binary(max_size=120),
    network=st.sampled_from(sorted(NETWORKS)),
    position=st.integers(0, 60),
)
def test_arbitrary_bytes_do_not_raise(link: int, data: bytes, network: str, position: int) -> None:
    _, packet = NETWORKS[network](WIRED)
    dissect(link, data)
    dissect(101, packet[:position] + data, 2000)
