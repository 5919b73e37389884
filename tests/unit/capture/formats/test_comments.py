"""Unit tests of comments: round trip, and comments of other programs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.formats.comments import (
    InterfaceNote,
    PacketNote,
    encode_interface_note,
    encode_packet_note,
    parse_interface_note,
    parse_packet_note,
)

NUMBERS = st.none() | st.integers(0, 2**63 - 1)
TEXTS = st.none() | st.text(min_size=1)


@given(
    st.builds(
        PacketNote,
        opened=NUMBERS,
        inside=NUMBERS,
        client=TEXTS,
        software=TEXTS,
        software_version=TEXTS,
        blanked=NUMBERS,
        snapped=NUMBERS,
    )
)
def test_packet_note_survives_a_round_trip(note: PacketNote) -> None:
    assert parse_packet_note(encode_packet_note(note)) == note


def test_interface_note_is_plain_text() -> None:
    note = InterfaceNote(node=-1, listener="INSIDE")
    assert encode_interface_note(note) == "node=-1 listener=INSIDE"
    assert parse_interface_note("node=-1 listener=INSIDE") == note
    assert parse_interface_note(None) == InterfaceNote()


@given(st.text())
def test_unknown_keys_and_numbers_beyond_64_bits_are_ignored(text: str) -> None:
    parse_packet_note(text)
    assert parse_packet_note("node=1 opened=soon =3 blanked=" + "9" * 50) == PacketNote()
    assert parse_packet_note(f"opened={2**63} inside={-(2**63) - 1}") == PacketNote()
