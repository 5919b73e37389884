"""UUIDs: sixteen bytes, and their text form, which is URL-safe base64 in Kafka."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, TypeAlias

Uuid: TypeAlias = bytes
"""Sixteen bytes. It is an alias, so bytes are accepted wherever a uuid is expected."""

ZERO_UUID: Final[Uuid] = bytes(16)
"""Means "no id"; no entity has this id."""

ONE_UUID: Final[Uuid] = bytes(15) + b"\x01"
"""The id of the metadata topic."""

_TEXT_LENGTH: Final = 22
_PADDING: Final = "=="
_HEX_LENGTH: Final = 36
_HEX: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_URL_SAFE: Final = str.maketrans("+/", "-_")
_RESERVED: Final = frozenset((ZERO_UUID, ONE_UUID))


def uuid_to_text(uuid: bytes) -> str:
    """Format a uuid of 16 bytes as the 22 characters that Kafka's tools print."""
    return urlsafe_b64encode(uuid)[:_TEXT_LENGTH].decode("ascii")


def is_reserved(uuid: bytes) -> bool:
    """Whether Kafka reserves this uuid, as in Java's `Uuid.RESERVED`."""
    return uuid in _RESERVED


def uuid_from_text(text: str) -> bytes:
    """Parse the 22 characters of `uuid_to_text`; raises ValueError for any other text."""
    if len(text) != _TEXT_LENGTH or not text.isascii():
        raise ValueError(f"a uuid is written in {_TEXT_LENGTH} characters: {text!r}")
    uuid = urlsafe_b64decode(text + "==")
    if uuid_to_text(uuid) != text:
        raise ValueError(f"not base64 of a uuid: {text!r}")
    return uuid


def is_cluster_id(text: str) -> bool:
    """Whether Kafka accepts a text as the id of a cluster: 22 characters of URL-safe base64.

    The last character may have bits that belong to no byte, as in ids of clusters in examples of
    Kafka images.
    """
    return re.fullmatch(rf"[A-Za-z0-9_-]{{{_TEXT_LENGTH}}}", text, re.ASCII) is not None


def parse_uuid(text: str) -> bytes:
    """Parse a uuid in any of the forms that clients send; raises ValueError for other texts.

    These are base64, URL-safe or standard, with or without padding, and the 36 characters of
    RFC 9562.
    """
    if len(text) == _HEX_LENGTH and re.fullmatch(_HEX, text):
        return bytes.fromhex(text.replace("-", ""))
    url_safe = text.translate(_URL_SAFE)
    if url_safe != text and ("-" in text or "_" in text):
        raise ValueError(f"two alphabets of base64 in one text: {text!r}")
    has_padding = len(text) == _TEXT_LENGTH + len(_PADDING)
    return uuid_from_text(url_safe.removesuffix(_PADDING) if has_padding else url_safe)


def is_uuid_text(text: str) -> bool:
    """Whether `text` is a uuid in the format of `uuid_to_text`."""
    try:
        uuid_from_text(text)
    except ValueError:
        return False
    return True
