"""Made-up packets: what a strict receiver would make of them."""

from __future__ import annotations

import ipaddress
from struct import unpack_from
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.model import Endpoint
from kafkalite.capture.synthetic import (
    LARGE_BYTES,
    SEGMENT_BYTES,
    Way,
    Wire,
    checksum_part,
)
from tests.unit.capture.recorded import BROKER, CLIENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.capture.synthetic import Block

FIN, SYN, PUSH, ACK = 1, 2, 8, 16
FOUR = Endpoint("10.1.2.3", 50_000)
SIX = Endpoint("fe80::1", 9092)


def folded(data: bytes) -> int:
    """Return the one's complement sum of the halfwords, the slow way."""
    data += bytes(len(data) % 2)
    total: int = sum(unpack_from(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


class Packet:
    """One packet, taken out of its block; its checksums must be right.

    That of TCP over much data is as a network card would find it: nothing but what is before TCP.
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
            assert folded(data[:20]) == 0xFFFF
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
        if len(self.payload) < LARGE_BYTES:
            assert folded(pseudo + tcp) == 0xFFFF
        else:
            assert int.from_bytes(tcp[16:18]) % 0xFFFF == folded(pseudo) % 0xFFFF


def packets(blocks: Sequence[Block]) -> list[Packet]:
    return [Packet(block) for block in blocks]


@given(st.binary(max_size=5000))
def test_a_sum_is_that_of_the_halfwords(data: bytes) -> None:
    assert checksum_part(data) % 0xFFFF == folded(data) % 0xFFFF


@given(
    st.binary(max_size=3000),
    st.sampled_from([(CLIENT, BROKER), (FOUR, SIX), (SIX, FOUR)]),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)
def test_checksums_are_right_whatever_is_sent(
    payload: bytes, ends: tuple[Endpoint, Endpoint], sequence: int, acknowledged: int
) -> None:
    way = Way(*ends, sequence)
    packet = Packet(way.block(0, 7, acknowledged, payload))
    assert (packet.sequence, packet.acknowledged) == (sequence, acknowledged)
    assert packet.payload == payload
    assert way.sequence == (sequence + len(payload)) % 2**32


@pytest.mark.parametrize(
    "payload", [bytes(SEGMENT_BYTES), b"\xff" * SEGMENT_BYTES, b"\xff\xff", bytes(range(251)) * 16]
)
def test_a_segment_is_as_large_as_ip_allows(payload: bytes) -> None:
    for ends in ((CLIENT, BROKER), (FOUR, SIX)):
        assert Packet(Way(*ends, 0).block(0, 0, 0, payload)).payload == payload


def test_much_data_is_not_copied() -> None:
    payload = memoryview(bytes(SEGMENT_BYTES))
    block = Way(CLIENT, BROKER, 0).block(0, 0, 0, payload)
    assert block[1] is payload


def test_a_connection_begins_and_ends_as_tcp_has_it() -> None:
    wire = Wire(CLIENT, BROKER, 3, 1_000_000_007, 0)
    syn, back, ack = packets(wire.open())
    assert [each.flags for each in (syn, back, ack)] == [SYN, SYN | ACK, ACK]
    assert back.acknowledged == ack.sequence == syn.sequence + 1
    assert ack.acknowledged == back.sequence + 1
    assert {each.interface for each in (syn, back, ack)} == {3}
    assert syn.at_ns == 1_000_000_007
    data = Packet(wire.to_broker.block(3, 8, wire.to_client.sequence, b"hello"))
    assert (data.sequence, data.flags) == (ack.sequence, PUSH | ACK)
    fin, fin_back, last = packets(wire.close(9))
    assert [each.flags for each in (fin, fin_back, last)] == [FIN | ACK, FIN | ACK, ACK]
    assert fin.sequence == data.sequence + 5
    assert fin_back.acknowledged == last.sequence == fin.sequence + 1
    assert last.acknowledged == fin_back.sequence + 1


def test_each_use_of_two_ports_begins_elsewhere() -> None:
    first, again, later = (
        Wire(CLIENT, BROKER, 0, at_ns, number) for at_ns, number in ((5, 0), (5, 1), (6, 0))
    )
    assert len({each.to_broker.sequence for each in (first, again, later)}) == 3


def test_families_that_differ_are_mapped_into_the_wider() -> None:
    assert Packet(Way(FOUR, SIX, 0).block(0, 0, 0, b"")).source == "::ffff:a01:203"
