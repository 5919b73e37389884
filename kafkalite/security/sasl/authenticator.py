"""Authenticator: which requests of a connection are accepted before and after it authenticates.

It has the states of Kafka's SaslServerAuthenticator. It knows neither bytes of requests nor
sockets: the gate of a connection asks it about each request, and the handlers of SaslHandshake and
SaslAuthenticate pass it their requests.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.sasl.mechanism import SaslAuthenticationError, SaslError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.ports.waiting import Waiting
    from kafkalite.security.sasl.mechanism import SaslServer

MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1000
"""A handshake earlier than this after the last one does not begin a re-authentication."""

MAX_TIME_MS: Final = (1 << 63) - 1
"""The latest time, and the longest session, that a response can have."""


class SaslState(Enum):
    """The states of a connection; FAILED is the last one."""

    INITIAL_REQUEST = 1
    HANDSHAKE_OR_VERSIONS_REQUEST = 2
    HANDSHAKE_REQUEST = 3
    AUTHENTICATE = 4
    BAD_MECHANISM = 5
    """The mechanism of a re-authentication differs; the next request ends the connection."""
    COMPLETE = 6
    FAILED = 7


def _is_ready(_: str) -> None:
    """Let clients use a mechanism at once."""


class AuthenticationRules(NamedTuple):
    """The settings of one listener.

    `new_server` returns the server's side of a mechanism. `max_session_ms` is the maximum time
    until a client of a mechanism must authenticate again; it may be 0, which is no limit. `prepare`
    returns a Waiting if a mechanism cannot be used yet.
    """

    mechanisms: Sequence[str]
    new_server: Callable[[str], SaslServer]
    max_session_ms: Mapping[str, int]
    prepare: Callable[[str], Waiting[None] | None] = _is_ready


class AuthenticationFailedError(Exception):
    """The connection must be closed; the text is the reason for the log.

    Clients that fail to authenticate are delayed by the broker's configuration. Clients that do
    not use the protocol are not.
    """

    def __init__(self, reason: str, *, is_delayed: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_delayed = is_delayed


class Authentication(NamedTuple):
    """The result of a token: the answer to it, and the time for which the session is valid."""

    token: bytes
    session_lifetime_ms: int


class Authenticator:
    """The authentication of one connection."""

    __slots__ = (
        "_mechanism",
        "_reauthenticated_at_ms",
        "_rules",
        "_server",
        "expires_at_ms",
        "failure",
        "has_bare_tokens",
        "is_token_authenticated",
        "principal",
        "state",
    )  # fmt: skip

    def __init__(self, rules: AuthenticationRules) -> None:
        self._rules = rules
        self._mechanism = ""
        self._server: SaslServer | None = None
        self._reauthenticated_at_ms: int | None = None
        self.state = SaslState.INITIAL_REQUEST
        self.principal: str | None = None
        """The user, such as "User:alice"; None before the first authentication is complete."""
        self.expires_at_ms: int | None = None
        """The time at which the session ends; None if it does not end."""
        self.is_token_authenticated = False
        """Whether the client authenticated by a delegation token."""
        self.has_bare_tokens = False
        """Whether the next frame is a token without a header (SaslHandshake v0)."""
        self.failure: AuthenticationFailedError | None = None
        """The reason to close the connection, after its last answer."""

    def admit(self, api_key: int | None) -> None:
        """Check whether a request is acceptable before the authentication is complete.

        None is a frame without the header of a request. Raises AuthenticationFailedError, or
        KafkaError ILLEGAL_SASL_STATE if the request can be answered before the connection closes.
        """
        state = self.state
        if state is SaslState.AUTHENTICATE:
            self._admit_during_authentication(api_key)
        elif state is SaslState.BAD_MECHANISM:
            raise self._fail(
                "the SASL mechanism of a re-authentication differs from that of the connection"
            )
        elif api_key is None and state is SaslState.INITIAL_REQUEST:
            raise self._fail(
                "the first bytes are no request: tokens of GSSAPI are not supported, and TLS is "
                "not expected on this listener"
            )
        elif api_key is None:
            raise self._fail("a frame without the header of a request", is_delayed=False)
        elif api_key == ApiKey.API_VERSIONS:
            if state is SaslState.HANDSHAKE_REQUEST:
                raise self._fail("ApiVersions was requested twice", is_delayed=False)
            self.state = SaslState.HANDSHAKE_OR_VERSIONS_REQUEST
        elif api_key == ApiKey.SASL_HANDSHAKE:
            if state is SaslState.INITIAL_REQUEST:
                self.state = SaslState.HANDSHAKE_OR_VERSIONS_REQUEST
        else:
            raise self._fail(_unexpected(api_key, "handshake"))

    def _admit_during_authentication(self, api_key: int | None) -> None:
        if api_key is None:
            raise self._fail("a frame without the header of a request", is_delayed=False)
        if api_key != ApiKey.SASL_AUTHENTICATE:
            reason = _unexpected(api_key, "authentication")
            self._fail(reason)
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, reason)

    def expect_handshake(self) -> None:
        """Expect SaslHandshake: an ApiVersions request was answered without an error."""
        if self.state is SaslState.HANDSHAKE_OR_VERSIONS_REQUEST:
            self.state = SaslState.HANDSHAKE_REQUEST

    @property
    def is_complete(self) -> bool:
        """Whether the client has authenticated, and does not authenticate again."""
        return self.state is SaslState.COMPLETE

    @property
    def unacknowledged_refusal(self) -> str:
        """The reason of an error that the client has yet to acknowledge; empty without one."""
        if self._server is None or not self._server.refusal:
            return ""
        return f"{self._mechanism}: {self._server.refusal}"

    @property
    def mechanisms(self) -> Sequence[str]:
        """The mechanisms that clients can use."""
        return self._rules.mechanisms

    def choose_mechanism(self, mechanism: str, *, has_bare_tokens: bool) -> Waiting[None] | None:
        """Begin an exchange; raises KafkaError UNSUPPORTED_SASL_MECHANISM.

        Returns a Waiting if the exchange must wait.
        """
        if mechanism not in self._rules.mechanisms:
            self._fail(f"Unsupported SASL mechanism {mechanism}")
            raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        if self._mechanism and mechanism != self._mechanism:
            self.state = SaslState.BAD_MECHANISM
            return None
        self._mechanism = mechanism
        self._server = self._rules.new_server(mechanism)
        self.has_bare_tokens = has_bare_tokens
        self.state = SaslState.AUTHENTICATE
        return self._rules.prepare(mechanism)

    def authenticate(self, token: bytes, now_ms: int) -> Authentication:
        """Evaluate the client's next token.

        Raises KafkaError SASL_AUTHENTICATION_FAILED, with the text for the client.
        """
        server = self._require_server()
        try:
            answer = server.evaluate(token)
            if server.is_complete:
                return Authentication(answer, self._complete(server, now_ms))
            return Authentication(answer, 0)
        except SaslAuthenticationError as error:
            message = str(error)
            self._fail(f"{self._mechanism}: {error.detail}")
        except SaslError as error:
            message = (
                f"Authentication failed during {self._activity} due to invalid credentials with "
                f"SASL mechanism {self._mechanism}"
            )
            self._fail(f"{message}: {error}")
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, message)

    def authenticate_bare(self, token: bytes, now_ms: int) -> bytes:
        """Evaluate a token without a header; raises AuthenticationFailedError.

        Such clients get no error: their connection is closed.
        """
        server = self._require_server()
        try:
            answer = server.evaluate(token)
            if server.is_complete:
                self._complete(server, now_ms)
        except SaslError as error:
            raise self._fail(
                f"{self._mechanism}: {error}", is_delayed=isinstance(error, SaslAuthenticationError)
            ) from None
        return answer

    def begin_again(self, now_ms: int) -> bool:
        """Begin to re-authenticate with a SaslHandshake request (KIP-368).

        Returns whether that is possible now. Otherwise the request is illegal.
        """
        previous_ms = self._reauthenticated_at_ms
        if self.expires_at_ms is None or (
            previous_ms is not None and now_ms - previous_ms < MIN_REAUTHENTICATION_INTERVAL_MS
        ):
            return False
        self._reauthenticated_at_ms = now_ms
        self.state = SaslState.HANDSHAKE_REQUEST
        return True

    def check_session(self, now_ms: int) -> None:
        """Raise AuthenticationFailedError if the session has expired."""
        if self.expires_at_ms is not None and now_ms > self.expires_at_ms:
            raise self._fail(
                "the session has expired, and the client did not authenticate again",
                is_delayed=False,
            )

    @property
    def _activity(self) -> str:
        return "authentication" if self.principal is None else "re-authentication"

    def _require_server(self) -> SaslServer:
        if self._server is None:
            raise AssertionError("a token before a mechanism was chosen")
        return self._server

    def _complete(self, server: SaslServer, now_ms: int) -> int:
        """Accept the user, and return the lifetime of the session; 0 if it does not end."""
        principal = f"User:{server.user}"
        if self.principal not in {None, principal}:
            raise SaslAuthenticationError(
                "Cannot change principals during re-authentication from "
                f"{str(self.principal).replace(':', '.', 1)}: {principal.replace(':', '.', 1)}"
            )
        limits = []
        if server.expires_at_ms is not None:
            limits.append(server.expires_at_ms - now_ms)
        max_session_ms = self._rules.max_session_ms.get(self._mechanism, 0)
        if max_session_ms > 0:
            limits.append(max_session_ms)
        lifetime_ms = min(max(0, min(limits)), MAX_TIME_MS) if limits else 0
        if limits:
            # Without time left, the session ends before the next request of the same millisecond.
            self.expires_at_ms = now_ms + lifetime_ms if lifetime_ms else now_ms - 1
        else:
            self.expires_at_ms = None
        self.principal = principal
        self.is_token_authenticated = server.is_token_authenticated
        self.state = SaslState.COMPLETE
        self._server = None
        return lifetime_ms

    def _fail(self, reason: str, *, is_delayed: bool = True) -> AuthenticationFailedError:
        """Set the last state and return its error, which the caller may raise."""
        activity = "SASL " + self._activity
        if refusal := self.unacknowledged_refusal:
            # The client sent another request in place of its last message.
            reason = f"{reason} Before: {refusal}"
        self.state = SaslState.FAILED
        self._server = None
        self.failure = AuthenticationFailedError(f"{activity}: {reason}", is_delayed=is_delayed)
        return self.failure

    def length_error(self, reason: str) -> AuthenticationFailedError:
        """Return the error for a frame of an invalid length."""
        return self._fail(reason)


def _unexpected(api_key: int, phase: str) -> str:
    try:
        name = ApiKey(api_key).name
    except ValueError:
        name = str(api_key)
    return f"Unexpected Kafka request of type {name} during SASL {phase}."
