"""SASL OAUTHBEARER: accepted tokens, errors for the client, and invalid messages."""

from __future__ import annotations

import pytest

from kafkalite.security.sasl.mechanism import SaslAuthenticationError, SaslError
from kafkalite.security.sasl.oauthbearer import BearerToken, InvalidTokenError, OAuthBearerServer


def validate(text: str) -> BearerToken:
    if text == "good":
        return BearerToken("alice", 5000)
    if text == "narrow":
        raise InvalidTokenError("too little", status="insufficient_scope", scope="[a, b]")
    raise InvalidTokenError("no good")


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer good\x01\x01",
        b"n,a=alice,\x01auth=bearer   good\x01\x01",
        b"n,,\x01key=value\x01auth=BEARER good\x01other=1 2\x01\x01",
    ],
)
def test_a_valid_token_is_accepted(message: bytes) -> None:
    server = OAuthBearerServer(validate)
    assert server.evaluate(message) == b""
    assert (server.is_complete, server.user, server.expires_at_ms) == (True, "alice", 5000)


@pytest.mark.parametrize(
    ("token", "error"),
    [
        (b"bad", b'{"status":"invalid_token"}'),
        (b"narrow", b'{"status":"insufficient_scope", "scope":"[a, b]"}'),
    ],
)
def test_an_invalid_token_is_refused_after_the_client_has_seen_the_error(
    token: bytes, error: bytes
) -> None:
    server = OAuthBearerServer(validate)
    assert server.evaluate(b"n,,\x01auth=Bearer " + token + b"\x01\x01") == error
    assert not server.is_complete
    with pytest.raises(SaslAuthenticationError) as refusal:
        server.evaluate(b"\x01")
    assert str(refusal.value).encode() == error
    assert refusal.value.detail == ("no good" if token == b"bad" else "too little")
    assert (server.is_complete, server.user) == (False, "")


def test_an_authorization_id_must_be_the_principal() -> None:
    server = OAuthBearerServer(validate)
    with pytest.raises(SaslAuthenticationError) as refusal:
        server.evaluate(b"n,a=bob,\x01auth=Bearer good\x01\x01")
    assert str(refusal.value) == (
        "Authentication failed: Client requested an authorization id (bob) that is different from "
        "the token's principal name (alice)"
    )
    assert not server.is_complete


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"n,,auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01auth=good\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer go od\x01\x01",
        b"n,,\x01user=Bearer good\x01\x01",
        b"n,,\x01k1=v\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\xff\x01\x01",
    ],
)
def test_an_invalid_message_is_refused(message: bytes) -> None:
    server = OAuthBearerServer(validate)
    with pytest.raises(SaslError) as refusal:
        server.evaluate(message)
    assert not isinstance(refusal.value, SaslAuthenticationError)
    assert not server.is_complete
