"""Arguments of commands that read captures: the paths, and the ports of brokers."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Final

from kafkalite.cli.output import USAGE_STATUS, exit_with_error, print_to_stderr

if TYPE_CHECKING:
    from argparse import ArgumentParser, _ActionsContainer
    from collections.abc import Sequence

    from kafkalite.capture.reading.problems import Problems

_MAX_PORT: Final = 65_535


def add_path_argument(parser: ArgumentParser) -> None:
    """Add the argument with the paths of captures."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a capture file (pcap or pcapng, also compressed) or a directory of captures",
    )


def add_port_option(parser: _ActionsContainer) -> None:
    """Add the option with the ports of brokers."""
    parser.add_argument(
        "--port",
        action="append",
        type=_parse_port,
        default=[],
        metavar="PORT",
        help="port of brokers, for captures that start in the middle of connections; repeatable",
    )


def check_paths(paths: Sequence[str]) -> None:
    """Raise ValueError for a path that does not exist."""
    for path in paths:
        if not os.path.exists(path):  # noqa: PTH110 - paths are plain text here
            raise ValueError(f"no such file or directory: {path!r}")


def check_captures(paths: Sequence[str], problems: Problems) -> None:
    """Exit with an error if a named file is not a capture. Directories may have other files."""
    from kafkalite.capture.model import ProblemKind  # noqa: PLC0415 - a broker starts faster

    for problem in problems:
        if problem.kind is ProblemKind.NOT_A_CAPTURE and problem.file in paths:
            exit_with_error(USAGE_STATUS, f"{problem.file} is not a capture: {problem.detail}")


def report_problems(problems: Problems, command: str = "kafkalite show --problems") -> None:
    """Print the numbers of problems to stderr, and the command that lists them."""
    if counts := problems.by_kind():
        kinds = ", ".join(f"{kind}: {count}" for kind, count in counts.items())
        print_to_stderr(f"the captures have problems (see {command}): {kinds}")


def _parse_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MAX_PORT):
        raise ArgumentTypeError(f"{text!r} is not a port")
    return int(text)
