"""`kafkalite show`: print the exchanges in captures, a summary, or the problems of captures.

The exit status is 0 if the captures were read, also if they have problems, and 2 for invalid
arguments, such as a file that is not a capture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.cli.argument_types import whole_number
from kafkalite.cli.capture_arguments import (
    add_path_argument,
    add_port_option,
    check_captures,
    check_paths,
    report_problems,
)
from kafkalite.cli.output import USAGE_STATUS, exit_with_error, print_output, print_to_stderr
from kafkalite.cli.streams import open_closed_streams

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from kafkalite.capture.reading.problems import Problems
    from kafkalite.cli.exchange_text import DecodedExchange


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `show`."""
    add_path_argument(parser)
    selection = parser.add_argument_group("selection of exchanges; all given options must match")
    selection.add_argument(
        "--api",
        action="append",
        metavar="NAME",
        help="API, by name or number, or several with commas; repeatable",
    )
    selection.add_argument("--client", metavar="GLOB", help="client id, or HOST:PORT of the client")
    selection.add_argument("--group", metavar="GLOB", help="group id")
    selection.add_argument("--topic", metavar="GLOB", help="topic name")
    selection.add_argument(
        "--offset",
        action="append",
        default=[],
        type=whole_number,
        metavar="BYTES",
        help="requests that begin in the packet at this offset of the file, as `kafkalite check` "
        "names them; repeatable",
    )
    selection.add_argument("--errors", action="store_true", help="only responses with an error")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object per line, with messages in the JSON of Kafka's request log",
    )
    parser.add_argument(
        "--summary",
        action="store_true",
        help="print the clients, groups, errors and slowest requests instead of the exchanges",
    )
    parser.add_argument(
        "--records", action="store_true", help="include record batches in the JSON, in base64"
    )
    parser.add_argument(
        "--problems",
        action="store_true",
        help="print the problems of the captures instead of the exchanges",
    )
    add_port_option(parser)


def run(arguments: Namespace) -> None:
    """Print the selected exchanges; raises SystemExit for invalid arguments."""
    # Imported here: a broker starts faster without them.
    from kafkalite.capture.reading.problems import Problems  # noqa: PLC0415
    from kafkalite.cli.exchange_summary import ExchangeSummary  # noqa: PLC0415
    from kafkalite.cli.exchange_text import ExchangeFilter, problem_line  # noqa: PLC0415

    open_closed_streams()
    try:
        _check_arguments(arguments)
        selected = ExchangeFilter.of(arguments)
    except ValueError as error:
        exit_with_error(USAGE_STATUS, str(error))
    problems = Problems()
    count = printed = 0
    totals = ExchangeSummary()
    for decoded in _decoded(arguments, problems):
        count += 1
        if arguments.problems or not selected.matches(decoded):
            continue
        printed += 1
        if arguments.summary:
            totals.add(decoded)
        elif not print_output(_line(decoded, arguments)):
            return
    for line in totals.lines():
        print_output(f"{line}\n")
    if arguments.problems:
        for problem in problems:
            print_output(problem_line(problem, as_json=arguments.json))
        return
    check_captures(arguments.paths, problems)
    _report_counts(arguments, problems, count, printed)


def _report_counts(arguments: Namespace, problems: Problems, count: int, printed: int) -> None:
    """Print on stderr that captures have problems, or why there is no output."""
    if problems.by_kind():
        report_problems(problems, "--problems")
    elif not count:
        print_to_stderr(f"no requests in {', '.join(arguments.paths)}")
    elif not printed:
        print_to_stderr(f"none of {count} requests matches the options")


def _decoded(arguments: Namespace, problems: Problems) -> Iterator[DecodedExchange]:
    """Yield the exchanges of the captures, decoded."""
    from kafkalite.capture.reading.captures import exchanges, read  # noqa: PLC0415 - as in run
    from kafkalite.cli.exchange_text import decode  # noqa: PLC0415

    topic_names: dict[bytes, str] = {}
    for exchange in exchanges(read(arguments.paths, problems, ports=arguments.port), problems):
        yield decode(exchange, topic_names)


def _line(decoded: DecodedExchange, arguments: Namespace) -> str:
    from kafkalite.cli.exchange_text import exchange_line, json_line  # noqa: PLC0415 - as in run

    if arguments.json:
        return json_line(decoded, records=arguments.records)
    return exchange_line(decoded)


def _check_arguments(arguments: Namespace) -> None:
    check_paths(arguments.paths)
    others = [name for name in ("json", "problems") if getattr(arguments, name)]
    if arguments.summary and others:
        raise ValueError(f"--summary cannot be combined with --{others[0]}")
    if arguments.records and not arguments.json:
        raise ValueError("--records needs --json")
