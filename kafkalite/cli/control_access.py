"""The options for the token and the certificate of a control API."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_token_options(parser: ArgumentParser, default: str | None = None) -> None:
    """Add the options for the token and the certificate of a control API."""
    parser.add_argument(
        "--control-token",
        metavar="TOKEN|@FILE",
        default=default,
        help="token of the control API [KAFKALITE_CONTROL_TOKEN, else the file of a broker of this "
        "user on this machine]",
    )
    parser.add_argument(
        "--control-ca",
        metavar="FILE",
        default=default,
        help="trusted certificate authorities of the control API, PEM [those of --tls auto of a "
        "broker of this user on this machine, else the system's]",
    )


def token_from(arguments: Namespace) -> str | None:
    """Return the token or @FILE of the arguments or of the environment; None without one.

    The token of an argument is hidden from other processes.
    """
    from kafkalite.config.options import CONTROL_TOKEN_AUTO  # noqa: PLC0415 - a broker starts faster
    from kafkalite.control.endpoint import CONTROL_TOKEN_VARIABLE  # noqa: PLC0415 - as above
    from kafkalite.ports.command_line import hide_option  # noqa: PLC0415 - as above

    token: str | None = arguments.control_token
    if token is None:
        token = os.environ.get(CONTROL_TOKEN_VARIABLE) or None
        # The variable is also that of the broker in the same container.
        return None if token == CONTROL_TOKEN_AUTO else token
    hide_option("--control-token", token)
    return token
