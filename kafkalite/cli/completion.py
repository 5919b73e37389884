"""`kafkalite completion`: scripts that complete commands and options in a shell."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

SHELLS = ("bash", "zsh", "tcsh")


def add_options(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "shell", choices=SHELLS, metavar="SHELL", help=f"the shell: {', '.join(SHELLS)}"
    )


def run(arguments: Namespace) -> None:
    """Print the script for all commands."""
    import shtab  # noqa: PLC0415 - only for this command

    sys.stdout.write(shtab.complete(arguments.new_parser(), shell=arguments.shell))
