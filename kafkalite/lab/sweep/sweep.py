"""The sweep: runs without failures, the cases that follow from them, and a run for each case."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final, Self

from kafkalite.lab.sweep.cases import cases_of
from kafkalite.lab.sweep.checks import check_of
from kafkalite.lab.sweep.commands import Command, CommandError
from kafkalite.lab.sweep.runs import (
    BOOTSTRAP_VARIABLE,
    Runs,
    context_of,
    timeouts_ms,
    usual_of,
)
from kafkalite.lab.sweep.schedules import schedule_text, shrunk
from kafkalite.lab.sweep.verdict import Outcome, confirmed, needs_run, verdict
from kafkalite.testing.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from kafkalite.lab.sweep.cases import Case
    from kafkalite.lab.sweep.failures import CaseContext
    from kafkalite.lab.sweep.runs import PlainRun
    from kafkalite.lab.sweep.schedules import Schedule
    from kafkalite.lab.sweep.timeline import Moment
    from kafkalite.lab.sweep.verdict import Observed, Verdict

DEFAULT_BROKERS: Final = 3
DEFAULT_CLOCK: Final = "auto"
BASELINE_RUNS: Final = 3
"""Runs without failures: a command that does not always succeed cannot be swept."""
_BASELINE_LIMIT_S: Final = 600.0
_LIMIT_FACTOR: Final = 5
_LIMIT_MARGIN_S: Final = 60.0
"""The time limit of a run is this more than a multiple of the slowest one without failures.

A client may wait for its own timeouts, most of which are 30 or 60 s by default."""
_OUTPUT_LINES: Final = 20


class SweepError(Exception):
    """A sweep that cannot run; one sentence, and perhaps the output of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What to run, and with which cluster."""

    command: tuple[str, ...]
    check: tuple[str, ...] = ()
    """A command, or a `module:function`, that fails after a run if something is wrong."""
    state: str | None = None
    """A file with topics, records, groups and more; see `Broker`."""
    brokers: int = DEFAULT_BROKERS
    clock: str = DEFAULT_CLOCK
    limit_s: float | None = None
    """The time limit of a run; by default it follows from the runs without failures."""
    jobs: int = 1
    """The number of runs at the same time."""
    confirmations: int = 1
    """How often a finding must repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The verdict about a case."""

    schedule: Schedule
    """The failures of the run, usually one."""
    verdict: Verdict
    seconds: float
    output: str = ""
    """The end of the command's output, for a finding."""
    timeline: tuple[Moment, ...] = ()
    """What happened in the first run, for a finding."""

    @property
    def text(self) -> str:
        """The text form of the failures."""
        return schedule_text(self.schedule)


