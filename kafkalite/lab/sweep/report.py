"""The report of a sweep as text: findings, and a table of APIs and failures."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalite.lab.sweep.failures import FAILURES
from kafkalite.lab.sweep.sweep import DEFAULT_BROKERS, DEFAULT_CLOCK
from kafkalite.lab.sweep.verdict import Outcome
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalite.lab.sweep.sweep import CaseResult, SweepOptions

Cells = list[str]

_SHOWN: Final = (Outcome.FAILED, Outcome.UNSTEADY, Outcome.SLOW)
"""Outcomes with a line for each case."""
_WITHOUT_FAILURE: Final = frozenset((Outcome.NOT_REACHED, Outcome.NOT_TRUE))
"""Outcomes of runs that say nothing about a failure."""


def repeating_line(result: CaseResult, options: SweepOptions) -> str:
    """Return the command of the shell that repeats a run."""
    given = {
        "--state": options.state,
        "--brokers": None if options.brokers == DEFAULT_BROKERS else str(options.brokers),
        "--clock": None if options.clock == DEFAULT_CLOCK else options.clock,
        "--timeout": None if options.limit_s is None else f"{round(options.limit_s * 1000)}ms",
        "--check": shlex.join(options.check) or None,
    }
    words = [word for name, value in given.items() if value for word in (name, value)]
    return shlex.join(["kafkalite", "sweep", "--case", result.text, *words, "--", *options.command])


def finding_lines(result: CaseResult, options: SweepOptions) -> Iterator[str]:
    """Yield the lines about a case that is worth a look."""
    yield f"{result.verdict.outcome.value}: {result.text}"
    yield from (f"  {each.api}#{each.nth} {each.kind.text}" for each in result.schedule)
    for reason in result.verdict.reasons:
        yield f"  {reason}"
    yield from (f"  note: {each}" for each in result.verdict.notes)
    for line in result.output.splitlines():
        yield f"    | {line}"
    yield f"  repeat: {repeating_line(result, options)}"


def shown(results: Iterable[CaseResult]) -> list[CaseResult]:
    """Return the results that are worth a look, findings first."""
    found = [each for each in results if each.verdict.outcome in _SHOWN]
    return sorted(found, key=lambda each: _SHOWN.index(each.verdict.outcome))


def table(results: Iterable[CaseResult]) -> tuple[Cells, list[Cells]]:
    """Return the header and the rows of a table: failures by API, with the numbers of cases.

    A run with several failures counts for the first. A cell is "5" if no finding is in 5 cases, and
    "2/5" if 2 of them are findings. Cases in which the failure did not happen are not counted.
    """
    total: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for each in results:
        if each.verdict.outcome in _WITHOUT_FAILURE:
            continue
        first = each.schedule[0]
        key = first.failure, first.api
        total[key] += 1
        failed[key] += each.verdict.is_finding
    apis = list(dict.fromkeys(api for _, api in total))
    rows = [
        [failure, *(_cell(failed[failure, api], total[failure, api]) for api in apis)]
        for failure in FAILURES
        if any(name == failure for name, _ in total)
    ]
    return ["failure", *apis], rows


def _cell(failed: int, total: int) -> str:
    if not total:
        return ""
    return f"{failed}/{total}" if failed else f"{total}"


def summary(results: Sequence[CaseResult], total: int) -> str:
    """Return the numbers of cases by outcome, and of those that were not run."""
    counts = Counter(each.verdict.outcome for each in results)
    parts = [f"{counts[each]} {each.value}" for each in Outcome if counts[each]]
    if total > len(results):
        parts.append(f"{total - len(results)} not run")
    return f"{count_text(total, 'case')}: {', '.join(parts) or 'none run'}"
