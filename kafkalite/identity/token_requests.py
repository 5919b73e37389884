"""Token requests (RFC 6749, RFC 7523): their parameters, and the authentication of the client."""

from __future__ import annotations

import hmac
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote_plus

from kafkalite.identity.errors import (
    INVALID_CLIENT,
    INVALID_GRANT,
    INVALID_REQUEST,
    INVALID_SCOPE,
    UNAUTHORIZED_CLIENT,
    UNSUPPORTED_GRANT_TYPE,
    OAuthError,
)
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.units import MILLISECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkalite.identity.clients import OAuthClient

CLIENT_CREDENTIALS: Final = "client_credentials"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
GRANT_TYPES: Final = (CLIENT_CREDENTIALS, JWT_BEARER)
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
AUTHENTICATION_METHODS: Final = ("client_secret_basic", "client_secret_post", "private_key_jwt")
ASSERTION_ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
)  # fmt: skip

_MAX_PARAMETERS: Final = 32
_BASIC: Final = "basic"
_UNKNOWN_CLIENT: Final = "the client is unknown, or its secret or signature is wrong"
_ABSENT_SECRET: Final = "the secret of a client that does not exist"  # noqa: S105 - compared only
_CLOCK_SKEW_MS: Final = 30_000


class TokenRequest(NamedTuple):
    """A token request whose client is not authenticated yet."""

    parameters: Mapping[str, str]
    basic: tuple[str, str] | None
    """The client id and the secret of the Authorization header."""

    def __repr__(self) -> str:
        """Return a text without secrets and tokens."""
        return f"TokenRequest({', '.join(self.parameters)})"

    @property
    def claimed_client_id(self) -> str | None:
        """The client id that the request names; it is not verified."""
        if self.basic is not None:
            return self.basic[0]
        client_id = self.parameters.get("client_id")
        if client_id is not None:
            return client_id
        assertion = self.parameters.get("client_assertion") or self.parameters.get("assertion")
        return None if assertion is None else _unverified_issuer(assertion)


class Grant(NamedTuple):
    """The client and the subject of a token that is granted, and its scope."""

    client: OAuthClient
    subject: str
    scope: str


def parse_token_request(body: bytes, authorization: str | None) -> TokenRequest:
    """Return the parameters of a request; raises OAuthError if they are malformed."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=_MAX_PARAMETERS,
        )
    except ValueError:
        raise OAuthError(INVALID_REQUEST, "the body is not a form") from None
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if name in parameters:
            raise OAuthError(INVALID_REQUEST, "a parameter is given twice")
        if value:  # an empty parameter counts as missing (RFC 6749, section 3.2)
            parameters[name] = value
    return TokenRequest(parameters, None if authorization is None else _basic(authorization))


def _basic(header: str) -> tuple[str, str]:
    """Return the client id and the secret of an Authorization header; raises OAuthError."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != _BASIC:
        raise OAuthError(INVALID_CLIENT, "the Authorization header must have the scheme Basic")
    try:
        text = b64decode(encoded.strip(), validate=True).decode()
    except ValueError:
        raise OAuthError(INVALID_CLIENT, "the Authorization header is malformed") from None
    client_id, colon, secret = text.partition(":")
    if not colon:
        raise OAuthError(INVALID_CLIENT, "the Authorization header is malformed")
    return client_id, secret


def grant(
    request: TokenRequest,
    clients: Mapping[str, OAuthClient],
    audiences: Collection[str],
    now_ms: int,
) -> Grant:
    """Authenticate the client of a request and check what it requests; raises OAuthError.

    `audiences` are the names of the provider in assertions.
    """
    parameters = request.parameters
    grant_type = parameters.get("grant_type")
    if grant_type is None:
        raise OAuthError(INVALID_REQUEST, "the parameter grant_type is missing")
    if grant_type == CLIENT_CREDENTIALS:
        client = _authenticated(request, clients, audiences, now_ms)
        subject = client.id
    elif grant_type == JWT_BEARER:
        client, subject = _granted_by_assertion(request, clients, audiences, now_ms)
    else:
        raise OAuthError(
            UNSUPPORTED_GRANT_TYPE, f"grant_type must be {CLIENT_CREDENTIALS} or {JWT_BEARER}"
        )
    return Grant(client, subject, _granted_scope(client, parameters.get("scope")))


def _authenticated(
    request: TokenRequest,
    clients: Mapping[str, OAuthClient],
    audiences: Collection[str],
    now_ms: int,
) -> OAuthClient:
    """Return the client that a request authenticates; raises OAuthError."""
    parameters = request.parameters
    methods = [
        request.basic is not None,
        "client_secret" in parameters,
        "client_assertion" in parameters,
    ]
    if sum(methods) > 1:
        raise OAuthError(INVALID_REQUEST, "the request authenticates its client in several ways")
    if "client_assertion" in parameters:
        if parameters.get("client_assertion_type") != ASSERTION_TYPE:
            raise OAuthError(INVALID_REQUEST, f"client_assertion_type must be {ASSERTION_TYPE}")
        assertion = parameters["client_assertion"]
        client, subject = _verify(assertion, clients, audiences, now_ms, INVALID_CLIENT)
        if subject != client.id or parameters.get("client_id", client.id) != client.id:
            raise OAuthError(INVALID_CLIENT, "the assertion must have the client's id as subject")
        return client
    if request.basic is not None:
        client_id, secret = request.basic
    elif "client_id" in parameters and "client_secret" in parameters:
        client_id, secret = parameters["client_id"], parameters["client_secret"]
    else:
        raise OAuthError(INVALID_CLIENT, "the request has no client authentication")
    # RFC 6749 encodes both as in forms, but most clients send them unchanged.
    for name, text in ((client_id, secret), (unquote_plus(client_id), unquote_plus(secret))):
        if _has_secret(found := clients.get(name), text):
            assert found is not None
            return found
    known = clients.get(client_id) or clients.get(unquote_plus(client_id))
    raise OAuthError(INVALID_CLIENT, _UNKNOWN_CLIENT, _reason_of_mismatch(known, is_signed=False))


