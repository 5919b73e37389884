"""dpkt and our own reading of plain headers agree, and hostile packets are nothing."""

from __future__ import annotations

import struct
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.blocks import Interface, Packet
from kafkalite.capture.model import Endpoint
from kafkalite.capture.packets import Dissector
from kafkalite.capture.stacked import network_packet
from tests.captures.damage import NETWORKS, SPLIT_BYTES, Wired

PORTS = st.integers(0, 65_535)


@given(
    network=st.sampled_from([each for each in NETWORKS if " with " not in each]),
    ports=st.tuples(PORTS, PORTS),
    numbers=st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
    flags=st.integers(0, 255),
    payload=st.binary(max_size=50),
    cut=st.integers(0, 20),
)
def test_both_ways_of_reading_say_the_same(  # noqa: PLR0917 - hypothesis gives them by name
    network: str,
    ports: tuple[int, int],
    numbers: tuple[int, int],
    flags: int,
    payload: bytes,
    cut: int,
) -> None:
    wired = Wired(
        at_ns=0,
        source=Endpoint("10.0.0.1", ports[0]),
        target=Endpoint("10.0.0.2", ports[1]),
        seq=numbers[0],
        ack=numbers[1],
        flags=flags,
        payload=payload,
    )
    _, data = NETWORKS[network](wired)
    kept = data[: len(data) - min(cut, len(payload))]
    plain = Dissector("f", lambda _: None).segment(
        Packet(0, Interface(101), kept, len(data), 0, None)
    )
    other = network_packet(kept)
    assert plain is not None
    assert other is not None
    assert other.size == (len(data) if "card" not in network or len(data) <= SPLIT_BYTES else 0)
    assert plain.flow == other.addresses + kept[other.tcp : other.tcp + 4]
    assert (plain.seq, plain.ack) == struct.unpack_from(">II", kept, other.tcp + 4)
    assert plain.payload == kept[other.tcp + (kept[other.tcp + 12] >> 4) * 4 :]
    assert plain.missing == len(data) - len(kept)


@given(st.binary(max_size=120))
def test_hostile_bytes_are_nothing_or_something_or_broken(data: bytes) -> None:
    for first in (b"\x46", b"\x4f", b"\x60", b""):
        with suppress(struct.error):
            network_packet(first + data)
