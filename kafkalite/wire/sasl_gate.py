"""SaslGate: serves the requests of one connection until its client has authenticated.

It takes the place of `SessionSettings.serve` on listeners with SASL. After the authentication the
session serves without it. If the session can expire (KIP-368), the gate stays and checks the expiry
before each request.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.api_names import known_api_name
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.security.sasl.authenticator import AuthenticationFailedError, SaslState
from kafkalite.wire.headers import HEADER_BYTES, unpack_header
from kafkalite.wire.session import Deferred, PendingAnswer, invalid_length_reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.clock import Clock
    from kafkalite.security.sasl.authenticator import Authenticator
    from kafkalite.wire.session import Pieces, Serve, ServeResult, Session, SessionSettings

_MAX_RECEIVE_KEY = "sasl.server.max.receive.size"

_pack_length = Struct(">i").pack

_VERSIONS_ERROR_START, _VERSIONS_ERROR_END = 8, 10
"""The position of the error code in an ApiVersions response, in all versions."""


class SaslGateSettings(NamedTuple):
    """The settings of one listener.

    `serve_authentication` serves SaslHandshake and SaslAuthenticate. `refuse` answers a request
    with an error. `accept` is called with the context and the principal of a client that has
    authenticated.
    """

    max_receive_bytes: int
    failure_delay_ms: Callable[[], int]
    clock: Clock
    serve_authentication: Serve
    refuse: Callable[[Any, bytearray, int, int, Pieces, KafkaError], int]
    accept: Callable[[Any, str], None]


class SaslGate:
    """The authentication of one connection, in front of the settings that serve its requests."""

    __slots__ = ("_authenticator", "_following", "_session", "_settings")

    def __init__(
        self, settings: SaslGateSettings, authenticator: Authenticator, following: SessionSettings
    ) -> None:
        """`following` serves the requests after the authentication."""
        self._settings = settings
        self._authenticator = authenticator
        self._following = following
        self._session: Session

    def attach(self, session: Session) -> None:
        """Serve the requests of this session from now on."""
        self._session = session
        session.replace_settings(self._gated_settings())

    def _gated_settings(self) -> SessionSettings:
        return self._following._replace(
            serve=partial(self._serve, self._following.serve),
            serve_in_worker=partial(self._serve, self._following.serve_in_worker),
            max_request_bytes=self._settings.max_receive_bytes,
            reject_length=self._reject_length,
        )

    def _serve(  # noqa: PLR0917 - the parameters of Serve, and the function that it replaces
        self,
        following: Serve,
        context: Any,  # noqa: ANN401 - the session's context
        buffer: bytearray,
        start: int,
        end: int,
        out: Pieces,
    ) -> ServeResult:
        """Serve one frame; see `SessionSettings.serve`."""
        authenticator, first_piece = self._authenticator, len(out)
        if authenticator.has_bare_tokens:
            return self._serve_token(context, bytes(buffer[start:end]), out)
        api_key = _api_key(buffer, start, end)
        try:
            authenticator.admit(api_key)
            if api_key == ApiKey.API_VERSIONS:
                answer = following(context, buffer, start, end, out)
            else:
                answer = self._settings.serve_authentication(context, buffer, start, end, out)
        except KafkaError as error:
            self._settings.refuse(context, buffer, start, end, out, error)
            answer = 0
        except AuthenticationFailedError as failure:
            return self._close(failure, [])
        return self._continue(context, answer, out, first_piece)

    def _continue(
        self,
        context: Any,  # noqa: ANN401 - the session's context
        answer: ServeResult,
        out: Pieces,
        first_piece: int,
    ) -> ServeResult:
        """Change the state according to the answer of a request, now or when it arrives."""
        if isinstance(answer, Deferred):
            raise TypeError("a request of an authentication is not batched")
        if not isinstance(answer, int):
            encode = answer.encode

            def encode_and_continue(value: object, later_out: Pieces) -> int:
                first_later_piece = len(later_out)
                size = encode(value, later_out)
                later_pieces = later_out[first_later_piece:]
                self._finish(context, later_pieces)
                failure = self._authenticator.failure
                if failure is None:
                    return size
                del later_out[first_later_piece:]
                self._session.postpone(self._close(failure, later_pieces))
                return 0

            answer.encode = encode_and_continue
            return answer
        pieces = out[first_piece:]
        state = self._finish(context, pieces)
        if state is SaslState.FAILED or state is SaslState.COMPLETE:
            del out[first_piece:]
        failure = self._authenticator.failure
        if failure is not None:
            return self._close(failure, pieces)
        return _answer_now(pieces) if state is SaslState.COMPLETE else answer

    def _finish(
        self,
        context: Any,  # noqa: ANN401 - the session's context
        pieces: Pieces,
    ) -> SaslState:
        """Return the state after an answer; let the session continue if it has authenticated."""
        authenticator = self._authenticator
        if authenticator.state is SaslState.HANDSHAKE_OR_VERSIONS_REQUEST:
            error_code = b"".join(pieces)[_VERSIONS_ERROR_START:_VERSIONS_ERROR_END]
            if error_code == bytes(2):
                authenticator.expect_handshake()
        elif authenticator.state is SaslState.COMPLETE:
            self._pass(context)
        return authenticator.state

    def _serve_token(
        self,
        context: Any,  # noqa: ANN401 - the session's context
        token: bytes,
        out: Pieces,
    ) -> ServeResult:
        """Serve a frame that contains a token only."""
        authenticator = self._authenticator
        try:
            answer = authenticator.authenticate_bare(token, self._settings.clock.now_ms())
        except AuthenticationFailedError as failure:
            return self._close(failure, [])
        frame = _pack_length(len(answer)) + answer
        if authenticator.state is SaslState.COMPLETE:
            authenticator.has_bare_tokens = False
            self._pass(context)
            return _answer_now([frame])
        out.append(frame)
        return len(frame)

    def _pass(self, context: Any) -> None:  # noqa: ANN401 - the session's context
        """Serve the next requests, because the client has authenticated."""
        authenticator, following = self._authenticator, self._following
        if authenticator.principal is not None:
            self._settings.accept(context, authenticator.principal)
        if authenticator.expires_at_ms is not None:
            following = following._replace(
                serve=partial(self._serve_until_expiry, following.serve),
                serve_in_worker=partial(self._serve_until_expiry, following.serve_in_worker),
            )
        self._session.replace_settings(following)

    def _serve_until_expiry(  # noqa: PLR0917 - as `_serve`
        self,
        following: Serve,
        context: Any,  # noqa: ANN401 - the session's context
        buffer: bytearray,
        start: int,
        end: int,
        out: Pieces,
    ) -> ServeResult:
        """Serve a request of a session that ends, or let the client authenticate again."""
        authenticator = self._authenticator
        if authenticator.state is not SaslState.COMPLETE:
            # Frames that arrived together with the handshake.
            return self._serve(following, context, buffer, start, end, out)
        now_ms = self._settings.clock.now_ms()
        is_handshake = _api_key(buffer, start, end) == ApiKey.SASL_HANDSHAKE
        if is_handshake and authenticator.begin_again(now_ms):
            self._session.replace_settings(self._gated_settings())
            return self._serve(following, context, buffer, start, end, out)
        try:
            authenticator.check_session(now_ms)
        except AuthenticationFailedError as failure:
            raise ProtocolViolation(failure.reason) from None
        return following(context, buffer, start, end, out)

    def _reject_length(self, context: object, length: int, maximum: int) -> PendingAnswer:
        """Close the connection because of the length of a frame; see `SessionSettings`."""
        del context
        reason = invalid_length_reason(length, maximum, _MAX_RECEIVE_KEY)
        return self._close(self._authenticator.length_error(reason), [])

    def _close(self, failure: AuthenticationFailedError, pieces: Pieces) -> PendingAnswer:
        """Send an answer and close the connection, after the delay for clients that fail."""
        settings = self._settings
        delay_ms = settings.failure_delay_ms() if failure.is_delayed else 0
        reason = failure.reason

        def encode(value: object, out: Pieces) -> int:
            del value
            out.extend(pieces)
            raise ProtocolViolation(reason)

        if not delay_ms:
            return PendingAnswer(_resolved(), encode)

        def cancel() -> None:
            timer.cancel()

        waiting: Waiting[None] = Waiting(on_abandon=cancel)
        timer = settings.clock.call_at(
            settings.clock.now_ms() + delay_ms, partial(waiting.resolve, None)
        )
        return PendingAnswer(waiting, encode)


def _resolved() -> Waiting[None]:
    waiting: Waiting[None] = Waiting()
    waiting.resolve(None)
    return waiting


def _answer_now(pieces: Pieces) -> PendingAnswer:
    """Return an answer after which the session serves with its new settings."""

    def encode(value: object, out: Pieces) -> int:
        del value
        out.extend(pieces)
        return sum(map(len, pieces))

    return PendingAnswer(_resolved(), encode)


def _api_key(buffer: bytearray, start: int, end: int) -> int | None:
    """Return the API key of a frame; None if the frame does not begin as a request."""
    if end - start < HEADER_BYTES:
        return None
    key_and_version, _, client_id_length = unpack_header(buffer, start)
    api_key: int = key_and_version >> 16
    is_known = known_api_name(api_key) is not None
    return api_key if is_known and start + HEADER_BYTES + client_id_length <= end else None
