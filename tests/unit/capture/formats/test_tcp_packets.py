"""Unit tests of synthetic packets, checked as a strict receiver would."""

from __future__ import annotations

import ipaddress
from struct import unpack_from
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.formats.tcp_packets import (
    LARGE_PAYLOAD_BYTES,
    SEGMENT_BYTES,
    PacketStream,
    TcpConnection,
    checksum_part,
)
from kafkalite.capture.model import Endpoint
from tests.unit.capture.recorded import BROKER, CLIENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.capture.formats.tcp_packets import Block

FIN, SYN, PUSH, ACK = 1, 2, 8, 16
FOUR = Endpoint("10.1.2.3", 50_000)
SIX = Endpoint("fe80::1", 9092)


def ones_complement_sum(data: bytes) -> int:
    """Return the one's complement sum of the halfwords, computed one by one."""
    data += bytes(len(data) % 2)
    total: int = sum(unpack_from(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


class Packet:
    """One packet, parsed from its block; its checksums must be valid.

    The TCP checksum of a large segment covers only the pseudo header, as before checksum offload.
    """

    def __init__(self, pieces: Block) -> None:
        block = b"".join(pieces)
        _, length, self.interface, high, low, captured, original = unpack_from("<7I", block)
        assert length == len(block)
        assert captured == original
        self.at_ns = high << 32 | low
        data = block[28 : 28 + captured]
        if data[0] >> 4 == 4:
            assert unpack_from(">H", data, 2) == (len(data),)
            assert ones_complement_sum(data[:20]) == 0xFFFF
            addresses, tcp = data[12:20], data[20:]
            self.source = str(ipaddress.ip_address(data[12:16]))
        else:
            assert unpack_from(">H", data, 4) == (len(data) - 40,)
            addresses, tcp = data[8:40], data[40:]
            self.source = str(ipaddress.ip_address(data[8:24]))
        pseudo = addresses + bytes((0, 6)) + len(tcp).to_bytes(2)
        _, _, self.sequence, self.acknowledged, offset_flags = unpack_from(">HHIIH", tcp)
        self.flags = offset_flags & 0x3F
        self.payload = tcp[(offset_flags >> 12) * 4 :]
        if len(self.payload) < LARGE_PAYLOAD_BYTES:
            assert ones_complement_sum(pseudo + tcp) == 0xFFFF
        else:
            assert int.from_bytes(tcp[16:18]) % 0xFFFF == ones_complement_sum(pseudo) % 0xFFFF


def packets(blocks: Sequence[Block]) -> list[Packet]:
    return [Packet(block) for block in blocks]


@given(st.binary(max_size=5000))
def test_checksum_part_equals_the_sum_of_16_bit_words(data: bytes) -> None:
    assert checksum_part(data) % 0xFFFF == ones_complement_sum(data) % 0xFFFF


@given(
    st.binary(max_size=3000),
    st.sampled_from([(CLIENT, BROKER), (FOUR, SIX), (SIX, FOUR)]),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)
def test_checksums_are_valid_for_any_payload(
    payload: bytes, ends: tuple[Endpoint, Endpoint], sequence: int, acknowledged: int
) -> None:
    stream = PacketStream(*ends, sequence)
    packet = Packet(stream.block(0, 7, acknowledged, payload))
    assert (packet.sequence, packet.acknowledged) == (sequence, acknowledged)
    assert packet.payload == payload
    assert stream.sequence == (sequence + len(payload)) % 2**32


@pytest.mark.parametrize(
    "payload", [bytes(SEGMENT_BYTES), b"\xff" * SEGMENT_BYTES, b"\xff\xff", bytes(range(251)) * 16]
)
def test_segment_has_the_maximum_size_of_ip(payload: bytes) -> None:
    for ends in ((CLIENT, BROKER), (FOUR, SIX)):
        assert Packet(PacketStream(*ends, 0).block(0, 0, 0, payload)).payload == payload


def test_large_data_is_not_copied() -> None:
    payload = memoryview(bytes(SEGMENT_BYTES))
    block = PacketStream(CLIENT, BROKER, 0).block(0, 0, 0, payload)
    assert block[1] is payload


def test_connection_has_handshake_and_close() -> None:
    tcp = TcpConnection(CLIENT, BROKER, 3, 1_000_000_007, 0)
    syn, syn_ack, ack = packets(tcp.open())
    assert [each.flags for each in (syn, syn_ack, ack)] == [SYN, SYN | ACK, ACK]
    assert syn_ack.acknowledged == ack.sequence == syn.sequence + 1
    assert ack.acknowledged == syn_ack.sequence + 1
    assert {each.interface for each in (syn, syn_ack, ack)} == {3}
    assert syn.at_ns == 1_000_000_007
    data = Packet(tcp.to_broker.block(3, 8, tcp.to_client.sequence, b"hello"))
    assert (data.sequence, data.flags) == (ack.sequence, PUSH | ACK)
    fin, fin_back, last = packets(tcp.close(9))
    assert [each.flags for each in (fin, fin_back, last)] == [FIN | ACK, FIN | ACK, ACK]
    assert fin.sequence == data.sequence + 5
    assert fin_back.acknowledged == last.sequence == fin.sequence + 1
    assert last.acknowledged == fin_back.sequence + 1


def test_reused_ports_begin_at_another_sequence_number() -> None:
    first, again, later = (
        TcpConnection(CLIENT, BROKER, 0, at_ns, number)
        for at_ns, number in ((5, 0), (5, 1), (6, 0))
    )
    assert len({each.to_broker.sequence for each in (first, again, later)}) == 3


def test_ipv4_address_is_mapped_if_the_other_is_ipv6() -> None:
    assert Packet(PacketStream(FOUR, SIX, 0).block(0, 0, 0, b"")).source == "::ffff:a01:203"
