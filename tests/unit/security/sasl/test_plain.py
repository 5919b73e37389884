"""SASL PLAIN: accepted and refused passwords, and Kafka's messages."""

from __future__ import annotations

import pytest

from kafkalite.security.sasl.mechanism import SaslAuthenticationError
from kafkalite.security.sasl.plain import PlainServer

PASSWORDS = {"alice": "secret", "björn": "pässword"}


@pytest.mark.parametrize(
    ("token", "user"),
    [
        ("\0alice\0secret", "alice"),
        ("alice\0alice\0secret", "alice"),
        ("\0björn\0pässword", "björn"),
    ],
)
def test_the_right_password_is_accepted(token: str, user: str) -> None:
    server = PlainServer(PASSWORDS)
    assert (server.is_complete, server.user) == (False, "")
    assert server.evaluate(token.encode()) == b""
    assert (server.is_complete, server.user, server.expires_at_ms) == (True, user, None)


_INVALID = "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", _INVALID),
        (b"\0alice\0secret ", _INVALID),
        (b"\0alice\0secre", _INVALID),
        (b"\0bob\0secret", _INVALID),
        (b"\0bob\0 ", _INVALID),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0secret",
            (
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            ),
        ),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0\0\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0alice\0\xff\xfe", _INVALID),
    ],
)
def test_other_tokens_are_refused_with_the_message_of_kafka(token: bytes, message: str) -> None:
    server = PlainServer(PASSWORDS)
    with pytest.raises(SaslAuthenticationError) as refusal:
        server.evaluate(token)
    assert str(refusal.value) == message
    assert refusal.value.detail.startswith(message)
    assert (server.is_complete, server.user) == (False, "")


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (b"\0alice\0wrong", "wrong password of user 'alice'"),
        (b"\0bob\0secret", "the user does not exist, or has no password for PLAIN"),
    ],
)
def test_the_log_gets_the_user_and_the_reason(token: bytes, reason: str) -> None:
    with pytest.raises(SaslAuthenticationError) as refusal:
        PlainServer(PASSWORDS).evaluate(token)
    assert refusal.value.detail == f"{_INVALID}: {reason}"
