"""`kafkalite replay`: a capture played again on a broker, and its answers compared.

Exit status 0 when nothing was found that `--fail-on` counts, 1 when something was or the target is
not there, 2 for bad use; 130 when it was interrupted and 143 when it was terminated. Whichever way
it ends in the middle, there is a report of what was played until then.
"""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentTypeError
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkalite.cli.ending import FAILED_STATUS, USAGE_STATUS, as_json, as_lines, complain, end, put
from kafkalite.cli.reaching import add_access_options
from kafkalite.cli.streams import open_closed_streams

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator
    from types import FrameType

    from kafkalite.replay.report import ReplayReport

_FAIL_ON = ("none", "unanswered", "error", "difference", "timing")
_MOST_SPEED = 1_000_000.0
_TELL_EVERY_S = 10.0
_TERMINATED_STATUS = 128 + signal.SIGTERM


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
        default="5s",
        help="how much longer than the recorded broker the target may take for an answer before "
        "it counts as none [5s]",
    )
    parser.add_argument(
        "--fail-on",
        choices=_FAIL_ON,
        default="difference",
        help="what makes the exit status 1, with all that is graver: answers that never come, "
        "errors that differ, fields that differ, or what may come of timing too [difference]",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_access_options(parser)


def replay(asked: Namespace) -> None:
    """Replay as `asked`, print what was found, and exit by it; SystemExit."""
    with _terminated_as_interrupted():
        _replay(asked)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, but for the exit status; SystemExit."""
    is_terminated = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal is_terminated
        is_terminated = True
        # An event loop that runs has a handler of its own; in the background there may be none.
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(number, frame)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if is_terminated:
            sys.exit(_TERMINATED_STATUS)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _replay(asked: Namespace) -> None:
    # Imported here, for a broker starts sooner without them.
    from kafkalite.cli.reaching import access_from  # noqa: PLC0415
    from kafkalite.control.times import duration_ms  # noqa: PLC0415
    from kafkalite.replay import calls  # noqa: PLC0415
    from kafkalite.replay.options import ReplayOptions  # noqa: PLC0415
    from kafkalite.replay.pace import ClockError  # noqa: PLC0415
    from kafkalite.replay.report import FailOn  # noqa: PLC0415

    open_closed_streams()
    progress = _Progress()
    try:
        report = calls.replay(
            asked.captures,
            to=asked.to,
            options=ReplayOptions(
                speed=asked.speed,
                clients=asked.clients,
                control=asked.control,
                access=access_from(asked),
                patience_s=duration_ms(asked.timeout) / 1000,
                progress=progress,
            ),
        )
    except KeyboardInterrupt:
        if progress.report is not None:
            _tell_broken_off(asked, progress.report, "it was interrupted")
            complain("interrupted: the rest of the capture was not played")
        raise
    except calls.NothingToReplayError as error:
        end(USAGE_STATUS, str(error))
    except (calls.ReplayError, ClockError) as error:
        if progress.report is not None and progress.report.responses:
            _tell_broken_off(asked, progress.report, str(error))
        end(FAILED_STATUS, str(error))
    except ValueError as error:
        end(USAGE_STATUS, str(error))
    _tell(asked, report)
    if report.broken_off is not None:
        end(FAILED_STATUS, f"broken off, for the target is gone: {report.broken_off}")
    if report.failed(FailOn[asked.fail_on.upper()]):
        sys.exit(FAILED_STATUS)


def _tell_broken_off(asked: Namespace, report: ReplayReport, why: str) -> None:
    report.broken_off = why
    _tell(asked, report)


def _tell(asked: Namespace, report: ReplayReport) -> None:
    from kafkalite.replay.telling import replay_text  # noqa: PLC0415 - see above

    put(as_json(report.to_json()) if asked.json else as_lines(replay_text(report)))


class _Progress:
    """Says on stderr how far a replay is, if it takes long."""

    def __init__(self) -> None:
        self._told_s = 0.0
        self.report: ReplayReport | None = None
        """What has been found so far."""

    def __call__(self, report: ReplayReport, at_ns: int) -> None:
        self.report = report
        if report.seconds - self._told_s < _TELL_EVERY_S:
            return
        from kafkalite.replay.report import iso_of  # noqa: PLC0415 - see above

        self._told_s = report.seconds
        differing = report.responses - report.equal
        complain(
            f"{report.requests} requests so far, {differing} answers differ; at {iso_of(at_ns)} "
            "of the capture"
        )


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
