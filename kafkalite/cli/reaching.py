"""How a cluster is reached that wants TLS or a password: options, and what they make."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl
    from argparse import ArgumentParser, Namespace

    from kafkalite.control.access import Access, Login

_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""As in `kafkalite.control.access`, which `--help` does without."""
_MOST_PASSWORD: Final = 64 * 1024
_STDIN: Final = "-"


def add_access_options(parser: ArgumentParser) -> None:
    """Let `parser` take how the cluster is reached."""
    group = parser.add_argument_group("how the broker is reached")
    group.add_argument("--tls", action="store_true", help="speak TLS")
    group.add_argument(
        "--ca", metavar="FILE", help="trust these authorities, in PEM [the system's]"
    )
    group.add_argument("--cert", metavar="FILE", help="show this certificate, in PEM")
    group.add_argument("--key", metavar="FILE", help="that certificate's key")
    group.add_argument(
        "--insecure", action="store_true", help="trust whatever certificate the broker shows"
    )
    group.add_argument(
        "--sasl-mechanism", choices=_MECHANISMS, help="log in by this mechanism [not at all]"
    )
    group.add_argument("--user", metavar="NAME", help="log in as this user")
    group.add_argument(
        "--password-file",
        metavar="FILE",
        help="where the password is, alone on the first line; - for standard input",
    )


class OptionError(ValueError):
    """Options that cannot go together; the text is one line."""


def access_from(asked: Namespace) -> Access:
    """Return how the options say a broker is reached; ValueError where they cannot go together."""
    from kafkalite.control.access import Access  # noqa: PLC0415 - a broker starts without it

    tls = tls_from(asked)
    _refuse_idle(
        "--sasl-mechanism",
        asked.sasl_mechanism,
        {"--user": asked.user, "--password-file": asked.password_file},
    )
    return Access(tls, _login(asked))


def tls_from(asked: Namespace, prefix: str = "") -> ssl.SSLContext | None:
    """Return how to speak TLS, None for not at all; OptionError, TlsError.

    The options are `--tls`, `--ca`, `--cert` and `--key`, with `prefix` before their names, and
    `--insecure`.
    """
    from kafkalite.proxy.tls import towards_cluster  # noqa: PLC0415 - as above

    wanted, authorities, certificate, key = (
        getattr(asked, f"{prefix}{name}".replace("-", "_")) for name in ("tls", "ca", "cert", "key")
    )
    _refuse_idle(
        f"--{prefix}tls",
        wanted,
        {
            f"--{prefix}ca": authorities,
            f"--{prefix}cert": certificate,
            f"--{prefix}key": key,
            "--insecure": asked.insecure,
        },
    )
    if not wanted:
        return None
    if key is not None and certificate is None:
        raise OptionError(f"--{prefix}key is of no use without --{prefix}cert")
    return towards_cluster(authorities, certificate, key, is_checked=not asked.insecure)


def _refuse_idle(option: str, is_given: object, others: dict[str, object]) -> None:
    for other, value in others.items():
        if value and not is_given:
            raise OptionError(f"{other} is of no use without {option}")


def _login(asked: Namespace) -> Login | None:
    from kafkalite.control.access import Login  # noqa: PLC0415 - as above

    if asked.sasl_mechanism is None:
        return None
    if asked.user is None or asked.password_file is None:
        raise ValueError("--sasl-mechanism needs --user and --password-file")
    return Login(asked.sasl_mechanism, asked.user, _password(asked.password_file))


def _password(path: str) -> str:
    try:
        if path == _STDIN:
            text = sys.stdin.readline(_MOST_PASSWORD)
        else:
            with open(os.path.expanduser(path), encoding="utf-8") as file:  # noqa: PTH111, PTH123
                text = file.readline(_MOST_PASSWORD)
    except (OSError, UnicodeDecodeError) as error:
        told = getattr(error, "strerror", None) or "it is no text"
        raise ValueError(f"no password can be read from {path}: {told.lower()}") from error
    password = text.rstrip("\r\n")
    if not password:
        raise ValueError(f"there is no password in {path}")
    return password
