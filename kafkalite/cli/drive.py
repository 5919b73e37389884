"""`kafkalite clock` and `kafkalite explain`: a running broker, driven from the shell.

Exit status 0 when the broker did as it was told, 1 when it refused or is not there, 2 for bad use;
what is wrong is one line on stderr.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkalite.cli.ending import FAILED_STATUS, USAGE_STATUS, as_json, end, put
from kafkalite.cli.streams import open_closed_streams, printable

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Mapping

    from kafkalite.control.client import ControlClient
    from kafkalite.control.http import ClockShape, EntryShape

CONTROL_VARIABLE = "KAFKALITE_CONTROL"
"""Names the broker that is meant when no option does."""

_ACTIONS = ("show", "advance", "set", "pause", "resume", "rate")


def add_clock(parser: ArgumentParser) -> None:
    """Let `parser` take what the clock can be told."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=_ACTIONS,
        default="show",
        help="show the time; advance it by a DURATION, or set it forward to a TIME, doing all that "
        "is due on the way; pause it; resume it; let it run at RATE times the machine's [show]",
    )
    parser.add_argument(
        "value",
        nargs="?",
        metavar="VALUE",
        help="a DURATION such as 7d, 1h30m or 250ms; a TIME such as 2026-03-01T12:00:00Z; a RATE",
    )
    _add_common(parser)


def add_explain(parser: ArgumentParser) -> None:
    """Let `parser` take what can be explained."""
    subject = parser.add_mutually_exclusive_group()
    subject.add_argument("--group", metavar="ID", help="this group alone [everything]")
    subject.add_argument("--transactional-id", metavar="ID", help="this transactional id alone")
    parser.add_argument(
        "--limit", metavar="NUMBER", type=int, help="the latest entries alone [128]"
    )
    _add_common(parser)


def _add_common(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print what the broker said, as JSON")
    parser.add_argument(
        "--control",
        metavar="URL",
        help="where the broker can be driven, as `kafkalite serve --control` says "
        f"[{CONTROL_VARIABLE}, else http://127.0.0.1:9097]",
    )


def clock(asked: Namespace) -> None:
    """Tell or drive the time as `asked`; SystemExit when that cannot be."""

    def tell(client: ControlClient) -> None:
        wish = _wish(asked.action, asked.value)
        shape = client.clock() if wish is None else client.drive(wish)
        put(as_json(shape) if asked.json else _clock_line(shape))

    _carry_out(asked, tell)


def explain(asked: Namespace) -> None:
    """Tell what befell whom as `asked`; SystemExit when that cannot be."""
    group, transactional_id = asked.group, asked.transactional_id

    def tell(client: ControlClient) -> None:
        found = client.explain(group, asked.limit, transactional_id)
        is_of_all = group is None and transactional_id is None
        lines = [_entry_line(entry, is_of_all=is_of_all) for entry in found["entries"]]
        whom = "any group or transactional id" if is_of_all else _subject(group, transactional_id)
        put(as_json(found) if asked.json else "".join(lines) or f"nothing is known of {whom}\n")

    _carry_out(asked, tell)


def _carry_out(asked: Namespace, tell: Callable[[ControlClient], None]) -> None:
    # Imported here, for a broker starts sooner without them.
    from kafkalite.control.address import DEFAULT_CONTROL, control_url  # noqa: PLC0415
    from kafkalite.control.client import ControlClient, ControlError  # noqa: PLC0415

    open_closed_streams()
    where = asked.control or os.environ.get(CONTROL_VARIABLE) or DEFAULT_CONTROL
    try:
        tell(ControlClient(control_url(where)))
    except ControlError as error:
        end(FAILED_STATUS, str(error))
    except ValueError as error:
        end(USAGE_STATUS, str(error))


def _wish(action: str, value: str | None) -> Mapping[str, str | float] | None:
    """Return what is asked of the clock, None for the time alone; ValueError for bad use."""
    from kafkalite.control.times import (  # noqa: PLC0415 - see above
        duration_ms,
        instant_ms,
        rate_from,
    )

    takes: dict[str, tuple[str, Callable[[str], Mapping[str, str | float]]]] = {
        "advance": ("a duration, such as 7d", lambda text: {"advance_ms": duration_ms(text)}),
        "set": ("a time, such as 2026-03-01", lambda text: {"now_ms": instant_ms(text)}),
        "rate": ("a rate, such as 60", lambda text: {"rate": rate_from(text)}),
    }
    modes = {"pause": "manual", "resume": "real"}
    if action in takes:
        what, wish = takes[action]
        if value is None:
            raise ValueError(f"clock {action} needs {what}")
        return wish(value)
    if value is not None:
        raise ValueError(f"clock {action} takes no {value!r}")
    return {"mode": modes[action]} if action in modes else None


def _clock_line(shape: ClockShape) -> str:
    pace = f", {shape['rate']:g} times as fast" if shape["mode"] == "accelerated" else ""
    return f"{shape['iso']} ({shape['mode']}{pace})\n"


def _subject(group: str | None, transactional_id: str | None) -> str:
    if transactional_id is None:
        return f"a group {printable(group or '')!r}"
    return f"a transactional id {printable(transactional_id)!r}"


def _entry_line(entry: EntryShape, *, is_of_all: bool) -> str:
    whom = f" {entry['group'] or entry['transactional_id']}" if is_of_all else ""
    often = f" ({entry['times']} times since {entry['first_iso']})" if entry["times"] > 1 else ""
    line = f"{entry['at_iso']}{whom} {entry['kind']}: {entry['text']}{often}"
    return f"{printable(line)}\n"
