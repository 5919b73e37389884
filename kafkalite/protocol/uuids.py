"""Uuids as Kafka shows them: sixteen bytes, or url-safe base64 without padding."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

ZERO_UUID: Final = bytes(16)
"""Stands for "no id"; never the id of anything."""

ONE_UUID: Final = bytes(15) + b"\x01"
"""Reserved by Kafka, as are all up to 99: never the id of a topic."""

_TEXT_LENGTH: Final = 22
_RESERVED: Final = 100
"""So many lowest numbers name nothing of a client's, nor a topic."""


def uuid_to_text(uuid: bytes) -> str:
    """Write a uuid of 16 bytes in the 22 characters Kafka's tools print."""
    return urlsafe_b64encode(uuid)[:_TEXT_LENGTH].decode("ascii")


def is_reserved(uuid: bytes) -> bool:
    """Whether Kafka keeps this uuid for itself: none, the metadata topic, and up to the 99th."""
    return int.from_bytes(uuid, "big") < _RESERVED


def uuid_from_text(text: str) -> bytes:
    """Read the 22 characters of `uuid_to_text`; raises ValueError on any other text."""
    if len(text) != _TEXT_LENGTH or not text.isascii():
        raise ValueError(f"a uuid is written in {_TEXT_LENGTH} characters: {text!r}")
    uuid = urlsafe_b64decode(text + "==")
    if uuid_to_text(uuid) != text:
        raise ValueError(f"not base64 of a uuid: {text!r}")
    return uuid
