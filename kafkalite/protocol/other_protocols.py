"""The protocols other than Kafka's that a client seems to use, by its first bytes."""

from __future__ import annotations

from typing import Final

_TLS_HANDSHAKE: Final = b"\x16\x03"
_GUESS_BYTES: Final = 4


def other_protocol(content: bytes) -> str | None:
    """Return the protocol that begins with these bytes, of which four are read; None if unknown."""
    if content.startswith(_TLS_HANDSHAKE):
        return "TLS"
    return "HTTP" if content[:_GUESS_BYTES].rstrip().isalpha() else None
