"""`kafkalite replay`: send the requests of a capture to a broker, and compare the responses.

The exit status is 1 for a finding that `--fail-on` selects and for a target that does not answer,
else 0. It is 2 for invalid arguments, 130 after an interrupt and 143 after SIGTERM. A replay that
ends early prints a report about the requests that were sent.
"""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from kafkalite.cli.access_options import add_access_options
from kafkalite.cli.control_access import add_token_options, token_from
from kafkalite.cli.interrupts import stops_as_interrupts
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

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kafkalite.lab.replay.report import ReplayReport

_FAIL_ON = ("none", "unanswered", "error", "difference", "configuration", "timing")
_MAX_SPEED = 1_000_000.0
_PROGRESS_INTERVAL_S = 10.0


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `replay`."""
    parser.add_argument(
        "captures", nargs="+", metavar="DIR", help="directory of captures, or one file"
    )
    parser.add_argument(
        "--to",
        metavar="HOST:PORT",
        required=True,
        help="the target: a broker of kafkalite or of Kafka",
    )
    parser.add_argument(
        "--speed",
        type=_parse_speed,
        default=None,
        metavar="SPEED",
        help="speed: original, a factor such as 10x, or max, as fast as the broker answers [max]",
    )
    parser.add_argument(
        "--clients", metavar="GLOB", help="replay only clients whose id matches, such as app-*"
    )
    parser.add_argument(
        "--control",
        metavar="URL",
        help="control API of a target that is a kafkalite broker: its clock follows the time of "
        "the capture, so that days take seconds",
    )
    add_token_options(parser)
    parser.add_argument(
        "--timeout",
        metavar="DURATION",
        default="5s",
        help="time that a response of the target may take in addition to the recorded time; a "
        "later response counts as missing [5s]",
    )
    parser.add_argument(
        "--fail-on",
        choices=_FAIL_ON,
        default="difference",
        help="exit with status 1 for a finding of this severity or a higher one; from the highest: "
        "missing responses (unanswered), different errors (error), different fields (difference), "
        "values with which the brokers were started (configuration), effects of timing (timing) "
        "[difference]",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_access_options(parser)


def run(arguments: Namespace) -> None:
    """Replay captures, print the report, and exit with its status; raises SystemExit."""
    with stops_as_interrupts():
        _replay(arguments)


def _replay(arguments: Namespace) -> None:
    # Imported here: a broker starts faster without them.
    from kafkalite.cli.access_options import access_from  # noqa: PLC0415
    from kafkalite.lab.replay.options import ReplayOptions  # noqa: PLC0415
    from kafkalite.lab.replay.player import run as player  # noqa: PLC0415
    from kafkalite.lab.replay.player.pacing import ClockError  # noqa: PLC0415
    from kafkalite.lab.replay.report import FailOn  # noqa: PLC0415
    from kafkalite.ports.times import duration_ms  # noqa: PLC0415

    open_closed_streams()
    progress = _Progress()
    try:
        report = player.replay(
            arguments.captures,
            to=arguments.to,
            options=ReplayOptions(
                speed=arguments.speed,
                clients=arguments.clients,
                control=arguments.control,
                control_token=token_from(arguments),
                control_authority=arguments.control_ca,
                access=access_from(arguments),
                timeout_s=duration_ms(arguments.timeout) / 1000,
                progress=progress,
            ),
        )
    except KeyboardInterrupt:
        if progress.report is not None:
            _print_partial_report(arguments, progress.report, "it was interrupted")
            print_to_stderr("interrupted: the rest of the capture was not replayed")
        raise
    except player.NothingToReplayError as error:
        exit_with_error(USAGE_STATUS, str(error))
    except (player.ReplayError, ClockError) as error:
        if progress.report is not None and progress.report.responses:
            _print_partial_report(arguments, progress.report, str(error))
        exit_with_error(FAILED_STATUS, str(error))
    except ValueError as error:
        exit_with_error(USAGE_STATUS, str(error))
    _print_report(arguments, report)
    if report.abort_reason is not None:
        exit_with_error(
            FAILED_STATUS, f"stopped early, the target does not answer: {report.abort_reason}"
        )
    if report.failed(FailOn[arguments.fail_on.upper()]):
        sys.exit(FAILED_STATUS)


def _print_partial_report(arguments: Namespace, report: ReplayReport, reason: str) -> None:
    report.abort_reason = reason
    _print_report(arguments, report)


def _print_report(arguments: Namespace, report: ReplayReport) -> None:
    from kafkalite.lab.replay.report_text import replay_text  # noqa: PLC0415 - see above

    print_output(as_json(report.to_json()) if arguments.json else as_lines(replay_text(report)))


class _Progress:
    """Prints the progress of a long replay on stderr."""

    def __init__(self) -> None:
        self._printed_at_s = 0.0
        self.report: ReplayReport | None = None
        """The report about the requests that were sent until now."""

    def __call__(self, report: ReplayReport, at_ns: int) -> None:
        self.report = report
        if report.seconds - self._printed_at_s < _PROGRESS_INTERVAL_S:
            return
        from kafkalite.lab.replay.report import iso_time  # noqa: PLC0415 - see above

        self._printed_at_s = report.seconds
        differing = report.responses - report.equal
        print_to_stderr(
            f"{report.requests} requests so far, {differing} answers differ; at {iso_time(at_ns)} "
            "of the capture"
        )


def _parse_speed(text: str) -> float | None:
    """Return the factor of the speed, None for the highest speed."""
    known = {"max": None, "original": 1.0}
    if text in known:
        return known[text]
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = 0.0
    if not 0 < speed <= _MAX_SPEED:
        raise ArgumentTypeError(f"{text!r} is not original, max or a factor such as 10x")
    return speed
