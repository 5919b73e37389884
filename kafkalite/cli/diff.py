"""`kafkalite diff`: in what two captures differ, as between two releases of a client or a broker.

Exit status 0, or 1 where `--fail-on` finds what it asks for; 2 for bad use.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kafkalite.cli.ending import FAILED_STATUS, USAGE_STATUS, as_json, as_lines, complain, end, put
from kafkalite.cli.streams import open_closed_streams

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kafkalite.replay.differing import Change, DiffReport, Kind

_FAIL_ON = ("none", "error", "api", "difference")
_MOST_TOLD = 200


def add_diff(parser: ArgumentParser) -> None:
    """Let `parser` take what to compare."""
    parser.add_argument("before", metavar="DIR_A", help="a directory of captures, or one file")
    parser.add_argument("after", metavar="DIR_B", help="another")
    parser.add_argument(
        "--fail-on",
        choices=_FAIL_ON,
        default="none",
        help="what makes the exit status 1: errors that come in other numbers; those, or APIs and "
        "versions in one alone; any difference [none]",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def diff(asked: Namespace) -> None:
    """Compare as `asked`, and print what differs; SystemExit."""
    # Imported here, for a broker starts sooner without them.
    from kafkalite.replay.differing import diff as compare  # noqa: PLC0415

    open_closed_streams()
    report = compare(asked.before, asked.after, complain)
    for side in (report.before, report.after):
        if not side.requests:
            why = side.problems[0].detail if side.problems else "there is nothing in it"
            end(USAGE_STATUS, f"{side.name} is no capture: {why}")
    put(as_json(report.to_json()) if asked.json else as_lines(_as_text(report)))
    if _fails(report, asked.fail_on):
        sys.exit(FAILED_STATUS)


def _fails(report: DiffReport, fail_on: str) -> bool:
    from kafkalite.replay.differing import Kind  # noqa: PLC0415 - as above

    counted: dict[str, tuple[Kind, ...]] = {
        "none": (),
        "error": (Kind.ERROR,),
        "api": (Kind.ERROR, Kind.API, Kind.VERSION),
        "difference": tuple(Kind),
    }
    return any(change.kind in counted[fail_on] for change in report.changes)


def _as_text(report: DiffReport) -> str:
    from kafkalite.replay.differing import Kind  # noqa: PLC0415 - as above
    from kafkalite.replay.report import often  # noqa: PLC0415 - as above

    lines = []
    for mark, side in (("-", report.before), ("+", report.after)):
        lines.append(
            f"{mark} {side.name}: {side.requests} requests on {len(side.connections)} connections "
            f"in {side.seconds:.1f} s"
        )
        lines += [
            f"  wrong with it: {kind.value}, {often(count)}"
            for kind, count in side.problem_kinds.items()
        ]
    titles = {
        Kind.CLIENT: "clients",
        Kind.API: "APIs in one alone",
        Kind.VERSION: "versions",
        Kind.COUNT: "numbers of requests",
        Kind.ERROR: "errors",
        Kind.FIELD: "fields",
    }
    for kind, title in titles.items():
        changes = report.of(kind)
        if changes:
            lines += ["", f"{title}:"]
            for change in changes[:_MOST_TOLD]:
                lines += _change_lines(change)
            if len(changes) > _MOST_TOLD:
                lines.append(f"  … and {len(changes) - _MOST_TOLD} more: see --json")
    if not report.changes:
        lines += ["", "nothing differs but what is masked"]
    return "\n".join(lines)


def _change_lines(change: Change) -> list[str]:
    named = [change.api, change.client and f"({change.client})", change.what]
    named.append(change.row and f"of {change.row}")
    often = f", {change.times} times" if change.times > 1 else ""
    return [
        f"  {' '.join(word for word in named if word)}{often}",
        f"    - {change.before}",
        f"    + {change.after}",
    ]
