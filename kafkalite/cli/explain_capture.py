"""`kafkalite explain --capture`: the time line of groups in captures, without a broker.

The exit status is 0 if the captures were read, and 2 for invalid arguments, such as a file that is
not a capture.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kafkalite.cli.capture_arguments import (
    add_port_option,
    check_captures,
    check_paths,
    report_problems,
)
from kafkalite.cli.output import USAGE_STATUS, exit_with_error, print_output
from kafkalite.cli.streams import open_closed_streams, printable

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kafkalite.coordinator.event_history import Entry
    from kafkalite.lab.checker.groups.requests import GroupRequests

_OF_BROKERS: Final = ("transactional_id", "topic", "client", "at", "follow", "control")
"""Arguments that only a broker can answer."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options about captures to those of `explain`."""
    group = parser.add_argument_group("captures instead of a broker")
    group.add_argument(
        "--capture",
        action="append",
        default=[],
        metavar="PATH",
        help="print the time line of the groups in a capture file or a directory of captures; "
        "repeatable",
    )
    add_port_option(group)


def run(arguments: Namespace) -> None:
    """Print the entries about groups; raises SystemExit for invalid arguments."""
    # Imported here: other commands to a broker start faster without them.
    from kafkalite.capture.reading.problems import Problems  # noqa: PLC0415
    from kafkalite.control.commands.explain import json_of, lines_of  # noqa: PLC0415
    from kafkalite.lab.checker.groups.requests import captured_requests  # noqa: PLC0415

    open_closed_streams()
    try:
        check_paths(arguments.capture)
        _check_arguments(arguments)
    except ValueError as error:
        exit_with_error(USAGE_STATUS, str(error))
    problems = Problems()
    requests = captured_requests(arguments.capture, problems, ports=arguments.port)
    check_captures(arguments.capture, problems)
    try:
        entries = _entries(arguments, requests)
    except ValueError as error:
        report_problems(problems)
        exit_with_error(USAGE_STATUS, str(error))
    if arguments.json:
        print_output(json.dumps(json_of(entries), ensure_ascii=False) + "\n")
    else:
        for line in lines_of(entries, has_subjects=arguments.group is None):
            print_output(printable(line) + "\n")
    report_problems(problems)


def _check_arguments(arguments: Namespace) -> None:
    for name in _OF_BROKERS:
        if getattr(arguments, name, None):
            option = name.replace("_", "-")
            raise ValueError(
                f"--capture cannot be combined with --{option}: captures have the time line of "
                "groups"
            )


def _entries(arguments: Namespace, requests: GroupRequests) -> list[Entry]:
    """Return the selected entries; raises ValueError for an unknown group or an invalid time."""
    from kafkalite.control.commands.explain import since_ms  # noqa: PLC0415 - as in run
    from kafkalite.lab.checker.groups.timeline import timeline  # noqa: PLC0415
    from kafkalite.ports.similar_names import similar_names_hint  # noqa: PLC0415

    group = arguments.group
    if not requests.groups:
        raise ValueError(f"no request of a member of a group in {', '.join(arguments.capture)}")
    if group is not None and group not in requests.groups:
        hint = similar_names_hint(group, requests.groups)
        raise ValueError(f"no request in the captures names the group {group!r}{hint}")
    groups = requests.groups if group is None else [group]
    entries = [entry for each in groups for entry in timeline(requests, each)]
    entries.sort(key=lambda entry: entry.at_ms)
    if arguments.since is not None and entries:
        first_ms = since_ms(arguments.since, entries[-1].at_ms)
        entries = [each for each in entries if each.at_ms >= first_ms]
    return entries[-arguments.limit :] if arguments.limit else entries
