"""The man page: the texts of `--help` of all commands."""

from __future__ import annotations

from argparse_manpage.manpage import Manpage

from kafkalite.cli.parsing import new_parser

_TITLE = '.TH KAFKALITE "1" "" "kafkalite" "User Commands"'


def man_page() -> str:
    """Return the man page in the format of roff."""
    # The library dates the title by the day of the build.
    (_, _, body) = str(Manpage(new_parser())).partition("\n")
    return f"{_TITLE}\n{body.rstrip()}\n"
