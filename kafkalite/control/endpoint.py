"""Endpoint: the URL, the token and the trusted authorities of a control endpoint, for clients."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from kafkalite.control.address import endpoint_address, is_loopback
from kafkalite.control.local_endpoints import find_endpoint as find_local_endpoint
from kafkalite.control.token import TokenError, given_token
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTROL_VARIABLE: Final = "KAFKALITE_CONTROL"
"""Environment variable with the address of the control API, used without `--control`."""
CONTROL_TOKEN_VARIABLE: Final = "KAFKALITE_CONTROL_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with the token or @FILE, used without `--control-token`."""

_FAILURES: Final = {
    "WRONG_VERSION_NUMBER": "it does not use TLS, so write http://",
    "RECORD_LAYER_FAILURE": "it does not use TLS, so write http://",
}
"""Reason of OpenSSL → text for users."""


class EndpointError(ValueError):
    """A token or an authority that cannot be used; the text is one line."""


class Endpoint(NamedTuple):
    """A control endpoint, as its clients use it."""

    url: str
    headers: Mapping[str, str] = {}
    """The headers of each request: the token, if there is one."""
    tls: ssl.SSLContext | None = None
    """The context of an https URL."""

    def __repr__(self) -> str:
        """Return a text without the token."""
        return f"Endpoint({self.url!r})"


def find_endpoint(
    address: str, token: str | None = None, authority_file: str | None = None
) -> Endpoint:
    """Return the endpoint at `address`: a URL, HOST:PORT or PORT.

    `token` is a token or @FILE; `authority_file` has the trusted authorities in PEM. Without them,
    the endpoint of a broker of this user on this machine is used with the files that it has
    published. Raises AddressError or EndpointError.
    """
    parsed = endpoint_address(address)
    is_local = is_loopback(parsed.address.host)
    local = find_local_endpoint(parsed.address.port) if is_local else None
    scheme = parsed.scheme or ("http" if local is None else local.scheme)
    if local is not None and local.scheme == scheme:
        authority_file = authority_file or local.authority_file
        if token is None and local.token_file is not None:
            token = f"@{local.token_file}"
    url = parsed.url(scheme)
    try:
        headers = {} if token is None else _authorization(token)
    except TokenError as error:
        raise EndpointError(str(error)) from error
    return Endpoint(url, headers, _context(authority_file) if scheme == "https" else None)


def _authorization(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {given_token(token).text}"}


def _context(authority_file: str | None) -> ssl.SSLContext:
    """Return a context that trusts the authorities in a file, or those of the system."""
    try:
        return ssl.create_default_context(cafile=authority_file)
    except OSError as error:  # SSLError is one as well
        reason = "not in PEM format" if isinstance(error, ssl.SSLError) else error.strerror
        text = f"cannot use the authorities in {authority_file}: {reason or error}"
        raise EndpointError(text) from error


def failure_text(url: str, reason: object) -> str:
    """Return one line about an endpoint that does not answer."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {url} is not trusted: {reason.verify_message} (give the file of "
            "its authority by --control-ca)"
        )
    if isinstance(reason, ssl.SSLError) and reason.reason in _FAILURES:
        return f"no control endpoint answers at {url}: {_FAILURES[reason.reason]}"
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return (
        f"no control endpoint answers at {url}: {text.lower()} (start the broker with --control, "
        "or give its address)"
    )
