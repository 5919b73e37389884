"""Guesses of the protocol that a client uses."""

from __future__ import annotations

import pytest

from kafkalite.protocol.other_protocols import other_protocol


@pytest.mark.parametrize(
    ("content", "protocol"),
    [
        (b"\x16\x03\x01\x02", "TLS"),
        (b"\x16\x03", "TLS"),
        (b"GET / HTTP/1.1", "HTTP"),
        (b"POST", "HTTP"),
        (b"\0\0\0\x01", None),
        (b"12 4", None),
        (b"", None),
    ],
)
def test_a_protocol_is_guessed_by_its_first_bytes(content: bytes, protocol: str | None) -> None:
    assert other_protocol(content) == protocol
