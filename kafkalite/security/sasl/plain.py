"""SASL PLAIN (RFC 4616): the client sends its name and its password."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from kafkalite.security.sasl.mechanism import SaslAuthenticationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOKENS: Final = 3

_NO_PASSWORD: Final = b""
"""It is compared for unknown users, so that they take as long as known ones."""


class PlainServer:
    """One exchange; `passwords` has the password of each user."""

    __slots__ = ("_passwords", "is_complete", "user")

    expires_at_ms = None
    refusal = ""
    is_token_authenticated = False

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.is_complete = False
        self.user = ""

    def evaluate(self, token: bytes) -> bytes:
        """Check the client's only token; raises SaslAuthenticationError if it is not accepted."""
        # At most four parts, as Kafka counts them in its message.
        parts = token.decode("utf-8", "replace").split("\0", _TOKENS + 1)[: _TOKENS + 1]
        if len(parts) != _TOKENS:
            raise SaslAuthenticationError(
                f"Invalid SASL/PLAIN response: expected {_TOKENS} tokens, got {len(parts)}"
            )
        authorization_id, user, password = parts
        if not user:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        expected = self._passwords.get(user)
        is_equal = hmac.compare_digest(
            _digest(password.encode()),
            _digest(_NO_PASSWORD if expected is None else expected.encode()),
        )
        if expected is None or not is_equal:
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id not in {"", user}:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.user = user
        self.is_complete = True
        return b""


def _digest(password: bytes) -> bytes:
    """Return a digest: the comparison of digests does not depend on the passwords' lengths."""
    return hashlib.sha256(password).digest()
