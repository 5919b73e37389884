"""The sweep of tests: with `--kafkalite-sweep`, each test with the fixture runs once per case.

A test runs twice without a failure. Then it runs once for each case, in this process and with a new
broker, and each case has a report of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from _pytest.runner import CallInfo, runtestprotocol

from kafkalite.lab.sweep.cases import cases_of, ordered, selected
from kafkalite.lab.sweep.commands import CommandResult
from kafkalite.lab.sweep.runs import (
    AppliedFailures,
    Usual,
    context_of,
    plain_run,
    recorded,
    timeouts_ms,
    usual_of,
)
from kafkalite.lab.sweep.verdict import Observed, Outcome, Verdict, confirmed, needs_run, verdict
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from kafkalite.lab.sweep.cases import Case
    from kafkalite.lab.sweep.failures import FollowUp
    from kafkalite.lab.sweep.requests import RequestRecorder
    from kafkalite.lab.sweep.runs import PlainRun
    from kafkalite.testing.broker import Broker

FIXTURE: Final = "kafkalite"
MARKER: Final = "kafkalite_sweep"
_PLAIN_RUNS: Final = 2
_CONFIRMATIONS: Final = 1
_SUCCESS, _FAILURE = 0, 1
_CASE: Final = "kafkalite_case"
"""The attribute of the report of a case with its name."""
_ARGUMENTS: Final[Mapping[str, Any]] = {"only": (), "skip": ("stalled",), "seed": 1, "limit": None}
"""Argument of the marker → its default."""


def _are_patterns(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


_PATTERNS: Final = (_are_patterns, "a list of patterns such as ['Produce', '*-lost']")
_VALID: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "only": _PATTERNS,
    "skip": _PATTERNS,
    "seed": (lambda value: isinstance(value, int), "a whole number"),
    "limit": (
        lambda value: value is None or (isinstance(value, int) and value > 0),
        "a number above 0, or None",
    ),
}
"""Argument of the marker → whether a value is valid, and what would be."""


def pytest_configure(config: pytest.Config) -> None:
    """Name the reports of cases, but not in a worker of xdist, whose controller names them."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_CaseNames(), "kafkalite-sweep-case-names")


class _CaseNames:
    """Adds the case to the name of its report.

    xdist expects that a worker reports only tests that it has collected.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Rename a report before it is shown."""
        case = getattr(report, _CASE, None)
        if case is not None:
            path, line, domain = report.location
            report.nodeid = f"{report.nodeid}[{case}]"
            report.location = (path, line, f"{domain}[{case}]")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse markers with other or invalid arguments, before a test runs."""
    for item in items:
        marker = item.get_closest_marker(MARKER)
        if marker is not None and (marker.args or not marker.kwargs.keys() <= _ARGUMENTS.keys()):
            names = ", ".join(_ARGUMENTS)
            raise pytest.UsageError(
                f"{item.nodeid}: pytest.mark.{MARKER} has the arguments {names}, each by its name"
            )
        for name, value in ({} if marker is None else marker.kwargs).items():
            is_valid, valid = _VALID[name]
            if not is_valid(value):
                raise pytest.UsageError(
                    f"{item.nodeid}: {name}={value!r} of pytest.mark.{MARKER} is not {valid}"
                )


class _Applied(NamedTuple):
    """The case of the present run, and what it needs."""

    case: Case
    usual: Usual
    timeouts_ms: Mapping[FollowUp, int]


class _Run:
    """One run of a test."""

    def __init__(self, applied: _Applied | None) -> None:
        self.applied = applied
        self.recorder: RequestRecorder | None = None
        self.failures: AppliedFailures | None = None
        self.plain: PlainRun | None = None
        self.observed: Observed | None = None

    def begin(self, broker: Broker) -> None:
        """Begin when the broker of the fixture runs."""
        self.recorder = recorded(broker)
        if self.applied is not None:
            case, _, timeouts = self.applied
            self.failures = AppliedFailures(broker, self.recorder, [case], timeouts)

    def end(self, broker: Broker, status: int) -> None:
        """End after the function of the test, before the broker stops."""
        assert self.recorder is not None
        result = CommandResult(status=status, seconds=0, output="")
        if self.failures is not None and self.applied is not None:
            self.observed = self.failures.observed(result, self.applied.usual)
            return
        self.plain = plain_run(broker, self.recorder, result)


_RUN: Final = pytest.StashKey[_Run]()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Begin a run when its broker has started."""
    value: Any = yield
    run = request.node.stash.get(_RUN, None) if fixturedef.argname == FIXTURE else None
    if run is not None:
        run.begin(value)
    return value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """End a run when the function of the test has ended."""
    run = item.stash.get(_RUN, None)
    status = _FAILURE
    try:
        yield
        status = _SUCCESS
    finally:
        broker = getattr(item, "funcargs", {}).get(FIXTURE)
        if run is not None and broker is not None and _is_running(broker):
            run.end(broker, status)


