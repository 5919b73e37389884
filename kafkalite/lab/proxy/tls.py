"""TLS contexts of the proxy, for its listeners and for its connections to the cluster."""

from __future__ import annotations

import ssl

from kafkalite.security.tls import openssl_reason


class TlsError(ValueError):
    """Unusable certificate or key files; the text is one line for users."""


def server_context(certificate: str, key: str | None) -> ssl.SSLContext:
    """Return the context of a listener with a certificate chain in PEM; raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_chain(context, certificate, key)
    return context


def client_context(
    ca_file: str | None, certificate: str | None, key: str | None, *, verify_server: bool
) -> ssl.SSLContext:
    """Return the context for connections to a cluster; raises TlsError.

    It trusts the CA certificates of the system, or those in the file `ca_file`. If `verify_server`
    is false, it trusts any server. `certificate` and `key` are those of the client.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(
            f"cannot read CA certificates from {ca_file}: {openssl_reason(error)}"
        ) from error
    if not verify_server:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load_chain(context, certificate, key)
    return context


def _load_chain(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_refuse_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        files = certificate if key is None else f"{certificate} and {key}"
        raise TlsError(
            f"cannot read certificate and key from {files}: {openssl_reason(error)}"
        ) from error


def _refuse_password() -> str:
    """Raise ValueError; without this function, OpenSSL asks for the password on the terminal."""
    raise ValueError("the key has a password; use a key without a password")
