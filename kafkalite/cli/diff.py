"""`kafkalite diff`: compare two captures, such as of two releases of a client or a broker.

The exit status is 1 if there is a difference that `--fail-on` selects, else 0; it is 2 for invalid
arguments.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kafkalite.cli.output import (
    FAILED_STATUS,
    USAGE_STATUS,
    as_json,
    as_lines,
    exit_with_error,
    print_output,
    print_to_stderr,
)
from kafkalite.cli.streams import open_closed_streams
from kafkalite.ports.texts import count_text, times_text

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kafkalite.lab.replay.diff.captures import Change, DiffReport

_TITLES = {
    "CLIENT": "clients",
    "API": "APIs in one capture only",
    "VERSION": "versions",
    "COUNT": "numbers of requests",
    "ERROR": "errors",
    "FIELD": "fields",
}
"""Name of a `ChangeKind` → the title of its changes."""
_FAIL_ON = {
    "none": (),
    "error": ("ERROR",),
    "api": ("ERROR", "API", "VERSION"),
    "difference": tuple(_TITLES),
}
"""Value of --fail-on → names of the `ChangeKind`s that fail the command."""
_MAX_PRINTED = 200


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `diff`."""
    parser.add_argument("before", metavar="DIR_A", help="directory of captures, or one file")
    parser.add_argument("after", metavar="DIR_B", help="directory or file to compare it with")
    parser.add_argument(
        "--fail-on",
        choices=_FAIL_ON,
        default="none",
        help="exit with status 1 for different numbers of errors (error), also for APIs or "
        "versions that only one capture has (api), or for any difference (difference) [none]",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: Namespace) -> None:
    """Compare two captures, and print the differences; raises SystemExit."""
    # Imported here: a broker starts faster without them.
    from kafkalite.lab.replay.diff.captures import diff as compare  # noqa: PLC0415

    open_closed_streams()
    report = compare(arguments.before, arguments.after, print_to_stderr)
    for side in (report.before, report.after):
        if not side.requests:
            reason = side.problems[0].detail if side.problems else "it is empty"
            exit_with_error(USAGE_STATUS, f"{side.name} is not a capture: {reason}")
    print_output(as_json(report.to_json()) if arguments.json else as_lines(_as_text(report)))
    if _has_failed(report, arguments.fail_on):
        sys.exit(FAILED_STATUS)


def _has_failed(report: DiffReport, fail_on: str) -> bool:
    return any(change.kind.name in _FAIL_ON[fail_on] for change in report.changes)


def _as_text(report: DiffReport) -> str:
    from kafkalite.lab.replay.diff.captures import ChangeKind  # noqa: PLC0415 - see above

    lines = []
    for mark, side in (("-", report.before), ("+", report.after)):
        lines.append(
            f"{mark} {side.name}: {count_text(side.requests, 'request')} on "
            f"{count_text(len(side.connections), 'connection')} in {side.seconds:.1f} s"
        )
        lines += [
            f"  problem: {kind.value}, {times_text(count)}"
            for kind, count in side.problem_kinds.items()
        ]
    for kind, title in _TITLES.items():
        changes = report.changes_of(ChangeKind[kind])
        if changes:
            lines += ["", f"{title}:"]
            for change in changes[:_MAX_PRINTED]:
                lines += _change_lines(change)
            if len(changes) > _MAX_PRINTED:
                lines.append(f"  … and {len(changes) - _MAX_PRINTED} more: see --json")
    if not report.changes:
        lines += ["", "no differences, except in masked fields"]
    return "\n".join(lines)


def _change_lines(change: Change) -> list[str]:
    parts = [change.api, change.client and f"({change.client})", change.field_or_error]
    parts.append(change.row and f"of {change.row}")
    repeated = f", {change.times} times" if change.times > 1 else ""
    return [
        f"  {' '.join(word for word in parts if word)}{repeated}",
        f"    - {change.before}",
        f"    + {change.after}",
    ]
