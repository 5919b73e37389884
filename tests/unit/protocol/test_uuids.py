"""Uuids in bytes and in text."""

import pytest

from kafkalite.protocol.uuids import (
    ONE_UUID,
    ZERO_UUID,
    is_cluster_id,
    is_reserved,
    parse_uuid,
    uuid_from_text,
    uuid_to_text,
)


def test_zero_uuid_has_kafkas_text_form() -> None:
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"


def test_text_is_url_safe_and_unpadded() -> None:
    assert uuid_to_text(b"\xfb\xef\xff" * 5 + b"\xff") == "--__--__--__--__--___w"


def test_text_and_bytes_are_two_forms_of_one_id() -> None:
    uuid = bytes(range(16))
    assert uuid_from_text(uuid_to_text(uuid)) == uuid


def test_zero_and_one_are_reserved() -> None:
    assert is_reserved(ZERO_UUID)
    assert is_reserved(ONE_UUID)
    assert not is_reserved(bytes(15) + b"\x02")
    assert not is_reserved(b"\x01" + bytes(15))


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "!" * 22, "A" * 21 + "B", "é" * 22])
def test_invalid_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        uuid_from_text(text)


UUID = b"\xfb\xef\xff" * 5 + b"\xff"


@pytest.mark.parametrize(
    "text",
    [
        "--__--__--__--__--___w",
        "--__--__--__--__--___w==",
        "++//++//++//++//++///w",
        "++//++//++//++//++///w==",
        "fbefffff-beff-ffbe-ffff-beffffbeffff",
        "FBEFFFFB-EFFF-FBEF-FFFB-EFFFFBEFFFFF",
    ],
)
def test_each_form_that_clients_send_is_read(text: str) -> None:
    expected = bytes.fromhex(text.replace("-", "")) if len(text) == 36 else UUID
    assert parse_uuid(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A" * 21,
        "A" * 23,
        "A" * 24,
        "A" * 21 + "B",
        "A" * 22 + "=",
        "A" * 22 + "===",
        "A" * 20 + "====",
        "=" * 22,
        "+-" + "A" * 20,
        "/_" + "A" * 20,
        " " + "A" * 22,
        "A" * 22 + "\n",
        "é" * 22,
        "é" * 36,
        "0" * 36,
        "0" * 32,
        "{fbefffff-beff-ffbe-ffff-beffffbeffff}",
        "fbefffffb-eff-ffbe-ffff-beffffbeffff",
        "fbefffff-beff-ffbe-ffff-beffffbefff\n",
        "gbefffff-beff-ffbe-ffff-beffffbeffff",
        "\N{ARABIC-INDIC DIGIT ZERO}befffff-beff-ffbe-ffff-beffffbeffff",
    ],
)
def test_other_texts_are_no_uuid(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_uuid(text)


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("4L6g3nShT-eMCtK--X86sw", True),
        ("MkU3OEVBNTcwNTJENDM2Qk", True),  # its last character has bits of no byte
        ("test-cluster", False),
        ("3q2+7wAAQIGBAgMEBQYHCA", False),
        ("4L6g3nShT-eMCtK--X86sw==", False),
    ],
)
def test_id_of_a_cluster_has_22_characters(text: str, is_valid: bool) -> None:  # noqa: FBT001
    assert is_cluster_id(text) is is_valid
