"""The bytes that name a schema."""

from __future__ import annotations

import pytest

from kafkalite.control.console.schemas import Frame, frame_of


@pytest.mark.parametrize("content", [None, b"", b"\x00\x00\x00\x00", b"\x01\x00\x00\x00\x07x"])
def test_other_bytes_name_no_schema(content: bytes | None) -> None:
    assert frame_of(content) is None


def test_the_id_and_the_value_are_split() -> None:
    assert frame_of(b"\x00\x00\x00\x01\x07") == Frame(263, b"")
    assert frame_of(b"\x00\xff\x00\x00\x00x") == Frame(0xFF000000, b"x")
