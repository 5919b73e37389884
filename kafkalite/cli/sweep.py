"""`kafkalite sweep`: run a command again and again, each time with one failure at one request.

The exit status is 0 without a finding, 1 with one, and 2 if the sweep cannot run. Ctrl-C, SIGTERM
and SIGHUP end the command, and print what was found so far.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self

from kafkalite.cli.argument_types import whole_number
from kafkalite.cli.interrupts import stops_as_interrupts
from kafkalite.cli.output import (
    FAILED_STATUS,
    USAGE_STATUS,
    as_json,
    exit_with_error,
    os_error_text,
    print_output,
)
from kafkalite.cli.streams import open_closed_streams, printable
from kafkalite.cli.tables import table_lines

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Sequence

    from kafkalite.lab.sweep.schedules import Schedule
    from kafkalite.lab.sweep.sweep import CaseResult, Sweep, SweepOptions
    from kafkalite.testing import Broker

_MAX_JOBS: Final = 64
_MAX_BROKERS: Final = 32
_MAX_DURATION_MS: Final = 30 * 86_400_000


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `sweep`."""
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND",
        help="command that uses the cluster in the variable KAFKA_BOOTSTRAP_SERVERS",
    )
    add = parser.add_argument
    add("--state", metavar="FILE", help="topics, records, groups and more of the cluster [empty]")
    add("--brokers", type=whole_number, default=3, metavar="N", help="number of nodes [3]")
    add("--clock", default="auto", metavar="MODE", help="clock, as for kafkalite serve [auto]")
    add(
        "--timeout",
        metavar="DURATION",
        help="time limit of a run [a minute and 5 times the slowest run without failures]",
    )
    add(
        "--check",
        metavar="COMMAND",
        help="command, or MODULE:FUNCTION of Python, that fails if something is wrong after a run",
    )
    add("--list", action="store_true", help="print the cases, and run none")
    add(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="run only cases like this, such as Produce or '*-lost'; can be repeated",
    )
    add("--skip", action="append", default=[], metavar="PATTERN", help="run no cases like this")
    add("--budget", metavar="DURATION", help="begin no case after this time, such as 10m [none]")
    for name, text in (("--seed", "seed of the order of cases"), ("--jobs", "simultaneous runs")):
        add(name, type=whole_number, default=1, metavar="N", help=f"{text} [1]")
    add(
        "--random",
        type=whole_number,
        metavar="N",
        help="run N times with two to five failures, and find the fewest that matter",
    )
    add("--case", metavar="CASE", help="run one case, such as 'Produce#3 orders-0 late'")
    add("--keep", action="store_true", help="let the broker of --case run until Ctrl-C")
    add(
        "--resume",
        metavar="FILE",
        help="write each result to a file, and run no case that it already has",
    )
    add("--json", metavar="FILE", help="write the results as JSON")
    add("--junit", metavar="FILE", help="write the results as JUnit XML")
    add("--html", metavar="FILE", help="write the results as an HTML page with time lines")


def run(arguments: Namespace) -> None:
    """Run the sweep, and print the report; raises SystemExit with a status other than 0."""
    with stops_as_interrupts():
        _run(arguments)


def _run(arguments: Namespace) -> None:
    open_closed_streams()
    # Imported here: a broker starts faster without them.
    from kafkalite.cli.process import START_ERRORS  # noqa: PLC0415
    from kafkalite.lab.sweep.commands import CommandError  # noqa: PLC0415
    from kafkalite.lab.sweep.schedules import schedule_text  # noqa: PLC0415
    from kafkalite.lab.sweep.sweep import Sweep, SweepError  # noqa: PLC0415

    try:
        options = _options(arguments)
        budget_s = _seconds("--budget", arguments.budget)
        schedule = _schedule(arguments)
        output = _Output(arguments, options)
        with Sweep(options) as sweep:
            sweep.run_baseline(_report_baseline)
            schedules = _selected(sweep, arguments) if schedule is None else [schedule]
            if arguments.list:
                print_output("".join(f"{printable(schedule_text(each))}\n" for each in schedules))
                return
            if arguments.keep:
                output.results.append(sweep.run(schedules[0], keep=_wait_for_interrupt))
                status = output.write(1)
            else:
                status = _sweep(sweep, schedules, output, budget_s)
    except SweepError as error:
        sys.stderr.write(f"kafkalite: {_printable_lines(str(error))}\n")
        raise SystemExit(USAGE_STATUS) from None
    except (ValueError, CommandError, *START_ERRORS) as error:
        exit_with_error(USAGE_STATUS, str(error))
    except OSError as error:
        exit_with_error(USAGE_STATUS, os_error_text(error))
    if status:
        raise SystemExit(status)


