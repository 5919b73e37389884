"""Errors of the identity provider: their HTTP statuses."""

from __future__ import annotations

import pytest

from kafkalite.identity import errors


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (errors.INVALID_CLIENT, 401),
        (errors.INVALID_REQUEST, 400),
        (errors.INVALID_GRANT, 400),
        (errors.INVALID_SCOPE, 400),
        (errors.UNAUTHORIZED_CLIENT, 400),
        (errors.UNSUPPORTED_GRANT_TYPE, 400),
    ],
)
def test_an_error_has_the_status_of_the_rfc(code: str, status: int) -> None:
    error = errors.OAuthError(code, "a reason")
    assert (error.code, error.description, error.status) == (code, "a reason", status)


def test_errors_of_commands_are_value_errors() -> None:
    assert issubclass(errors.UnknownIdentityError, errors.IdentityError)
    assert issubclass(errors.IdentityError, ValueError)
