"""`kafkalite bisect`: find the record that made a condition true.

It searches the logs of a running broker, or of a data directory that no broker has open. The exit
status is 0 if a record was found, 1 if none was or the broker does not answer, and 2 for invalid
arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.cli.control_commands import add_common_options, endpoint_of
from kafkalite.cli.output import (
    FAILED_STATUS,
    USAGE_STATUS,
    as_json,
    as_lines,
    exit_with_error,
    print_output,
)
from kafkalite.cli.streams import open_closed_streams
from kafkalite.config.typed_json import fields_of, to_json
from kafkalite.control.client import ControlClient, ControlError
from kafkalite.control.commands.bisect import Bisect
from kafkalite.control.time_travel.logs import DirectoryLogs
from kafkalite.ports.clock import AdjustableClock

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kafkalite.control.time_travel.bisection import FoundRecord


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `bisect`."""
    about = {each.name: each.about for each in fields_of(Bisect)}
    parser.add_argument(
        "--until",
        required=True,
        metavar=about["until"].metavar,
        help=about["until"].text,
    )
    parser.add_argument("--after", metavar=about["after"].metavar, help=about["after"].text)
    parser.add_argument("--last", action="store_true", help=about["last"].text)
    parser.add_argument(
        "--data-dir",
        metavar="DIRECTORY",
        help="data directory of a stopped broker, of kafkalite or of Kafka [a running broker]",
    )
    add_common_options(parser)


def run(arguments: Namespace) -> None:
    """Search, and print the record; raises SystemExit if there is none."""
    open_closed_streams()
    command = Bisect(arguments.until, arguments.after, arguments.last)
    try:
        found = _found(command, arguments)
    except ControlError as error:
        exit_with_error(FAILED_STATUS, str(error))
    except ValueError as error:
        exit_with_error(USAGE_STATUS, str(error))
    text = as_json(to_json(found)) if arguments.json else as_lines("\n".join(found.lines()))
    print_output(text)


def _found(command: Bisect, arguments: Namespace) -> FoundRecord:
    if arguments.data_dir is None:
        found: FoundRecord = ControlClient(endpoint_of(arguments)).send(command)
        return found
    source = DirectoryLogs(arguments.data_dir, AdjustableClock().now_ms())
    bisection = command.begin(source)
    for _ in bisection.steps():
        pass
    if bisection.found is None:
        exit_with_error(FAILED_STATUS, bisection.failure)
    return bisection.found
