"""IdentityProvider: the clients, keys and tokens of one provider, without HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kafkalite.identity.clients import DEFAULT_CLIENT, lifetime_of, printable_text
from kafkalite.identity.errors import IdentityError, OAuthError, UnknownIdentityError
from kafkalite.identity.failures import (
    OUTAGES,
    TOKEN_FAILURES,
    Endpoint,
    FailureKind,
    Failures,
)
from kafkalite.identity.signing_keys import SigningKeys
from kafkalite.identity.token_requests import (
    ASSERTION_ALGORITHMS,
    AUTHENTICATION_METHODS,
    GRANT_TYPES,
    grant,
    parse_token_request,
)
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.units import MILLISECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.identity.clients import OAuthClient
    from kafkalite.identity.failures import Failure
    from kafkalite.identity.token_requests import Grant
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy

TOKEN_PATH: Final = "/token"  # noqa: S105 - a path
JWKS_PATH: Final = "/jwks"
DISCOVERY_PATH: Final = "/.well-known/openid-configuration"

DEFAULT_AUDIENCE: Final = "kafka"
DEFAULT_LIFETIME_MS: Final = 3_600_000
WRONG_AUDIENCE: Final = "another-audience"
WRONG_ISSUER: Final = "http://another-issuer.invalid"
MAX_CLIENTS: Final = 1000

_EXPIRED_SINCE_S: Final = 3600
_MALFORMED: Final = b'{"access_token": "'


class Reply(NamedTuple):
    """A response of an endpoint, which is sent after a delay by the broker's clock.

    `refusal` is the reason for the log if a request is refused; it has neither secrets nor tokens.
    """

    status: int
    body: bytes
    delay_ms: int = 0
    refusal: str | None = None

    def __repr__(self) -> str:
        """Return a text without the body, which may have a token."""
        return f"Reply({self.status}, delay_ms={self.delay_ms}, refusal={self.refusal!r})"


class IdentityProvider:
    """A provider whose `issuer` is its URL; tokens have the times of `clock`."""

    def __init__(
        self,
        issuer: str,
        clock: Clock,
        entropy: Entropy,
        clients: Iterable[OAuthClient] = (DEFAULT_CLIENT,),
    ) -> None:
        self.issuer = issuer
        self.audience = DEFAULT_AUDIENCE
        """The audience of tokens whose client has no other."""
        self.token_lifetime_ms = DEFAULT_LIFETIME_MS
        self.keys = SigningKeys(entropy)
        self.failures = Failures()
        self._clock = clock
        self._entropy = entropy
        self._clients = {client.id: client for client in clients}

    @property
    def token_endpoint(self) -> str:
        """The URL of the token endpoint on this machine."""
        return self.issuer + TOKEN_PATH

    @property
    def jwks_endpoint(self) -> str:
        """The URL of the published keys on this machine."""
        return self.issuer + JWKS_PATH

    @property
    def clients(self) -> tuple[OAuthClient, ...]:
        """All clients, in the order in which they were added."""
        return tuple(self._clients.values())

    def put_client(self, client: OAuthClient) -> OAuthClient:
        """Add or replace a client; raises IdentityError if there are too many."""
        if client.id not in self._clients and len(self._clients) >= MAX_CLIENTS:
            raise IdentityError(f"there are {MAX_CLIENTS} clients already: remove one")
        self._clients[client.id] = client
        return client

    def remove_client(self, client_id: str) -> OAuthClient:
        """Remove a client, and return it; raises IdentityError if it is unknown."""
        if client_id not in self._clients:
            raise UnknownIdentityError(f"there is no client {client_id[:60]!r}")
        return self._clients.pop(client_id)

    def change(self, audience: object = None, token_lifetime_ms: object = None) -> None:
        """Set the audience and the lifetime of tokens, unless None; raises IdentityError."""
        lifetime_ms = lifetime_of(token_lifetime_ms)
        text = printable_text({"audience": audience}, "audience")
        if text is not None:
            self.audience = text
        if lifetime_ms is not None:
            self.token_lifetime_ms = lifetime_ms

    def discovery(self, base_url: str) -> dict[str, Any]:
        """Return the metadata of OpenID Connect Discovery and RFC 8414.

        The endpoints begin with `base_url`, the URL by which the client reaches the provider. The
        issuer is the same for all clients, because it is in the tokens.
        """
        return {
            "issuer": self.issuer,
            "token_endpoint": base_url + TOKEN_PATH,
            "jwks_uri": base_url + JWKS_PATH,
            "grant_types_supported": list(GRANT_TYPES),
            "response_types_supported": [],
            "subject_types_supported": ["public"],
            "token_endpoint_auth_methods_supported": list(AUTHENTICATION_METHODS),
            "token_endpoint_auth_signing_alg_values_supported": list(ASSERTION_ALGORITHMS),
            "id_token_signing_alg_values_supported": sorted({key.algorithm for key in self.keys}),
        }

    def jwks(self) -> Reply:
        """Return the published keys, or the failure that was requested for them."""
        outages = self.failures.fire(Endpoint.JWKS, None, OUTAGES)
        return _with_outages(Reply(200, _json(self.keys.public_keys())), outages)

    def token(self, body: bytes, authorization: str | None) -> Reply:
        """Return the response to a token request: a token, an error, or a requested failure."""
        claimed = None
        try:
            request = parse_token_request(body, authorization)
            claimed = request.claimed_client_id
            outages = self.failures.fire(Endpoint.TOKEN, claimed, OUTAGES)
        except OAuthError as error:
            return self._refuse(error, claimed, self._outages_without_client())
        try:
            audiences = (self.issuer, self.token_endpoint)
            granted = grant(request, self._clients, audiences, self._clock.now_ms())
        except OAuthError as error:
            return self._refuse(error, claimed, outages)
        fired = self.failures.fire(Endpoint.TOKEN, granted.client.id, TOKEN_FAILURES)
        answer = self._answer(granted, {failure.kind for failure in fired})
        return _with_outages(Reply(200, _json(answer)), outages)

    def _outages_without_client(self) -> list[Failure]:
        return self.failures.fire(Endpoint.TOKEN, None, OUTAGES)

    @staticmethod
    def _refuse(error: OAuthError, claimed: str | None, outages: list[Failure]) -> Reply:
        client = "" if claimed is None else f" of client {claimed[:60]!r}"
        reply = Reply(
            error.status,
            _json({"error": error.code, "error_description": error.description}),
            refusal=f"{error.code}{client}: {error.detail}",
        )
        return _with_outages(reply, outages)

    def _answer(self, granted: Grant, failures: set[FailureKind]) -> dict[str, Any]:
        client = granted.client
        lifetime_ms = client.token_lifetime_ms or self.token_lifetime_ms
        answer = {
            "access_token": self._new_token(granted, lifetime_ms, failures),
            "token_type": "Bearer",
            "expires_in": _whole_seconds(lifetime_ms),
        }
        return {**answer, "scope": granted.scope} if granted.scope else answer

    def _new_token(self, granted: Grant, lifetime_ms: int, failures: set[FailureKind]) -> str:
        lifetime_s = _whole_seconds(lifetime_ms)
        issued_s = self._clock.now_ms() // MILLISECONDS_PER_SECOND
        if FailureKind.EXPIRED in failures:
            issued_s -= lifetime_s + _EXPIRED_SINCE_S
        client = granted.client
        claims: dict[str, Any] = {
            "iss": WRONG_ISSUER if FailureKind.WRONG_ISSUER in failures else self.issuer,
            "sub": granted.subject,
            "aud": WRONG_AUDIENCE
            if FailureKind.WRONG_AUDIENCE in failures
            else client.audience or self.audience,
            "iat": issued_s,
            "exp": issued_s + lifetime_s,
            "jti": self._entropy.uuid4_text(),
            "client_id": client.id,
        }
        if granted.scope:
            claims["scope"] = granted.scope
        return self.keys.sign(claims, with_published_key=FailureKind.WRONG_KEY not in failures)


def _with_outages(reply: Reply, outages: list[Failure]) -> Reply:
    """Return a response with the failures that apply to it."""
    delay_ms = sum(failure.delay_ms for failure in outages)
    kinds = {failure.kind for failure in outages}
    if FailureKind.HTTP_500 in kinds:
        return Reply(500, b"", delay_ms)  # some clients append the body of a repeated request
    if FailureKind.MALFORMED in kinds:
        return Reply(200, _MALFORMED, delay_ms)
    return reply._replace(delay_ms=delay_ms)


def _whole_seconds(ms: int) -> int:
    """Return a duration in seconds, rounded up: tokens have times in seconds."""
    return -(-ms // MILLISECONDS_PER_SECOND)


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields).encode()
