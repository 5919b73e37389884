"""Entropy: random numbers and UUIDs, which tests can replace."""

from __future__ import annotations

import os
from typing import Protocol

_DASH_BITS = 0b111110  # the six bits that URL-safe base64 writes as "-"
_RESERVED_UUIDS = frozenset((bytes(16), (1).to_bytes(16, "big")))


class Entropy(Protocol):
    """Source of random numbers and UUIDs."""

    def uuid(self) -> bytes:
        """Return 16 random bytes that can be a topic, member or cluster id.

        As Kafka's Uuid.randomUuid: a version-4 UUID, never a reserved one, and never one whose
        URL-safe base64 text begins with a dash, because command-line tools would parse an option.
        """

    def uuid4_text(self) -> str:
        """Return a random UUID as 36 characters of hex and dashes."""

    def integer(self, bound: int) -> int:
        """Return a random integer in [0, bound)."""


def is_usable_uuid(raw: bytes) -> bool:
    """Whether Kafka would generate these 16 bytes as an id."""
    return raw not in _RESERVED_UUIDS and raw[0] >> 2 != _DASH_BITS


class SystemEntropy:
    """The machine's own randomness."""

    __slots__ = ()

    def uuid(self) -> bytes:
        """Return 16 random bytes that can be an id."""
        while True:
            raw = _uuid4()
            if is_usable_uuid(raw):
                return raw

    def uuid4_text(self) -> str:
        """Return a random UUID as 36 characters of hex and dashes."""
        text = _uuid4().hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def integer(self, bound: int) -> int:
        """Return a random integer in [0, bound)."""
        # With 128 random bits, the bias of the remainder is too small to measure.
        return int.from_bytes(os.urandom(16), "big") % bound


def _uuid4() -> bytes:
    """Return a random UUID: version 4 in its seventh byte, RFC 9562's variant in its ninth."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)
