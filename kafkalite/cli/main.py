"""`kafkalite`: the command and its subcommands.

Chosen: argparse, because it is there; the other libraries for command lines take a tenth of the
time in which a broker starts.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NoReturn

from kafkalite import __version__
from kafkalite.cli import audit, capture, diff, drive, fence, replay, serve, show
from kafkalite.cli.ending import USAGE_STATUS

if TYPE_CHECKING:
    from collections.abc import Sequence


_INTERRUPTED_STATUS = 130


class _Parser(argparse.ArgumentParser):
    """Tells bad use in one line, like all that keeps us from it, and where there is help."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_STATUS, f"kafkalite: {message} (see {self.prog} --help)\n")


class _Help(argparse.HelpFormatter):
    """Is as wide as the narrowest terminal: to measure this one, argparse loads bz2 and lzma."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=80)


_COMMANDS = (
    ("serve", "Run a broker until it is told to stop.", serve.add_options, serve.serve),
    ("clock", "Tell or drive the time of a running broker.", drive.add_clock, drive.clock),
    (
        "explain",
        "Tell what befell groups and transactional ids, and why.",
        drive.add_explain,
        drive.explain,
    ),
    (
        "fence-producers",
        "Fence the producers of transactional ids, and end what they left open.",
        fence.add_fence,
        fence.fence,
    ),
    (
        "capture",
        "Record what clients and a cluster say, by a proxy between them.",
        capture.add_capture,
        capture.capture,
    ),
    ("show", "Print what captures say, a line an exchange.", show.add_show, show.show),
    (
        "replay",
        "Play a capture again on a broker, and tell which answers differ.",
        replay.add_replay,
        replay.replay,
    ),
    (
        "diff",
        "Tell in what two captures differ, by API and field.",
        diff.add_diff,
        diff.diff,
    ),
    (
        "audit",
        "Turn captures into tables, audits and a report, by Spark.",
        audit.add_audit,
        audit.audit,
    ),
)
"""Name, what it does, its options, and what runs."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the arguments ask for, by default those of the process."""
    parser = _Parser(
        prog="kafkalite",
        description="Run a Kafka broker for tests: real clients, real wire protocol, up fast.",
        allow_abbrev=False,
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"kafkalite {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, about, add_options, run in _COMMANDS:
        command = commands.add_parser(
            name, help=about, description=about, allow_abbrev=False, formatter_class=_Help
        )
        add_options(command)
        command.set_defaults(run=run, parser=command)
    asked, unknown = parser.parse_known_args(arguments)
    if unknown:
        # Told by the command that does not know them, whose help lists what it does.
        getattr(asked, "parser", parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    if "run" not in asked:
        parser.print_help(sys.stderr)
        sys.exit(USAGE_STATUS)
    try:
        asked.run(asked)
    except KeyboardInterrupt:
        # Who ends a long reading by Ctrl-C wants no traceback; shells know this status.
        sys.exit(_INTERRUPTED_STATUS)
