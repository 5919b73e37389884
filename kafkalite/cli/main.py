"""`kafkalite`: the command and its subcommands.

It uses argparse: other command line libraries would add a tenth to the start time of a broker.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NoReturn

from kafkalite import __version__
from kafkalite.cli import (
    audit,
    capture,
    cluster_options,
    completion,
    consume,
    diff,
    fence,
    group,
    produce,
    replay,
    serve,
    show,
    topic,
    transaction,
)
from kafkalite.cli.output import USAGE_STATUS
from kafkalite.cli.streams import discard_output, end_output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_INTERRUPTED_STATUS = 130


class CommandParser(argparse.ArgumentParser):
    """Prints a usage error as one line, with the command that shows the help."""

    def error(self, message: str) -> NoReturn:
        """Print the error, and exit."""
        self.exit(USAGE_STATUS, f"kafkalite: {message} (see {self.prog} --help)\n")

    def reject(self, unknown: Sequence[str]) -> NoReturn:
        """Print an error about arguments that the command does not have, and exit."""
        import difflib  # noqa: PLC0415 - imported only for mistakes: a start should be fast

        option, *_ = (text for text in (*unknown, "") if text.startswith("--") or not text)
        similar = difflib.get_close_matches(
            option.partition("=")[0], self._option_string_actions, n=1, cutoff=0.75
        )
        hint = f"; did you mean {similar[0]}?" if similar else ""
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")


class FixedWidthHelp(argparse.HelpFormatter):
    """Formats help with a fixed width: to get the width, argparse would import bz2 and lzma."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=80)


COMMANDS = (
    ("serve", "Run a broker until a signal stops it.", serve.add_options, serve.serve),
    (
        "topic",
        "List, create, describe and delete topics of any Kafka cluster.",
        topic.add_topic,
        cluster_options.run_action,
    ),
    (
        "produce",
        "Write lines of the standard input as records to any Kafka cluster.",
        produce.add_produce,
        produce.produce,
    ),
    (
        "consume",
        "Print the records of a topic of any Kafka cluster.",
        consume.add_consume,
        consume.consume,
    ),
    (
        "group",
        "List, describe, reset and delete groups of any Kafka cluster.",
        group.add_group,
        cluster_options.run_action,
    ),
    (
        "transaction",
        "List, describe and abort transactions of any Kafka cluster.",
        transaction.add_transaction,
        cluster_options.run_action,
    ),
    (
        "fence-producers",
        "Fence the producers of transactional ids, and abort their open transactions.",
        fence.add_fence,
        fence.fence,
    ),
    (
        "capture",
        "Record the traffic between clients and a cluster, with a proxy.",
        capture.add_capture,
        capture.capture,
    ),
    ("show", "Print the requests and responses in captures.", show.add_show, show.show),
    (
        "replay",
        "Send the requests of a capture to a broker, and compare the responses.",
        replay.add_replay,
        replay.replay,
    ),
    (
        "diff",
        "Compare two captures by API and field.",
        diff.add_diff,
        diff.diff,
    ),
    (
        "audit",
        "Write tables, audits and a report about captures.",
        audit.add_audit,
        audit.audit,
    ),
    (
        "completion",
        "Print a script that completes commands and options in a shell.",
        completion.add_completion,
        lambda parsed: completion.completion(parsed, new_parser()),
    ),
)
"""Each command: name, description, function that adds its options, function that runs it.

The commands to a running broker are not among them.
"""


def all_commands() -> tuple[tuple[str, str, Callable[..., None], Callable[..., None]], ...]:
    """Return `COMMANDS` and the commands to a running broker."""
    from kafkalite.cli.control_commands import control_commands  # noqa: PLC0415 - a fast start

    serve_command, *others = COMMANDS
    return (serve_command, *control_commands(), *others)


def new_parser(given: Sequence[str] | None = None) -> CommandParser:
    """Return the parser of all commands; only those in `given`, by default all, have options."""
    parser = CommandParser(
        prog="kafkalite",
        description="A Kafka broker for tests, and tools for captured Kafka traffic.",
        allow_abbrev=False,
        formatter_class=FixedWidthHelp,
    )
    parser.add_argument("--version", action="version", version=f"kafkalite {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    word = next((each for each in given or () if not each.startswith("-")), None)
    is_alone = word in {name for name, *_ in COMMANDS}
    for name, about, add_options, run in COMMANDS if is_alone else all_commands():
        command = commands.add_parser(
            name, help=about, description=about, allow_abbrev=False, formatter_class=FixedWidthHelp
        )
        if given is None or name in given:  # adding the options of all commands would be slow
            add_options(command)
        command.set_defaults(run=run, parser=command)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command in `arguments`, by default the arguments of the process.

    As with Java's tools, an output whose reader has ended is no error.
    """
    try:
        _run(arguments)
    except BrokenPipeError:
        discard_output()
    finally:
        end_output()


def _run(arguments: Sequence[str] | None) -> None:
    parser = new_parser(sys.argv[1:] if arguments is None else arguments)
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        # The parser of the command reports them, because its help lists the valid options.
        getattr(parsed, "parser", parser).reject(unknown)
    if "run" not in parsed:
        parser.print_help(sys.stderr)
        sys.exit(USAGE_STATUS)
    try:
        parsed.run(parsed)
    except KeyboardInterrupt:
        # Ctrl-C ends a command without a traceback; shells know this status.
        sys.exit(_INTERRUPTED_STATUS)
