"""Options for connections with TLS and SASL, and the settings made from them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl
    from argparse import ArgumentParser, Namespace

    from kafkalite.client.access import Access, Login

_MECHANISMS: Final = ("PLAIN", "OAUTHBEARER", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The SASL mechanisms of `kafkalite.client.access`; `--help` does not import that module."""
ACCESS_OPTIONS: Final = (
    *("tls", "ca", "cert", "key", "insecure", "sasl-mechanism", "user"),
    "password-file",
)
"""The options that `add_access_options` adds."""
_MAX_PASSWORD_LENGTH: Final = 64 * 1024
_STDIN: Final = "-"


def add_access_options(parser: ArgumentParser) -> None:
    """Add the options of a connection to a cluster."""
    group = parser.add_argument_group("connection to the broker")
    group.add_argument("--tls", action="store_true", help="use TLS")
    group.add_argument(
        "--ca", metavar="FILE", help="trusted certificate authorities, PEM [the system's]"
    )
    group.add_argument("--cert", metavar="FILE", help="client certificate, PEM")
    group.add_argument("--key", metavar="FILE", help="key of the client certificate, PEM")
    group.add_argument(
        "--insecure", action="store_true", help="accept any certificate of the broker"
    )
    group.add_argument(
        "--sasl-mechanism",
        choices=_MECHANISMS,
        help="authenticate with this mechanism [no authentication]",
    )
    group.add_argument("--user", metavar="NAME", help="user name")
    group.add_argument(
        "--password-file",
        metavar="FILE",
        help="file with the password, or the token of OAUTHBEARER, in its first line; - for "
        "standard input",
    )


class OptionError(ValueError):
    """Options that cannot be combined; the text is one line."""


def access_from(arguments: Namespace) -> Access:
    """Return the settings of a connection; raises ValueError for invalid combinations."""
    from kafkalite.client.access import Access  # noqa: PLC0415 - imported if needed

    tls = tls_from(arguments)
    _reject_unused(
        "--sasl-mechanism",
        arguments.sasl_mechanism,
        {"--user": arguments.user, "--password-file": arguments.password_file},
    )
    return Access(tls, _login(arguments))


def tls_from(arguments: Namespace, prefix: str = "") -> ssl.SSLContext | None:
    """Return the TLS context that the options define; None without TLS.

    The options are `--tls`, `--ca`, `--cert` and `--key`, with `prefix` before their names, and
    `--insecure`. Raises OptionError or TlsError.
    """
    from kafkalite.lab.proxy.tls import client_context  # noqa: PLC0415 - imported if needed

    is_used, authorities, certificate, key = (
        getattr(arguments, f"{prefix}{name}".replace("-", "_"))
        for name in ("tls", "ca", "cert", "key")
    )
    _reject_unused(
        f"--{prefix}tls",
        is_used,
        {
            f"--{prefix}ca": authorities,
            f"--{prefix}cert": certificate,
            f"--{prefix}key": key,
            "--insecure": arguments.insecure,
        },
    )
    if not is_used:
        return None
    if key is not None and certificate is None:
        raise OptionError(f"--{prefix}key is only valid with --{prefix}cert")
    return client_context(authorities, certificate, key, verify_server=not arguments.insecure)


def _reject_unused(option: str, is_given: object, others: dict[str, object]) -> None:
    for other, value in others.items():
        if value and not is_given:
            raise OptionError(f"{other} is only valid with {option}")


def _login(arguments: Namespace) -> Login | None:
    from kafkalite.client.access import Login  # noqa: PLC0415 - imported if needed

    if arguments.sasl_mechanism is None:
        return None
    if arguments.user is None or arguments.password_file is None:
        raise ValueError("--sasl-mechanism needs --user and --password-file")
    return Login(arguments.sasl_mechanism, arguments.user, _password(arguments.password_file))


def _password(path: str) -> str:
    try:
        if path == _STDIN:
            text = sys.stdin.readline(_MAX_PASSWORD_LENGTH)
        else:
            with open(os.path.expanduser(path), encoding="utf-8") as file:  # noqa: PTH111, PTH123
                text = file.readline(_MAX_PASSWORD_LENGTH)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ValueError(f"cannot read a password from {path}: {reason.lower()}") from error
    password = text.rstrip("\r\n")
    if not password:
        raise ValueError(f"there is no password in {path}")
    return password
