"""Authenticator: states, refusals, sessions that end, and re-authentication."""

from __future__ import annotations

import pytest

from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.sasl.authenticator import (
    AuthenticationFailedError,
    AuthenticationRules,
    Authenticator,
    SaslState,
)
from kafkalite.security.sasl.mechanism import SaslAuthenticationError, SaslError

NOW_MS = 1_000_000


class EchoServer:
    """Accepts the user that a token names, after `more` tokens; refuses others."""

    refusal = ""

    def __init__(self, mechanism: str) -> None:
        self.mechanism = mechanism
        self.is_complete = False
        self.user = ""
        self.expires_at_ms: int | None = None
        self.is_token_authenticated = False

    def evaluate(self, token: bytes) -> bytes:
        text = token.decode()
        if text == "more":
            return b"challenge"
        if text == "generic":
            raise SaslError("a reason for the log")
        if text == "specific":
            raise SaslAuthenticationError("a reason for the client")
        self.is_token_authenticated = text.startswith("token of ")
        self.user, _, expiry = text.removeprefix("token of ").partition(" until ")
        self.expires_at_ms = int(expiry) if expiry else None
        self.is_complete = True
        return b"welcome"


def new_authenticator(max_session_ms: int = 0) -> Authenticator:
    rules = AuthenticationRules(("PLAIN", "OTHER"), EchoServer, {"PLAIN": max_session_ms})
    return Authenticator(rules)


def begin(authenticator: Authenticator, mechanism: str = "PLAIN") -> None:
    authenticator.admit(ApiKey.SASL_HANDSHAKE)
    authenticator.choose_mechanism(mechanism, has_bare_tokens=False)


def authenticate(authenticator: Authenticator, token: str, now_ms: int = NOW_MS) -> int:
    begin(authenticator)
    authenticator.admit(ApiKey.SASL_AUTHENTICATE)
    return authenticator.authenticate(token.encode(), now_ms).session_lifetime_ms


def test_a_client_may_ask_for_versions_before_the_handshake() -> None:
    authenticator = new_authenticator()
    authenticator.admit(ApiKey.API_VERSIONS)
    states = [authenticator.state]
    authenticator.admit(ApiKey.API_VERSIONS)
    authenticator.expect_handshake()
    states.append(authenticator.state)
    begin(authenticator)
    states.append(authenticator.state)
    assert states == [
        SaslState.HANDSHAKE_OR_VERSIONS_REQUEST,
        SaslState.HANDSHAKE_REQUEST,
        SaslState.AUTHENTICATE,
    ]
    authenticator.admit(ApiKey.SASL_AUTHENTICATE)
    assert authenticator.authenticate(b"more", NOW_MS) == (b"challenge", 0)
    assert authenticator.principal is None
    assert authenticator.authenticate(b"alice", NOW_MS) == (b"welcome", 0)
    assert authenticator.is_complete
    assert authenticator.principal == "User:alice"
    assert authenticator.failure is None
    assert authenticator.expires_at_ms is None


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.SASL_AUTHENTICATE, ApiKey.PRODUCE])
def test_other_requests_before_the_handshake_end_the_connection(key: ApiKey) -> None:
    for versions in range(3):
        authenticator = new_authenticator()
        if versions:
            authenticator.admit(ApiKey.API_VERSIONS)
        if versions > 1:
            authenticator.expect_handshake()
        message = f"Unexpected Kafka request of type {key.name} during SASL handshake"
        with pytest.raises(AuthenticationFailedError, match=message) as failure:
            authenticator.admit(key)
        assert failure.value.is_delayed
        assert authenticator.state is SaslState.FAILED
        assert authenticator.failure is failure.value


def test_versions_cannot_be_requested_twice() -> None:
    authenticator = new_authenticator()
    authenticator.admit(ApiKey.API_VERSIONS)
    authenticator.expect_handshake()
    with pytest.raises(AuthenticationFailedError) as failure:
        authenticator.admit(ApiKey.API_VERSIONS)
    assert not failure.value.is_delayed