def _printable_lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.splitlines())


def _options(arguments: Namespace) -> SweepOptions:
    """Return the options of a sweep; raises ValueError for invalid ones."""
    from kafkalite.lab.sweep.sweep import SweepOptions  # noqa: PLC0415 - see above

    command = arguments.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise ValueError("sweep needs a command: kafkalite sweep -- COMMAND")
    for name, value, highest in (
        ("--jobs", arguments.jobs, _MAX_JOBS),
        ("--brokers", arguments.brokers, _MAX_BROKERS),
    ):
        if not 1 <= value <= highest:
            raise ValueError(f"{name} {value} is not between 1 and {highest}")
    return SweepOptions(
        command=tuple(command),
        check=_words("--check", arguments.check),
        state=arguments.state,
        brokers=arguments.brokers,
        clock=arguments.clock,
        limit_s=_seconds("--timeout", arguments.timeout),
        jobs=arguments.jobs,
        confirmations=0 if arguments.keep else 1,
    )


def _words(option: str, text: str | None) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text or ""))
    except ValueError as error:
        raise ValueError(f"{option} {text!r}: {error}".lower()) from None
    if text is not None and not words:
        raise ValueError(f"{option} is empty: write a command")
    return words


def _seconds(option: str, text: str | None) -> float | None:
    from kafkalite.ports.times import duration_ms  # noqa: PLC0415 - see above

    if text is None:
        return None
    milliseconds = duration_ms(text)
    if milliseconds <= 0:
        raise ValueError(f"{option} {text!r} is not longer than 0")
    if milliseconds > _MAX_DURATION_MS:
        raise ValueError(f"{option} {text!r} is longer than 30 days")
    return milliseconds / 1000


def _schedule(arguments: Namespace) -> Schedule | None:
    """Return the failures of `--case`, if any; raises ValueError for invalid options."""
    from kafkalite.lab.sweep.schedules import parse_schedule  # noqa: PLC0415 - see above

    if arguments.random is not None and arguments.random < 1:
        raise ValueError(f"--random {arguments.random} is not above 0")
    if arguments.keep and arguments.resume is not None:
        raise ValueError("--keep runs a case for a look at its broker: it cannot be with --resume")
    if arguments.case is not None:
        for name in ("only", "skip", "random", "budget"):
            if getattr(arguments, name):
                raise ValueError(f"--{name} selects from all cases: it cannot be with --case")
        return parse_schedule(arguments.case)
    if arguments.keep:
        raise ValueError("--keep needs --case, which says whose broker to keep")
    return None


def _wait_for_interrupt(cluster: Broker) -> None:
    """Let a cluster run until Ctrl-C."""
    _note(
        f"the broker is at {cluster.bootstrap_servers}, its control API at {cluster.control_url}; "
        "stop it with Ctrl-C"
    )
    with suppress(KeyboardInterrupt):
        Event().wait()


def _selected(sweep: Sweep, arguments: Namespace) -> list[Schedule]:
    """Return the selected cases in their order; raises ValueError if there is none."""
    from kafkalite.lab.sweep.cases import ordered, selected  # noqa: PLC0415 - see above
    from kafkalite.lab.sweep.schedules import random_schedules  # noqa: PLC0415 - as above

    every = sweep.cases()
    cases = ordered(selected(every, arguments.only, arguments.skip), arguments.seed)
    if not cases:
        raise ValueError(f"--only and --skip select none of {len(every)} cases; see --list")
    if arguments.random is not None:
        return [*random_schedules(cases, arguments.random, arguments.seed)]
    return [(each,) for each in cases]


def _report_baseline(number: int) -> None:
    from kafkalite.lab.sweep.sweep import BASELINE_RUNS  # noqa: PLC0415 - see above

    _note(f"run {number} of {BASELINE_RUNS} without failures")


def _note(text: str) -> None:
    sys.stderr.write(f"kafkalite: {printable(text)}\n")
    sys.stderr.flush()


