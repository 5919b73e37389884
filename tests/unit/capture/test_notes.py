"""Comments: what is written is read back, and what others wrote does no harm."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.notes import (
    InterfaceNote,
    PacketNote,
    interface_note,
    interface_text,
    packet_note,
    packet_text,
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
def test_a_packets_note_is_read_back(note: PacketNote) -> None:
    assert packet_note(packet_text(note)) == note


def test_an_interfaces_note_is_plain() -> None:
    note = InterfaceNote(node=-1, listener="INSIDE")
    assert interface_text(note) == "node=-1 listener=INSIDE"
    assert interface_note("node=-1 listener=INSIDE") == note
    assert interface_note(None) == InterfaceNote()


@given(st.text())
def test_what_others_wrote_says_nothing(text: str) -> None:
    packet_note(text)
    assert packet_note("node=1 opened=soon =3 blanked=" + "9" * 50) == PacketNote()
    assert packet_note(f"opened={2**63} inside={-(2**63) - 1}") == PacketNote()
