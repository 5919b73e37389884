"""Random ids and integers: their format and range."""

from __future__ import annotations

from uuid import RFC_4122, UUID

from kafkalite.ports.entropy import SystemEntropy, is_usable_uuid

DRAWS = 1000


def test_ids_are_version_4_uuids_that_kafka_would_generate() -> None:
    drawn = {SystemEntropy().uuid() for _ in range(DRAWS)}
    assert len(drawn) == DRAWS
    for raw in drawn:
        assert is_usable_uuid(raw)
        assert (UUID(bytes=raw).version, UUID(bytes=raw).variant) == (4, RFC_4122)


def test_uuids_have_javas_text_form() -> None:
    text = SystemEntropy().uuid4_text()
    assert str(UUID(text)) == text
    assert UUID(text).version == 4


def test_reserved_ids_and_those_that_begin_with_a_dash_are_not_usable() -> None:
    assert not is_usable_uuid(bytes(16))
    assert not is_usable_uuid(bytes(15) + b"\x01")
    assert not is_usable_uuid(bytes([0b11111000]) + bytes(15))
    assert is_usable_uuid(bytes([0b11110100]) + bytes(15))


def test_integers_stay_below_their_bound() -> None:
    drawn = {SystemEntropy().integer(3) for _ in range(DRAWS)}
    assert drawn == {0, 1, 2}
