"""The interface of the SASL mechanisms, and the errors of an exchange."""

from __future__ import annotations

from typing import Final, Protocol

SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
"""The pattern of a name in a message of a client (`saslname` of RFC 5802)."""


class SaslError(Exception):
    """The authentication of the client failed.

    The client gets a text that names the mechanism only. The text of this error is for the log; it
    has no password and no token.
    """


class SaslAuthenticationError(SaslError):
    """The authentication of the client failed, and it gets the text of this error.

    `detail` is the reason for the log, if it differs from the text.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail or message


class SaslServer(Protocol):
    """The server's side of one exchange; it is used once."""

    def evaluate(self, token: bytes) -> bytes:
        """Return the answer to the client's next token; raises SaslError if the exchange fails."""

    @property
    def is_complete(self) -> bool:
        """Whether the client has authenticated."""

    @property
    def user(self) -> str:
        """The name of the authenticated user; empty before the exchange is complete."""

    @property
    def expires_at_ms(self) -> int | None:
        """The time at which the credentials expire; None if they do not expire."""

    @property
    def refusal(self) -> str:
        """The reason of an error that the client has yet to acknowledge; empty without one."""

    @property
    def is_token_authenticated(self) -> bool:
        """Whether the credentials are those of a delegation token."""
