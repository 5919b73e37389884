"""TLS at either side of the proxy: towards clients, and towards the cluster."""

from __future__ import annotations

import ssl


class TlsError(ValueError):
    """Files of which no TLS can be made; the text is one line for people."""


def towards_clients(certificate: str, key: str | None) -> ssl.SSLContext:
    """Return what shows clients this certificate, a chain in PEM; TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_chain(context, certificate, key)
    return context


def towards_cluster(
    authorities: str | None, certificate: str | None, key: str | None, *, is_checked: bool
) -> ssl.SSLContext:
    """Return what trusts the system's authorities, or those in a file; TlsError.

    With `is_checked` off, it trusts anybody. `certificate` is what we show to the cluster.
    """
    try:
        context = ssl.create_default_context(cafile=authorities)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"no authorities can be read from {authorities}: {_why(error)}") from error
    if not is_checked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load_chain(context, certificate, key)
    return context


def _load_chain(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        files = certificate if key is None else f"{certificate} and {key}"
        raise TlsError(f"no certificate and key can be read from {files}: {_why(error)}") from error


def _no_password() -> str:
    """Refuse to ask a terminal, as OpenSSL would."""
    raise ValueError("the key has a password")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not in PEM").lower().replace("_", " ")
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(error)