def test_bytes_that_are_no_request_end_the_connection() -> None:
    authenticator = new_authenticator()
    with pytest.raises(AuthenticationFailedError, match="GSSAPI are not supported") as failure:
        authenticator.admit(None)
    assert failure.value.is_delayed
    for key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
        authenticator = new_authenticator()
        authenticator.admit(key)
        if key is ApiKey.SASL_HANDSHAKE:
            authenticator.choose_mechanism("PLAIN", has_bare_tokens=False)
        with pytest.raises(AuthenticationFailedError, match="without the header") as failure:
            authenticator.admit(None)
        assert not failure.value.is_delayed


def test_an_unknown_mechanism_is_refused() -> None:
    authenticator = new_authenticator()
    with pytest.raises(KafkaError) as refusal:
        begin(authenticator, "GSSAPI")
    assert refusal.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert authenticator.failure is not None
    assert authenticator.failure.reason == (
        "SASL authentication: Unsupported SASL mechanism GSSAPI"
    )
    assert authenticator.failure.is_delayed
    assert authenticator.mechanisms == ("PLAIN", "OTHER")


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE])
def test_other_requests_during_the_exchange_are_illegal(key: ApiKey) -> None:
    authenticator = new_authenticator()
    begin(authenticator)
    with pytest.raises(KafkaError) as refusal:
        authenticator.admit(key)
    assert refusal.value.code is ErrorCode.ILLEGAL_SASL_STATE
    assert refusal.value.message == (
        f"Unexpected Kafka request of type {key.name} during SASL authentication."
    )
    assert authenticator.state is SaslState.FAILED


@pytest.mark.parametrize(
    ("token", "message", "reason"),
    [
        (
            "generic",
            (
                "Authentication failed during authentication due to invalid credentials with SASL "
                "mechanism PLAIN"
            ),
            "a reason for the log",
        ),
        ("specific", "a reason for the client", "a reason for the client"),
    ],
)
def test_refused_credentials_are_answered_with_the_text_for_the_client(
    token: str, message: str, reason: str
) -> None:
    authenticator = new_authenticator()
    with pytest.raises(KafkaError) as refusal:
        authenticate(authenticator, token)
    assert refusal.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert refusal.value.message == message
    assert authenticator.failure is not None
    assert reason in authenticator.failure.reason
    assert authenticator.failure.is_delayed
    assert (authenticator.state, authenticator.principal) == (SaslState.FAILED, None)


def test_bare_tokens_have_no_answer_if_they_are_refused() -> None:
    for token, is_delayed in ((b"generic", False), (b"specific", True)):
        authenticator = new_authenticator()
        authenticator.admit(ApiKey.SASL_HANDSHAKE)
        authenticator.choose_mechanism("PLAIN", has_bare_tokens=True)
        assert authenticator.authenticate_bare(b"more", NOW_MS) == b"challenge"
        with pytest.raises(AuthenticationFailedError) as failure:
            authenticator.authenticate_bare(token, NOW_MS)
        assert failure.value.is_delayed is is_delayed
    authenticator = new_authenticator()
    authenticator.admit(ApiKey.SASL_HANDSHAKE)
    authenticator.choose_mechanism("PLAIN", has_bare_tokens=True)
    assert authenticator.authenticate_bare(b"alice", NOW_MS) == b"welcome"
    assert authenticator.principal == "User:alice"


@pytest.mark.parametrize(
    ("max_session_ms", "token", "lifetime_ms"),
    [
        (0, "alice", 0),
        (5000, "alice", 5000),
        (0, f"alice until {NOW_MS + 300}", 300),
        (5000, f"alice until {NOW_MS + 300}", 300),
        (200, f"alice until {NOW_MS + 300}", 200),
        (200, f"alice until {NOW_MS - 1}", 0),
        (0, f"alice until {1 << 80}", (1 << 63) - 1),
    ],
)
def test_a_session_lasts_until_the_earlier_limit(
    max_session_ms: int, token: str, lifetime_ms: int
) -> None:
    authenticator = new_authenticator(max_session_ms)
    assert authenticate(authenticator, token) == lifetime_ms
    has_end = max_session_ms > 0 or "until" in token
    ends_at_ms = NOW_MS + lifetime_ms if lifetime_ms else NOW_MS - 1
    assert authenticator.expires_at_ms == (ends_at_ms if has_end else None)


