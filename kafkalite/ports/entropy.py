"""Chance comes in by this door, so that tests can hand in dice whose throws they know."""

from __future__ import annotations

import secrets
import uuid
from typing import Protocol

_DASH = 0b111110  # the six bits that URL-safe base64 writes as "-"
_RESERVED_UUIDS = frozenset((bytes(16), (1).to_bytes(16, "big")))


class Entropy(Protocol):
    """The dice of a broker."""

    def uuid(self) -> bytes:
        """Return 16 random bytes fit for a topic, member or cluster id.

        As Kafka's Uuid.randomUuid: a version-4 UUID, never a reserved one, and never one whose
        URL-safe base64 text begins with a dash, which command lines take for an option.
        """

    def uuid4_text(self) -> str:
        """Return a random UUID as 36 characters of hex and dashes."""

    def integer(self, bound: int) -> int:
        """Return a random integer in [0, bound)."""


def is_usable_uuid(raw: bytes) -> bool:
    """Whether Kafka would hand out these 16 bytes as an id."""
    return raw not in _RESERVED_UUIDS and raw[0] >> 2 != _DASH


class SystemEntropy:
    """The machine's own randomness."""

    __slots__ = ()

    def uuid(self) -> bytes:
        """Return 16 random bytes fit for an id."""
        while True:
            raw = uuid.uuid4().bytes
            if is_usable_uuid(raw):
                return raw

    def uuid4_text(self) -> str:
        """Return a random UUID as 36 characters of hex and dashes."""
        return str(uuid.uuid4())

    def integer(self, bound: int) -> int:
        """Return a random integer in [0, bound)."""
        return secrets.randbelow(bound)
