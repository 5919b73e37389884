"""dpkt and the parser of plain headers give the same result; malformed packets are rejected."""

from __future__ import annotations

import struct
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.formats.capture_files import Interface, Packet
from kafkalite.capture.model import Endpoint
from kafkalite.capture.reading.encapsulation import parse_network_packet
from kafkalite.capture.reading.packets import Dissector
from tests.captures.damage import NETWORKS, SPLIT_BYTES, TcpPacket

PORTS = st.integers(0, 65_535)


@given(
    network=st.sampled_from([each for each in NETWORKS if " with " not in each]),
    ports=st.tuples(PORTS, PORTS),
    numbers=st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
    flags=st.integers(0, 255),
    payload=st.binary(max_size=50),
    cut=st.integers(0, 20),
)
def test_dpkt_equals_the_parser_of_plain_headers(  # noqa: PLR0917 - hypothesis passes keywords
    network: str,
    ports: tuple[int, int],
    numbers: tuple[int, int],
    flags: int,
    payload: bytes,
    cut: int,
) -> None:
    wired = TcpPacket(
        at_ns=0,
        source=Endpoint("10.0.0.1", ports[0]),
        target=Endpoint("10.0.0.2", ports[1]),
        seq=numbers[0],
        ack=numbers[1],
        flags=flags,
        payload=payload,
    )
    _, data = NETWORKS[network](wired)
    captured = data[: len(data) - min(cut, len(payload))]
    plain = Dissector("f", lambda _: None).extract_segment(
        Packet(0, Interface(101), captured, len(data), 0, None)
    )
    other = parse_network_packet(captured)
    assert plain is not None
    assert other is not None
    assert other.size == (len(data) if "card" not in network or len(data) <= SPLIT_BYTES else 0)
    assert plain.flow == other.addresses + captured[other.tcp_start : other.tcp_start + 4]
    assert (plain.seq, plain.ack) == struct.unpack_from(">II", captured, other.tcp_start + 4)
    assert plain.payload == captured[other.tcp_start + (captured[other.tcp_start + 12] >> 4) * 4 :]
    assert plain.missing == len(data) - len(captured)


@given(st.binary(max_size=120))
def test_malformed_packets_raise_only_struct_error(data: bytes) -> None:
    for first in (b"\x46", b"\x4f", b"\x60", b""):
        with suppress(struct.error):
            parse_network_packet(first + data)
