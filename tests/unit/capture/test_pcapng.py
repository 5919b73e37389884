"""pcapng blocks: what we write is what the format says."""

from __future__ import annotations

from struct import unpack_from

from kafkalite.capture import pcapng


def walk(data: bytes) -> list[tuple[int, bytes]]:
    """Return each block's type and body; both of its lengths must agree."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data):
        kind, length = unpack_from("<II", data, at)
        assert length % 4 == 0
        assert unpack_from("<I", data, at + length - 4) == (length,)
        found.append((kind, data[at + 8 : at + length - 4]))
        at += length
    return found


def options(data: bytes) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    at = 0
    while True:
        code, size = unpack_from("<HH", data, at)
        if code == 0:
            return found
        found.append((code, data[at + 4 : at + 4 + size]))
        at += 4 + size + -size % 4


def test_a_file_begins_with_who_wrote_it() -> None:
    ((kind, body),) = walk(pcapng.section("kafkalite 1", "said"))
    assert kind == pcapng.SECTION
    assert unpack_from("<IHHq", body) == (0x1A2B3C4D, 1, 0, -1)
    assert options(body[16:]) == [(1, b"said"), (4, b"kafkalite 1")]


def test_an_interface_counts_nanoseconds_of_raw_ip() -> None:
    ((kind, body),) = walk(pcapng.interface("node-1", "node=1"))
    assert kind == pcapng.INTERFACE
    assert unpack_from("<HHI", body) == (pcapng.LINK_TYPE_RAW, 0, 0)
    assert options(body[8:]) == [(1, b"node=1"), (2, b"node-1"), (9, b"\x09")]


def test_a_packet_is_padded_and_may_be_commented() -> None:
    at_ns = 1_795_328_756_909_164_531
    data = pcapng.packet(3, at_ns, b"12345") + pcapng.packet(0, 1, b"1234", "word=1")
    (kind, first), (_, second) = walk(data)
    assert kind == pcapng.ENHANCED_PACKET
    number, high, low, kept, length = unpack_from("<5I", first)
    assert (number, high << 32 | low, kept, length) == (3, at_ns, 5, 5)
    assert first[20:] == b"12345\0\0\0"
    assert second[20:24] == b"1234"
    assert options(second[24:]) == [(1, b"word=1")]


def test_a_file_ends_with_when() -> None:
    ((kind, body),) = walk(pcapng.statistics(2, 7 << 32 | 9))
    assert kind == pcapng.STATISTICS
    assert unpack_from("<III", body) == (2, 7, 9)
