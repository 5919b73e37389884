"""`kafkalite check`: print what became of the records in captures.

The exit status is 0 without a violation, 1 with one, and 2 for invalid arguments, such as a file
that is not a capture, or captures without requests.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kafkalite.cli.capture_arguments import (
    add_path_argument,
    add_port_option,
    check_captures,
    check_paths,
)
from kafkalite.cli.output import USAGE_STATUS, exit_with_error, print_output, print_to_stderr
from kafkalite.cli.streams import open_closed_streams, printable

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_VIOLATION_STATUS: Final = 1


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `check`."""
    add_path_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the result as a JSON object")
    add_port_option(parser)


def run(arguments: Namespace) -> None:
    """Print the findings; raises SystemExit with one, and for invalid arguments."""
    # Imported here: a broker starts faster without them.
    from kafkalite.capture.reading.problems import Problems  # noqa: PLC0415
    from kafkalite.lab.checker.captured_history import captured_history  # noqa: PLC0415
    from kafkalite.lab.checker.check import check  # noqa: PLC0415
    from kafkalite.lab.checker.report import report_lines  # noqa: PLC0415

    open_closed_streams()
    try:
        check_paths(arguments.paths)
    except ValueError as error:
        exit_with_error(USAGE_STATUS, str(error))
    problems = Problems()
    history = captured_history(arguments.paths, problems, ports=arguments.port)
    check_captures(arguments.paths, problems)
    if len(history.cluster_ids) > 1:
        ids = ", ".join(sorted(history.cluster_ids))
        exit_with_error(USAGE_STATUS, f"the captures are of several clusters ({ids}): check each")
    result = check(history)
    if not result.requests:
        exit_with_error(USAGE_STATUS, f"no requests in {', '.join(arguments.paths)}")
    if arguments.json:
        print_output(json.dumps(result.as_json()) + "\n")
    else:
        for line in report_lines(result):
            print_output(printable(line) + "\n")
    if counts := problems.by_kind():
        kinds = ", ".join(f"{kind}: {count}" for kind, count in counts.items())
        print_to_stderr(f"the captures have problems (see kafkalite show --problems): {kinds}")
    if result.violations:
        raise SystemExit(_VIOLATION_STATUS)
