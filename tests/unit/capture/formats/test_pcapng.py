"""Unit tests of written pcapng blocks."""

from __future__ import annotations

from struct import unpack_from

from kafkalite.capture.formats import pcapng


def split_blocks(data: bytes) -> list[tuple[int, bytes]]:
    """Return each block's type and body; check that both lengths are equal."""
    parsed: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data):
        kind, length = unpack_from("<II", data, at)
        assert length % 4 == 0
        assert unpack_from("<I", data, at + length - 4) == (length,)
        parsed.append((kind, data[at + 8 : at + length - 4]))
        at += length
    return parsed


def options(data: bytes) -> list[tuple[int, bytes]]:
    parsed: list[tuple[int, bytes]] = []
    at = 0
    while True:
        code, size = unpack_from("<HH", data, at)
        if code == 0:
            return parsed
        parsed.append((code, data[at + 4 : at + 4 + size]))
        at += 4 + size + -size % 4


def test_section_header_has_application_and_comment() -> None:
    ((kind, body),) = split_blocks(pcapng.section("kafkalite 1", "a comment"))
    assert kind == pcapng.SECTION
    assert unpack_from("<IHHq", body) == (0x1A2B3C4D, 1, 0, -1)
    assert options(body[16:]) == [(1, b"a comment"), (4, b"kafkalite 1")]


def test_interface_has_nanoseconds_and_raw_ip() -> None:
    ((kind, body),) = split_blocks(pcapng.interface("node-1", "node=1"))
    assert kind == pcapng.INTERFACE
    assert unpack_from("<HHI", body) == (pcapng.LINK_TYPE_RAW, 0, 0)
    assert options(body[8:]) == [(1, b"node=1"), (2, b"node-1"), (9, b"\x09")]


def test_packet_is_padded_and_can_have_a_comment() -> None:
    at_ns = 1_795_328_756_909_164_531
    data = pcapng.packet(3, at_ns, b"12345") + pcapng.packet(0, 1, b"1234", "word=1")
    (kind, first), (_, second) = split_blocks(data)
    assert kind == pcapng.ENHANCED_PACKET
    number, high, low, captured, length = unpack_from("<5I", first)
    assert (number, high << 32 | low, captured, length) == (3, at_ns, 5, 5)
    assert first[20:] == b"12345\0\0\0"
    assert second[20:24] == b"1234"
    assert options(second[24:]) == [(1, b"word=1")]


def test_statistics_have_the_end_time() -> None:
    ((kind, body),) = split_blocks(pcapng.statistics(2, 7 << 32 | 9))
    assert kind == pcapng.STATISTICS
    assert unpack_from("<III", body) == (2, 7, 9)