def _reason_of_mismatch(client: OAuthClient | None, *, is_signed: bool) -> str:
    """Return the reason for the log that a client is not authenticated."""
    if client is None:
        return "the client is unknown"
    if is_signed:
        return "the client has no public key" if client.public_key is None else "wrong signature"
    return "the client has no secret" if client.secret is None else "wrong secret"


def _has_secret(client: OAuthClient | None, text: str) -> bool:
    """Return whether a client has this secret, in a time that does not show if it exists."""
    expected = _ABSENT_SECRET if client is None or client.secret is None else client.secret
    is_equal = hmac.compare_digest(expected.encode(), text.encode())
    return is_equal and client is not None and client.secret is not None


def _granted_by_assertion(
    request: TokenRequest,
    clients: Mapping[str, OAuthClient],
    audiences: Collection[str],
    now_ms: int,
) -> tuple[OAuthClient, str]:
    """Return the client and the subject of an assertion grant; raises OAuthError.

    Authentication of the client in addition is optional (RFC 7523, section 2.1).
    """
    parameters = request.parameters
    if "assertion" not in parameters:
        raise OAuthError(INVALID_REQUEST, "the parameter assertion is missing")
    authenticated = None
    if request.basic or "client_secret" in parameters or "client_assertion" in parameters:
        authenticated = _authenticated(request, clients, audiences, now_ms)
    client, subject = _verify(parameters["assertion"], clients, audiences, now_ms, INVALID_GRANT)
    if authenticated is not None and authenticated.id != client.id:
        raise OAuthError(UNAUTHORIZED_CLIENT, "the assertion is of another client")
    if subject != client.id and subject not in client.subjects:
        raise OAuthError(INVALID_GRANT, "the client may not request tokens for this subject")
    return client, subject


def _verify(
    assertion: str,
    clients: Mapping[str, OAuthClient],
    audiences: Collection[str],
    now_ms: int,
    code: str,
) -> tuple[OAuthClient, str]:
    """Return the client that signed an assertion, and its subject; raises OAuthError.

    The issuer of the assertion is the id of the client.
    """
    client = clients.get(_unverified_issuer(assertion) or "")
    claims = _verified_claims(assertion, client)
    if client is None or claims is None:
        raise OAuthError(code, _UNKNOWN_CLIENT, _reason_of_mismatch(client, is_signed=True))
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(each, str) and each in audiences for each in named):
        raise OAuthError(code, f"the audience of the assertion must be {min(audiences, key=len)}")
    expiry, not_before = claims.get("exp"), claims.get("nbf", 0)
    if not isinstance(expiry, int | float) or not isinstance(not_before, int | float):
        raise OAuthError(code, "the assertion needs exp, and exp and nbf must be numbers")
    if expiry * MILLISECONDS_PER_SECOND <= now_ms - _CLOCK_SKEW_MS:
        raise OAuthError(code, "the assertion has expired")
    if not_before * MILLISECONDS_PER_SECOND > now_ms + _CLOCK_SKEW_MS:
        raise OAuthError(code, "the assertion is not valid yet")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        raise OAuthError(code, "the assertion needs a subject")
    return client, subject


def _verified_claims(assertion: str, client: OAuthClient | None) -> dict[str, Any] | None:
    """Return the claims of an assertion that the client signed; None if it did not."""
    if client is None or client.public_key is None:
        return None
    from joserfc import jwt  # noqa: PLC0415 - few clients use assertions

    try:
        token = jwt.decode(assertion, client.public_key, algorithms=ASSERTION_ALGORITHMS)
    except Exception:  # noqa: BLE001 - the library raises errors of several kinds for malformed tokens
        return None
    return token.claims if isinstance(token.claims, dict) else None


def _unverified_issuer(assertion: str) -> str | None:
    """Return the issuer that an assertion names; None if it is malformed."""
    import json  # noqa: PLC0415 - few clients use assertions

    parts = assertion.split(".")
    if len(parts) != 3:  # noqa: PLR2004 - header, claims and signature
        return None
    try:
        text = parts[1].translate(str.maketrans("-_", "+/"))
        claims = json.loads(b64decode(text + "=" * (-len(text) % 4), validate=True))
    except (ValueError, RecursionError):
        return None
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    return issuer if isinstance(issuer, str) else None


def _granted_scope(client: OAuthClient, requested: str | None) -> str:
    """Return the scope of a token; raises OAuthError if the client may not have it."""
    if requested is None:
        return " ".join(client.scopes or ())
    scopes = tuple(dict.fromkeys(requested.split()))
    if client.scopes is not None and not set(scopes) <= set(client.scopes):
        raise OAuthError(INVALID_SCOPE, "the client may not request this scope")
    return " ".join(scopes)