def _is_running(broker: Broker) -> bool:
    try:
        return bool(broker.bootstrap_servers)
    except RuntimeError:  # the test has stopped it
        return False


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test with the fixture once per case; other tests run as usual."""
    if FIXTURE not in getattr(item, "fixturenames", ()):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    _sweep(item)
    _end_fixtures(item, nextitem)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _sweep(item: pytest.Item) -> None:
    plain: list[PlainRun] = []
    for number in range(_PLAIN_RUNS):
        run, reports = _run(item, None)
        has_passed = all(report.passed for report in reports)
        if number == 0 or not has_passed:
            for report in reports:
                item.ihook.pytest_runtest_logreport(report=report)
        if has_passed and run.plain is None:
            reason = "the test stops its broker, so its requests are not known"
            item.ihook.pytest_runtest_logreport(report=_skipped(item, "sweep", reason))
        if not has_passed or run.plain is None:
            return
        plain.append(run.plain)
    context = context_of(plain)
    every = cases_of([each.requests for each in plain], context)
    cases = _cases(item, every)
    if every and not cases:
        reason = f"only and skip select none of {len(every)} cases"
        item.ihook.pytest_runtest_logreport(report=_skipped(item, "sweep", reason))
    for case in cases:
        if item.session.shouldfail or item.session.shouldstop:
            return  # as after --maxfail
        applied = _Applied(case, usual_of(plain), timeouts_ms(context))
        _run_case(item, applied)


def _end_fixtures(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the fixtures that the next test does not use, after all runs; report an error."""
    state = item.session._setupstate  # noqa: SLF001 - as in `_run`
    call = CallInfo.from_call(lambda: state.teardown_exact(nextitem), when="teardown")
    if call.excinfo is not None:
        report = item.ihook.pytest_runtest_makereport(item=item, call=call)
        item.ihook.pytest_runtest_logreport(report=report)


def _cases(item: pytest.Item, every: Sequence[Case]) -> Sequence[Case]:
    """Return the cases that the marker of a test selects, in their order."""
    marker = item.get_closest_marker(MARKER)
    arguments: dict[str, Any] = {**_ARGUMENTS, **({} if marker is None else marker.kwargs)}
    found = selected(every, arguments["only"], arguments["skip"])
    return ordered(found, arguments["seed"])[: arguments["limit"]]


def _run(item: pytest.Item, applied: _Applied | None) -> tuple[_Run, list[pytest.TestReport]]:
    """Run a test with new fixtures; return the run and its reports, which are not logged.

    Fixtures of other scopes than `function` remain for the next run.
    """
    # As plugins that repeat tests do: pytest has no function for that.
    if isinstance(item.parent, pytest.Class):  # each run has a new instance of the class
        for name in ("_instance", "_obj"):
            vars(item).pop(name, None)
    item._initrequest()  # type: ignore[attr-defined]  # noqa: SLF001
    item._report_sections.clear()  # noqa: SLF001
    run = item.stash[_RUN] = _Run(applied)
    try:
        # Only what `nextitem.listchain()` has is not torn down: all but the test itself.
        return run, runtestprotocol(item, log=False, nextitem=item.parent)  # type: ignore[arg-type]
    finally:
        del item.stash[_RUN]


def _run_case(item: pytest.Item, applied: _Applied) -> None:
    """Run a test with a failure, and again if it fails; log one report for the case."""
    verdicts: list[Verdict] = []
    first: list[pytest.TestReport] = []
    while needs_run(verdicts, _CONFIRMATIONS):
        run, reports = _run(item, applied)
        first = first or reports
        verdicts.append(_verdict_of(run, reports))
    final = confirmed(verdicts)
    called = next((each for each in first if each.failed), first[min(1, len(first) - 1)])
    item.ihook.pytest_runtest_logreport(report=_report_of(item, applied.case, final, called))


def _verdict_of(run: _Run, reports: Sequence[pytest.TestReport]) -> Verdict:
    """Return what a run with a failure says; a fixture may fail after what was observed."""
    if run.observed is None:  # the fixtures of the test did not survive the failure
        return Verdict(outcome=Outcome.FAILED, reasons=("a fixture failed",))
    found = verdict(run.observed)
    fails_later = run.observed.command.is_success and any(each.failed for each in reports)
    if found.outcome is Outcome.SURVIVED and fails_later:
        reasons = ("the end of a fixture, or a check at the end of the test, failed",)
        return Verdict(outcome=Outcome.FAILED, reasons=reasons, notes=found.notes)
    return found


def _report_of(
    item: pytest.Item, case: Case, final: Verdict, called: pytest.TestReport
) -> pytest.TestReport:
    reasons = "; ".join(final.reasons)
    report = pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=called.keywords,
        outcome="passed",
        longrepr=None,
        when="call",
        sections=called.sections,
        duration=called.duration,
        start=called.start,
        stop=called.stop,
    )
    setattr(report, _CASE, _escaped(str(case)))
    if final.is_finding:
        report.outcome = "failed"
        report.longrepr = called.longrepr if called.failed else reasons
    elif final.outcome is not Outcome.SURVIVED:
        report.outcome = "skipped"
        report.longrepr = _reason_of_skip(
            item, ": ".join(filter(None, (final.outcome.value, reasons)))
        )
    return report


def _escaped(text: str) -> str:
    """Return a text with control characters escaped, as pytest does with parameters."""
    return text.encode("unicode_escape").decode()


def _reason_of_skip(item: pytest.Item, text: str) -> tuple[str, int, str]:
    path, line, _ = item.location
    return path, line or 0, text


def _skipped(item: pytest.Item, name: str, reason: str) -> pytest.TestReport:
    report = pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome="skipped",
        longrepr=_reason_of_skip(item, reason),
        when="call",
    )
    setattr(report, _CASE, name)
    return report
