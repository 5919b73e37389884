"""`kafkalite completion`: scripts that complete commands and options in a shell."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

SHELLS = ("bash", "zsh", "tcsh")


def add_completion(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "shell", choices=SHELLS, metavar="SHELL", help=f"the shell: {', '.join(SHELLS)}"
    )


def completion(parsed: Namespace, parser: ArgumentParser) -> None:
    """Print the script for the commands of `parser`."""
    import shtab  # noqa: PLC0415 - only for this command

    sys.stdout.write(shtab.complete(parser, shell=parsed.shell))