class _Output:
    """The results of a sweep, and the files that they are written to."""

    def __init__(self, arguments: Namespace, options: SweepOptions) -> None:
        """Read the file of `--resume`, and open the others; raises ValueError and OSError."""
        from kafkalite.lab.sweep.stored_results import ResultFile  # noqa: PLC0415 - see above

        self._options = options
        if arguments.html is not None:
            _check_library("--html", "jinja2")
        resume = arguments.resume
        self._file = None if resume is None else ResultFile(resume, options)
        self.results: list[CaseResult] = [] if self._file is None else self._file.results
        self._paths = [
            (path, write)
            for path, write in (
                (arguments.json, _json_text),
                (arguments.junit, _junit_text),
                (arguments.html, _html_text),
            )
            if path is not None
        ]
        for path, _ in self._paths:
            _check_writable(path)

    def add(self, result: CaseResult) -> None:
        """Add a result."""
        self.results.append(result)
        if self._file is not None:
            self._file.add(result)

    def write(self, total: int) -> int:
        """Print and write the report, and return the exit status."""
        from kafkalite.lab.sweep.report import finding_lines, shown, summary, table  # noqa: PLC0415

        results = self.results
        for each in shown(results):
            for line in finding_lines(each, self._options):
                print_output(f"{printable(line)}\n")
        header, rows = table(results)
        if rows:
            for line in table_lines(header, rows):
                print_output(f"{line}\n")
        print_output(f"{summary(results, total)}\n")
        errors: list[OSError] = []
        for path, text in self._paths:
            shape = text(results, self._options, total)
            try:
                # Arguments of the command can have bytes that are not UTF-8.
                Path(path).write_text(shape, encoding="utf-8", errors="backslashreplace")
            except OSError as error:
                error.filename = path  # a full disk may be noticed by a flush, which names none
                errors.append(error)
        if errors:  # the other files have been written
            raise errors[0]
        return FAILED_STATUS if any(each.verdict.is_finding for each in results) else 0


def _check_writable(path: str) -> None:
    """Raise OSError or ValueError for a file that cannot be written, before the sweep runs.

    The file is not opened, because the reader of a pipe would see its end.
    """
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"{path} is a directory: write the name of a file")
    target.touch()
    if not os.access(target, os.W_OK):
        raise ValueError(f"{path} cannot be written: permission denied")


def _check_library(option: str, name: str) -> None:
    """Raise ValueError if a library is not installed."""
    from importlib.util import find_spec  # noqa: PLC0415 - rarely used

    from kafkalite.ports.extras import install_command  # noqa: PLC0415 - as above

    if find_spec(name) is None:
        raise ValueError(f"{option} needs {name}: {install_command('sweep')}")


def _json_text(results: Sequence[CaseResult], options: SweepOptions, total: int) -> str:
    from kafkalite.lab.sweep.stored_results import sweep_as_json  # noqa: PLC0415 - see above

    return as_json(sweep_as_json(results, options, total))


def _junit_text(results: Sequence[CaseResult], options: SweepOptions, total: int) -> str:
    from kafkalite.lab.sweep.junit import junit_xml  # noqa: PLC0415 - see above

    del total
    return junit_xml(results, options)


def _html_text(results: Sequence[CaseResult], options: SweepOptions, total: int) -> str:
    from kafkalite.lab.sweep.page import html_page  # noqa: PLC0415 - see above

    return html_page(results, options, total)


def _sweep(
    sweep: Sweep, schedules: Sequence[Schedule], output: _Output, budget_s: float | None
) -> int:
    """Run with all failures, print the report, and return the exit status."""
    deadline = None if budget_s is None else monotonic() + budget_s
    done = {each.schedule for each in output.results}
    pending = [each for each in schedules if each not in done]
    total = len(pending) + len(output.results)
    try:
        with _Progress(len(pending)) as progress:
            for each in sweep.run_all(pending, _is_over(deadline)):
                output.add(each)
                progress.add(each)
    except BaseException:  # Ctrl-C, a full disk or a command that is gone: report what was found
        sweep.stop()
        output.write(total)
        raise
    return output.write(total)


def _is_over(deadline: float | None) -> Callable[[], bool]:
    return lambda: deadline is not None and monotonic() >= deadline


class _Progress:
    """A progress bar on a terminal, if rich is installed; else a line for each finding."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._findings = 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            with suppress(ImportError):
                from rich.console import Console  # noqa: PLC0415 - only on terminals
                from rich.progress import Progress  # noqa: PLC0415 - as above

                self._bar = Progress(console=Console(file=sys.stderr), transient=True)
                self._task = self._bar.add_task("sweep", total=self._total)
                self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, result: CaseResult) -> None:
        """Show that a case has ended."""
        self._findings += result.verdict.is_finding
        if self._bar is not None:
            text = f"sweep, {self._findings} findings" if self._findings else "sweep"
            self._bar.update(self._task, advance=1, description=text)
        elif result.verdict.is_finding:
            _note(f"failed: {result.text}")