def test_a_session_ends_after_its_last_millisecond() -> None:
    authenticator = new_authenticator(5000)
    authenticate(authenticator, "alice")
    authenticator.check_session(NOW_MS + 5000)
    with pytest.raises(AuthenticationFailedError, match="the session has expired") as failure:
        authenticator.check_session(NOW_MS + 5001)
    assert not failure.value.is_delayed
    endless = new_authenticator()
    authenticate(endless, "alice")
    endless.check_session(1 << 60)


def test_a_client_authenticates_again() -> None:
    authenticator = new_authenticator(5000)
    authenticate(authenticator, "alice")
    assert authenticator.begin_again(NOW_MS + 4000)
    assert authenticate(authenticator, "alice", NOW_MS + 4100) == 5000
    assert authenticator.expires_at_ms == NOW_MS + 9100
    assert authenticator.state is SaslState.COMPLETE
    assert not authenticator.begin_again(NOW_MS + 4999)
    assert authenticator.begin_again(NOW_MS + 5000)


def test_a_session_without_an_end_has_no_second_authentication() -> None:
    authenticator = new_authenticator()
    authenticate(authenticator, "alice")
    assert not authenticator.begin_again(NOW_MS + 4000)


def test_the_user_cannot_change() -> None:
    authenticator = new_authenticator(5000)
    authenticate(authenticator, "alice")
    authenticator.begin_again(NOW_MS)
    with pytest.raises(KafkaError) as refusal:
        authenticate(authenticator, "bob")
    assert refusal.value.message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert authenticator.state is SaslState.FAILED


def test_the_mechanism_cannot_change() -> None:
    authenticator = new_authenticator(5000)
    authenticate(authenticator, "alice")
    authenticator.begin_again(NOW_MS)
    begin(authenticator, "OTHER")
    assert (authenticator.state, authenticator.failure) == (SaslState.BAD_MECHANISM, None)
    with pytest.raises(AuthenticationFailedError, match="re-authentication") as failure:
        authenticator.admit(ApiKey.SASL_AUTHENTICATE)
    assert failure.value.is_delayed


def test_a_failed_re_authentication_names_it() -> None:
    authenticator = new_authenticator(5000)
    authenticate(authenticator, "alice")
    authenticator.begin_again(NOW_MS)
    with pytest.raises(KafkaError) as refusal:
        authenticate(authenticator, "generic")
    assert refusal.value.message is not None
    assert "failed during re-authentication" in refusal.value.message


def test_a_frame_of_an_invalid_length_ends_the_connection_later() -> None:
    failure = new_authenticator().length_error("too long")
    assert failure.is_delayed
    assert failure.reason == "SASL authentication: too long"


def test_a_token_without_a_mechanism_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        new_authenticator().authenticate(b"alice", NOW_MS)


def test_a_client_is_authenticated_by_a_token_until_it_uses_a_password() -> None:
    authenticator = new_authenticator(max_session_ms=60_000)
    assert authenticate(authenticator, f"token of alice until {NOW_MS + 9}") == 9
    assert (authenticator.principal, authenticator.is_token_authenticated) == ("User:alice", True)
    assert authenticator.begin_again(NOW_MS)
    authenticate(authenticator, "alice")
    assert not authenticator.is_token_authenticated


@pytest.mark.parametrize("max_session_ms", [0, 200])
def test_the_session_of_an_expired_token_allows_no_request(max_session_ms: int) -> None:
    authenticator = new_authenticator(max_session_ms)
    assert authenticate(authenticator, f"token of alice until {NOW_MS - 9}") == 0
    with pytest.raises(AuthenticationFailedError, match="the session has expired"):
        authenticator.check_session(NOW_MS)
