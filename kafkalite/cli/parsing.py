"""The parser of `kafkalite` and its subcommands, which uses argparse."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, Protocol

from kafkalite import __version__, cli
from kafkalite.cli.output import USAGE_STATUS
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence
    from types import ModuleType


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


class Command(Protocol):
    """A command of the shell."""

    @property
    def name(self) -> str:
        """The first word."""

    @property
    def about(self) -> str:
        """The description, one sentence."""

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the options to a parser."""

    def run(self, arguments: Namespace) -> None:
        """Carry out the command; raises SystemExit if it fails."""


class ModuleCommand(NamedTuple):
    """A command whose module has `add_options` and `run`; it is imported when they are called."""

    name: str
    about: str
    module: str
    """The name of the module in this package."""

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the options to a parser."""
        self._import().add_options(parser)

    def run(self, arguments: Namespace) -> None:
        """Carry out the command; raises SystemExit if it fails."""
        self._import().run(arguments)

    def _import(self) -> ModuleType:
        return import_module(f"{cli.__name__}.{self.module}")


COMMANDS = (
    ModuleCommand("serve", "Run a broker until a signal stops it.", "serve"),
    ModuleCommand(
        "topic", "List, create, describe and delete topics of any Kafka cluster.", "topic"
    ),
    ModuleCommand(
        "produce", "Write lines of the standard input as records to any Kafka cluster.", "produce"
    ),
    ModuleCommand("consume", "Print the records of a topic of any Kafka cluster.", "consume"),
    ModuleCommand(
        "group", "List, describe, reset and delete groups of any Kafka cluster.", "group"
    ),
    ModuleCommand(
        "export", "Print the state of any Kafka cluster in the form of --state.", "export"
    ),
    ModuleCommand(
        "transaction", "List, describe and abort transactions of any Kafka cluster.", "transaction"
    ),
    ModuleCommand(
        "fence-producers",
        "Fence the producers of transactional ids, and abort their open transactions.",
        "fence",
    ),
    ModuleCommand(
        "capture", "Record the traffic between clients and a cluster, with a proxy.", "capture"
    ),
    ModuleCommand("show", "Print the requests and responses in captures.", "show"),
    ModuleCommand(
        "console", "Show captures or a data directory in a browser, without a broker.", "console"
    ),
    ModuleCommand(
        "replay",
        "Send the requests of a capture to a broker, and compare the responses.",
        "replay",
    ),
    ModuleCommand("check", "Check what became of the records in captures.", "check"),
    ModuleCommand("diff", "Compare two captures by API and field.", "diff"),
    ModuleCommand("audit", "Write tables, audits and a report about captures.", "audit"),
    ModuleCommand(
        "sweep",
        "Run a command again and again, each time with one failure at one of its requests.",
        "sweep",
    ),
    ModuleCommand(
        "bisect",
        "Find the record that made a condition about the state of a cluster true.",
        "bisect",
    ),
    ModuleCommand(
        "completion",
        "Print a script that completes commands and options in a shell.",
        "completion",
    ),
)
"""The commands of modules; the commands to a running broker are not among them."""


def all_commands() -> tuple[Command, ...]:
    """Return `COMMANDS` and the commands to a running broker."""
    from kafkalite.cli.control_commands import control_commands  # noqa: PLC0415 - a fast start

    serve, *others = COMMANDS
    return (serve, *control_commands(), *others)


def _commands_for(given: Sequence[str]) -> tuple[Command, ...]:
    """Return the command that the arguments name, or all commands if they name none."""
    word = next((each for each in given if not each.startswith("-")), None)
    if word is None:
        return all_commands() if {"-h", "--help"}.intersection(given) or not given else ()
    if named := tuple(each for each in COMMANDS if each.name == word):
        return named
    from kafkalite.cli.control_commands import commands_named  # noqa: PLC0415 - a fast start

    return tuple(commands_named(word)) or all_commands()


def new_parser(given: Sequence[str] | None = None) -> CommandParser:
    """Return the parser of all commands; only those in `given`, by default all, have options."""
    parser = CommandParser(
        prog="kafkalite",
        description="A Kafka broker for tests, and tools for captured Kafka traffic.",
        allow_abbrev=False,
        formatter_class=FixedWidthHelp,
    )
    parser.add_argument("--version", action="version", version=f"kafkalite {__version__}")
    actions = parser.add_subparsers(title="commands", metavar="COMMAND")
    for each in all_commands() if given is None else _commands_for(given):
        command = actions.add_parser(
            each.name,
            help=each.about,
            description=each.about,
            allow_abbrev=False,
            formatter_class=FixedWidthHelp,
        )
        if given is None or each.name in given:  # adding the options of all commands would be slow
            each.add_options(command)
        command.set_defaults(run=each.run, parser=command, new_parser=new_parser)
    return parser


def parse(given: Sequence[str]) -> Namespace:
    """Return the values of arguments; `run` carries out the command.

    Raises SystemExit for invalid arguments, and after the help was printed.
    """
    parser = new_parser(given)
    parsed, unknown = parser.parse_known_args(given)
    if unknown:
        # The parser of the command reports them, because its help lists the valid options.
        getattr(parsed, "parser", parser).reject(unknown)
    if "run" not in parsed:
        parser.print_help(sys.stderr)
        sys.exit(USAGE_STATUS)
    return parsed
