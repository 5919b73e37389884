"""Errors of the identity provider: those of OAuth for clients, and those of its commands."""

from __future__ import annotations

from typing import Final

INVALID_REQUEST: Final = "invalid_request"
INVALID_CLIENT: Final = "invalid_client"
INVALID_GRANT: Final = "invalid_grant"
INVALID_SCOPE: Final = "invalid_scope"
UNAUTHORIZED_CLIENT: Final = "unauthorized_client"
UNSUPPORTED_GRANT_TYPE: Final = "unsupported_grant_type"


class IdentityError(ValueError):
    """A command to the provider that cannot be carried out; the text is one sentence."""


class UnknownIdentityError(IdentityError):
    """A command that names a client, a key or a failure that the provider does not have."""


class OAuthError(Exception):
    """A token request that is refused (RFC 6749, section 5.2).

    `code` is sent to the client with `description`, which has neither secrets nor tokens.
    """

    def __init__(self, code: str, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.description = description

    @property
    def status(self) -> int:
        """The HTTP status: 401 if the client is not authenticated, else 400."""
        return 401 if self.code == INVALID_CLIENT else 400