class Sweep:
    """Runs a command with one failure after another; a context manager."""

    def __init__(self, options: SweepOptions) -> None:
        """Prepare a cluster; raises ValueError for an invalid state, clock or check."""
        self._options = options
        self._broker = Broker(
            options.brokers,
            config={"default.replication.factor": options.brokers},
            state=options.state,
            storage="memory",
            clock=options.clock,
            control=True,
            log_level="error",
        )
        self._command = Command(options.command)
        self._check = check_of(options.check)
        self._stack = ExitStack()
        self._runs: Runs | None = None
        self._plain: tuple[PlainRun, ...] = ()

    def __enter__(self) -> Self:
        broker = self._stack.enter_context(self._broker)
        self._runs = Runs(broker, self._command, self._check, broker.snapshot())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        self._stack.__exit__(kind, error, traceback)

    def stop(self) -> None:
        """End the commands that run."""
        self._command.stop()
        if self._check is not None:
            self._check.stop()

    def run_baseline(self, report: Callable[[int], None]) -> None:
        """Run the command without failures; `report` is called with the number of each run.

        Raises SweepError if the command fails, or does not reach the cluster.
        """
        assert self._runs is not None
        limit_s = self._options.limit_s or _BASELINE_LIMIT_S
        runs: list[PlainRun] = []
        for number in range(1, BASELINE_RUNS + 1):
            report(number)
            try:
                run = self._runs.plain(limit_s)
            except CommandError as error:
                raise SweepError(str(error)) from error
            problem = _problem(run, number)
            if problem is not None:
                raise SweepError(problem)
            runs.append(run)
        self._plain = tuple(runs)

    @property
    def limit_s(self) -> float:
        """The time limit of a run."""
        slowest = max(each.command.seconds for each in self._plain)
        return self._options.limit_s or _LIMIT_FACTOR * slowest + _LIMIT_MARGIN_S

    def cases(self) -> list[Case]:
        """Return all cases, in the order of the requests."""
        return cases_of([each.requests for each in self._plain], self._context())

    def _context(self) -> CaseContext:
        return context_of(self._plain)

    def run(
        self, schedule: Schedule, *, keep: Callable[[Broker], None] | None = None
    ) -> CaseResult:
        """Run with these failures, and again if the command fails.

        `keep` is called before the cluster ends.

        Raises CommandError if the command cannot start, and after `stop`.
        """
        verdicts: list[Verdict] = []
        observed: list[Observed] = []
        while needs_run(verdicts, self._options.confirmations):
            observed.append(self._observe(schedule, keep))
            verdicts.append(verdict(observed[-1]))
        final = confirmed(verdicts)
        is_interesting = final.outcome in {Outcome.FAILED, Outcome.UNSTEADY, Outcome.SLOW}
        return CaseResult(
            schedule=schedule,
            verdict=final,
            seconds=sum(each.command.seconds for each in observed),
            output=_last_lines(observed[0].command.output) if is_interesting else "",
            timeline=observed[0].timeline if is_interesting else (),
        )

    def run_shrunk(self, schedule: Schedule) -> CaseResult:
        """Run with these failures; for a finding, return the result with the fewest of them."""
        result = self.run(schedule)
        if not result.verdict.is_finding or len(schedule) < 2:  # noqa: PLR2004 - one is the fewest
            return result
        results = {schedule: result}

        def fails(part: Schedule) -> bool:
            results[part] = self.run(part)
            return results[part].verdict.is_finding

        return results[shrunk(schedule, fails)]

    def _observe(self, schedule: Schedule, keep: Callable[[Broker], None] | None) -> Observed:
        assert self._runs is not None
        return self._runs.with_failures(
            schedule, self.limit_s, usual_of(self._plain), timeouts_ms(self._context()), keep=keep
        )

    def run_all(
        self, schedules: Iterable[Schedule], is_over: Callable[[], bool]
    ) -> Iterator[CaseResult]:
        """Yield the result of each schedule, as they end; begin none after `is_over()`.

        Raises CommandError if the command cannot start any more.
        """
        pending = iter(tuple(schedules))
        lock = Lock()
        results: SimpleQueue[CaseResult | BaseException | None] = SimpleQueue()

        def work() -> None:
            try:
                while not is_over():
                    with lock:
                        schedule = next(pending, None)
                    if schedule is None:
                        break
                    results.put(self.run_shrunk(schedule))
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                results.put(error)
            finally:
                results.put(None)

        threads = [Thread(target=work, daemon=True) for _ in range(self._options.jobs)]
        for each in threads:
            each.start()
        yield from _until_all_end(results, len(threads))


def _until_all_end(
    results: SimpleQueue[CaseResult | BaseException | None], workers: int
) -> Iterator[CaseResult]:
    while workers:
        result = results.get()
        if result is None:
            workers -= 1
        elif isinstance(result, BaseException):
            raise result
        else:
            yield result


def _problem(run: PlainRun, number: int) -> str | None:
    """Return why the command cannot be swept after a run without a failure, if it cannot."""
    result = run.command
    if result.status is None:
        what = f"did not end within {result.seconds:g} s"
    elif result.status:
        what = f"ended with exit status {result.status}"
    elif not run.requests:
        return (
            "the command never reached the cluster: it must connect to the address in the "
            f"variable {BOOTSTRAP_VARIABLE}"
        )
    elif run.check is not None:
        return f"the check fails without a failure{_quoted(run.check.output)}"
    else:
        return None
    if number == 1:
        return f"the command fails without a failure: it {what}{_quoted(result.output)}"
    return (
        f"the command is flaky: it succeeded {number - 1} times without a failure, and then it "
        f"{what}{_quoted(result.output)}"
    )


def _quoted(output: str) -> str:
    lines = _last_lines(output)
    return f"; its last lines are\n{lines}" if lines else ""


def _last_lines(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-_OUTPUT_LINES:])
