"""SASL OAUTHBEARER (RFC 7628): the client sends a bearer token, which a validator checks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.sasl.mechanism import SASL_NAME, SaslAuthenticationError, SaslError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PAIRS: Final = r"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_FIRST_MESSAGE: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{SASL_NAME}))?,\x01(?P<pairs>{_PAIRS})\x01"
)
_AUTHORIZATION: Final = re.compile(r"(\w+) +([-_~+/.a-zA-Z0-9]+=*)", re.ASCII)

_END_OF_FAILURE: Final = b"\x01"
"""The client's answer to an error, after which the server ends the exchange."""


class InvalidTokenError(Exception):
    """A token that is not accepted; the text is for the log and does not contain the token.

    `status` and `scope` are sent to the client.
    """

    def __init__(self, reason: str, *, status: str = "invalid_token", scope: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


class BearerToken(NamedTuple):
    """The claims of a valid token that the broker uses."""

    principal: str
    expires_at_ms: int


def principal_in(claims: Mapping[str, object], claim: str) -> str:
    """Return the name in a claim of a token, with blanks at its ends; raises InvalidTokenError."""
    principal = claims.get(claim)
    if not isinstance(principal, str) or not principal.strip():
        raise InvalidTokenError(f"the token has no claim {claim} with a name")
    try:
        principal.encode()
    except UnicodeEncodeError:
        # JSON can have half of a surrogate pair. Neither responses nor records can have it.
        raise InvalidTokenError(f"claim {claim} of the token is not valid Unicode") from None
    return principal


class OAuthBearerServer:
    """One exchange; `validate` returns the claims of a token or raises InvalidTokenError."""

    __slots__ = ("_failure", "_reason", "_validate", "expires_at_ms", "is_complete", "user")

    is_token_authenticated = False

    def __init__(self, validate: Callable[[str], BearerToken]) -> None:
        self._validate = validate
        self._failure: str | None = None
        self._reason = ""
        """The reason of the failure, for the log."""
        self.expires_at_ms: int | None = None
        self.is_complete = False
        self.user = ""

    @property
    def refusal(self) -> str:
        """The reason of an error that the client has yet to acknowledge; empty without one."""
        return self._reason if self._failure is not None else ""

    def evaluate(self, token: bytes) -> bytes:
        """Check the client's message, and return an error as JSON if its token is invalid.

        The client answers to an error; then this raises SaslAuthenticationError.
        """
        failure, self._failure = self._failure, None
        if token == _END_OF_FAILURE and failure is not None:
            raise SaslAuthenticationError(failure, self._reason)
        authorization_id, bearer_token = _parse_first_message(token)
        try:
            claims = self._validate(bearer_token)
        except InvalidTokenError as error:
            scope = f', "scope":"{error.scope}"' if error.scope else ""
            self._failure = f'{{"status":"{error.status}"{scope}}}'
            self._reason = str(error)
            return self._failure.encode()
        if authorization_id not in {"", claims.principal}:
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) "
                f"that is different from the token's principal name ({claims.principal})"
            )
        self.user = claims.principal
        self.expires_at_ms = claims.expires_at_ms
        self.is_complete = True
        return b""


def _parse_first_message(message: bytes) -> tuple[str, str]:
    """Return the authorization id and the token of the client's first message."""
    match = _FIRST_MESSAGE.fullmatch(message.decode("utf-8", "replace"))
    if match is None:
        raise SaslError("invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    if "auth" not in pairs:
        raise SaslError("invalid OAUTHBEARER client first message: 'auth' not specified")
    authorization = _AUTHORIZATION.fullmatch(pairs["auth"])
    if authorization is None:
        raise SaslError("invalid OAUTHBEARER client first message: invalid 'auth' format")
    if authorization[1].lower() != "bearer":
        raise SaslError("invalid scheme in the OAUTHBEARER client first message")
    return match["authorization_id"] or "", authorization[2]
