"""`kafkalite replay`: a capture played again on a broker, and its answers compared.

Exit status 0 when nothing was found that `--fail-on` counts, 1 when something was or the target is
not there, 2 for bad use.
"""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, NoReturn

from kafkalite.cli.streams import open_closed_streams, printable, say

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

FAILED_STATUS = 1
USAGE_STATUS = 2

_FAIL_ON = ("none", "unanswered", "error", "difference", "timing")
_MOST_SPEED = 1_000_000.0


def add_replay(parser: ArgumentParser) -> None:
    """Let `parser` take what to replay, where, and how fast."""
    parser.add_argument(
        "captures", nargs="+", metavar="DIR", help="directories of captures, or single files"
    )
    parser.add_argument(
        "--to", metavar="HOST:PORT", required=True, help="the broker to replay on, ours or any"
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        default=None,
        metavar="SPEED",
        help="original, so many times as fast, such as 10x, or max: as fast as the broker answers "
        "[max]",
    )
    parser.add_argument(
        "--clients", metavar="GLOB", help="replay clients whose id this matches alone, as app-*"
    )
    parser.add_argument(
        "--control",
        metavar="URL",
        help="where a kafkalite that is replayed on can be driven: its time becomes that of the "
        "capture, so that days take seconds",
    )
    parser.add_argument(
        "--timeout",
        metavar="DURATION",
        default="30s",
        help="how long to wait for an answer before it counts as none [30s]",
    )
    parser.add_argument(
        "--fail-on",
        choices=_FAIL_ON,
        default="difference",
        help="what makes the exit status 1, with all that is graver: answers that never come, "
        "errors that differ, fields that differ, or what may come of timing too [difference]",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def replay(asked: Namespace) -> None:
    """Replay as `asked`, print what was found, and exit by it; SystemExit."""
    # Imported here, for a broker starts sooner without them.
    from kafkalite.control.times import duration_ms  # noqa: PLC0415
    from kafkalite.replay import calls  # noqa: PLC0415
    from kafkalite.replay.pace import ClockError  # noqa: PLC0415
    from kafkalite.replay.report import FailOn  # noqa: PLC0415
    from kafkalite.replay.telling import replay_text  # noqa: PLC0415

    open_closed_streams()
    try:
        report = calls.replay(
            asked.captures,
            to=asked.to,
            speed=asked.speed,
            clients=asked.clients,
            control=asked.control,
            patience_s=duration_ms(asked.timeout) / 1000,
        )
    except calls.NothingToReplayError as error:
        _end(USAGE_STATUS, printable(str(error)))
    except (calls.ReplayError, ClockError) as error:
        _end(FAILED_STATUS, str(error))
    except ValueError as error:
        _end(USAGE_STATUS, str(error))
    say(_as_json(report.to_json()) if asked.json else printable_lines(replay_text(report)))
    if report.failed(FailOn[asked.fail_on.upper()]):
        sys.exit(FAILED_STATUS)


def printable_lines(text: str) -> str:
    """Return text whose lines hold nothing that a terminal would obey."""
    return "".join(f"{printable(line)}\n" for line in text.split("\n")[:-1])


def _as_json(shape: object) -> str:
    import json  # noqa: PLC0415 - as above

    return f"{json.dumps(shape, indent=2)}\n"


def _end(status: int, text: str) -> NoReturn:
    sys.stderr.write(f"kafkalite: {text}\n")
    sys.exit(status)


def _speed(text: str) -> float | None:
    """Return how many times as fast; None for as fast as can be."""
    known = {"max": None, "original": 1.0}
    if text in known:
        return known[text]
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = 0.0
    if not 0 < speed <= _MOST_SPEED:
        raise ArgumentTypeError(f"{text!r} is neither original, nor max, nor as 10x")
    return speed
