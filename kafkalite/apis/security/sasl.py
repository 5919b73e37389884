"""SaslHandshake and SaslAuthenticate: how a client authenticates.

The gate of a connection passes these requests while the client authenticates. Afterwards, and on
listeners without SASL, they are illegal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.gateway.api import Api, Eras
from kafkalite.gateway.error_messages import printable
from kafkalite.protocol._generated.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kafkalite.protocol._generated.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call
    from kafkalite.ports.waiting import Waiting
    from kafkalite.security.sasl.authenticator import Authenticator


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeEra:
    """Traits of a range of SaslHandshake versions."""

    has_bare_tokens: bool
    """The tokens follow in frames without headers, not in SaslAuthenticate requests (KIP-152)."""


ERAS = Eras(
    (0, SaslHandshakeEra(has_bare_tokens=True)),
    (1, SaslHandshakeEra(has_bare_tokens=False)),
)


def _authenticator_of(call: Call, message: str | None = None) -> Authenticator:
    """Return the authenticator of a connection that authenticates.

    Raises KafkaError ILLEGAL_SASL_STATE for another connection.
    """
    authenticator = call.authenticator
    if authenticator is None or authenticator.is_complete:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, message)
    return authenticator


def _warn_about_listener(call: Call) -> None:
    """Log that a client authenticates by SASL on a listener that has no SASL."""
    host = call.client_host.removeprefix("/")
    call.node.warn_about_client(
        host,
        "SASL on a listener without SASL",
        "a client authenticates by SASL on a listener without SASL: use another listener, or set "
        "security.protocol of the client to PLAINTEXT, or to SSL if the listener has TLS",
        client=host,
        client_id=printable(call.client_id or ""),
        listener=call.listener,
    )


def handle_sasl_handshake(
    call: Call, request: SaslHandshakeRequest
) -> SaslHandshakeResponse | Waiting[SaslHandshakeResponse]:
    """Choose the mechanism, and return the enabled ones; raises KafkaError ILLEGAL_SASL_STATE.

    The response may have to wait for the first keys of signed tokens.
    """
    if call.authenticator is None:
        _warn_about_listener(call)
    authenticator = _authenticator_of(call)
    era: SaslHandshakeEra = call.era
    mechanisms = list(authenticator.mechanisms)
    try:
        waiting = authenticator.choose_mechanism(
            request.mechanism, has_bare_tokens=era.has_bare_tokens
        )
    except KafkaError as error:
        return SaslHandshakeResponse(error_code=error.code, mechanisms=mechanisms)
    response = SaslHandshakeResponse(mechanisms=mechanisms)
    return response if waiting is None else waiting.map(lambda _: response)


def handle_sasl_authenticate(
    call: Call, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Return the broker's next token, and the lifetime of the session after the last one.

    Raises KafkaError SASL_AUTHENTICATION_FAILED or ILLEGAL_SASL_STATE.
    """
    authenticator = _authenticator_of(
        call, "SaslAuthenticate request received after successful authentication"
    )
    token, session_lifetime_ms = authenticator.authenticate(
        bytes(request.auth_bytes), call.node.clock.now_ms()
    )
    return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=session_lifetime_ms)


APIS = (
    Api(
        key=SaslHandshakeRequest.API_KEY,
        versions=Versions(0, 1),
        handler=handle_sasl_handshake,
        eras=ERAS,
    ),
    Api(
        key=SaslAuthenticateRequest.API_KEY,
        versions=Versions(0, 2),
        handler=handle_sasl_authenticate,
    ),
)
