"""`kafkalite check`: print what became of the records in captures and data directories.

The exit status is 0 without a violation, 1 with one, and 2 for invalid arguments, such as a file
that is not a capture, or captures without requests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalite.cli.capture_arguments import (
    add_port_option,
    check_captures,
    check_paths,
    report_problems,
)
from kafkalite.cli.output import (
    USAGE_STATUS,
    exit_with_error,
    os_error_text,
    print_output,
)
from kafkalite.cli.streams import open_closed_streams, printable

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kafkalite.lab.checker.groups.counterfactuals import Counterfactual
    from kafkalite.lab.checker.history import History

_VIOLATION_STATUS: Final = 1


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `check`."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a capture file (pcap or pcapng, also compressed), a directory of captures, or data "
        "directories of one cluster",
    )
    parser.add_argument(
        "--data-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="data directory of a broker whose clients the captures have: compare its logs with "
        "what they were answered; repeatable",
    )
    parser.add_argument("--json", action="store_true", help="print the result as a JSON object")
    parser.add_argument(
        "--what-if",
        action="store_true",
        help="also print how long partitions were idle in rebalances, how many commits were "
        "refused, and how much less it is with cooperative assignment, KIP-848, static membership "
        "and relaxed fencing",
    )
    add_port_option(parser)


def run(arguments: Namespace) -> None:
    """Print the findings; raises SystemExit with one, and for invalid arguments."""
    # Imported here: a broker starts faster without them.
    from kafkalite.capture.reading.problems import Problems  # noqa: PLC0415
    from kafkalite.lab.checker.books.reading import (  # noqa: PLC0415
        is_data_directory,
        read_books,
    )
    from kafkalite.lab.checker.captured_history import captured_history  # noqa: PLC0415
    from kafkalite.lab.checker.check import check  # noqa: PLC0415
    from kafkalite.lab.checker.report import (  # noqa: PLC0415
        report_lines,
        what_if,
        what_if_lines,
    )

    open_closed_streams()
    directories = [each for each in arguments.paths if is_data_directory(each)]
    captures = [each for each in arguments.paths if each not in directories]
    try:
        check_paths([*captures, *arguments.data_dir])
        _check_kinds(captures, directories, arguments.data_dir, needs_captures=arguments.what_if)
    except ValueError as error:
        exit_with_error(USAGE_STATUS, str(error))
    problems = Problems()
    history = captured_history(captures, problems, ports=arguments.port)
    check_captures(captures, problems)
    try:
        _check_requests(captures, history)
    except ValueError as error:
        report_problems(problems)
        exit_with_error(USAGE_STATUS, str(error))
    directories += arguments.data_dir
    try:
        books = read_books(directories) if directories else None
    except OSError as error:
        exit_with_error(USAGE_STATUS, os_error_text(error))
    result = check(history, books)
    rows = _counterfactuals(arguments, captures) if arguments.what_if else None
    if arguments.json:
        print_output(json.dumps(result.as_json() | ({} if rows is None else what_if(rows))) + "\n")
    else:
        for line in (*report_lines(result), *(() if rows is None else what_if_lines(rows))):
            print_output(printable(line) + "\n")
    report_problems(problems)
    if result.violations:
        raise SystemExit(_VIOLATION_STATUS)


def _check_requests(captures: list[str], history: History) -> None:
    """Raise ValueError for captures of several clusters, and for captures without requests."""
    if len(history.cluster_ids) > 1:
        ids = ", ".join(sorted(history.cluster_ids))
        raise ValueError(
            f"the captures are of several clusters ({ids}): check the traffic of each one, which "
            "tcpdump -r FILE -w ONE 'host BROKER' selects"
        )
    if captures and not history.requests:
        raise ValueError(f"no requests in {', '.join(captures)}")


def _counterfactuals(arguments: Namespace, captures: list[str]) -> list[Counterfactual]:
    """Return what other rules would have changed; problems were reported before."""
    from kafkalite.capture.reading.captures import ignore  # noqa: PLC0415 - as in run
    from kafkalite.lab.checker.groups.counterfactuals import counterfactuals  # noqa: PLC0415
    from kafkalite.lab.checker.groups.requests import captured_requests  # noqa: PLC0415

    return counterfactuals(captured_requests(captures, ignore, ports=arguments.port))


def _check_kinds(
    captures: list[str], directories: list[str], data_dirs: list[str], *, needs_captures: bool
) -> None:
    """Raise ValueError for data directories among captures, and for other directories."""
    from kafkalite.lab.checker.books.reading import (  # noqa: PLC0415 - as in run
        is_data_directory,
        is_partition_directory,
    )

    if captures and directories:
        raise ValueError(
            f"{directories[0]} is a data directory: name it with --data-dir to compare it with "
            f"{captures[0]}"
        )
    for path in captures:
        if is_partition_directory(path):
            raise ValueError(
                f"{path} is the directory of a partition: name the data directory, "
                f"{Path(path).absolute().parent}"
            )
    for path in data_dirs:
        if not is_data_directory(path):
            raise ValueError(
                f"{path} is not a data directory of a broker: it has no meta.properties"
            )
        if not captures:
            raise ValueError("--data-dir needs a capture")
    if needs_captures and not captures:
        raise ValueError("--what-if needs a capture")
