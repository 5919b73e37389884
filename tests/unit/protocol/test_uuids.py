"""Uuids in bytes and in text."""

import pytest

from kafkalite.protocol.uuids import ZERO_UUID, is_reserved, uuid_from_text, uuid_to_text


def test_zero_as_kafka_prints_it() -> None:
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"


def test_text_is_url_safe_and_unpadded() -> None:
    assert uuid_to_text(b"\xfb\xef\xff" * 5 + b"\xff") == "--__--__--__--__--___w"


def test_text_and_bytes_are_two_forms_of_one_id() -> None:
    uuid = bytes(range(16))
    assert uuid_from_text(uuid_to_text(uuid)) == uuid


def test_the_first_hundred_are_reserved() -> None:
    assert is_reserved(ZERO_UUID)
    assert is_reserved(bytes(15) + b"\x63")
    assert not is_reserved(bytes(15) + b"\x64")
    assert not is_reserved(b"\x01" + bytes(15))


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "!" * 22, "A" * 21 + "B", "é" * 22])
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        uuid_from_text(text)
