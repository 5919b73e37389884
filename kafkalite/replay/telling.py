"""Reports told to people: what was found, the gravest first, each with its first example."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.replay.findings import Severity
from kafkalite.replay.report import iso_of, often

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.replay.report import Finding, ReplayReport

_TITLES = {
    Severity.UNANSWERED: "not answered",
    Severity.ERROR: "errors differ",
    Severity.DIFFERENCE: "fields differ",
    Severity.TIMING: "may come of timing",
    Severity.EXPLAINED: "explained",
}
MOST_TOLD = 50
"""Kinds of findings that are told to people; machines get them all."""


def replay_text(report: ReplayReport) -> str:
    """Return the report of a replay as people read it."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: ReplayReport) -> Iterator[str]:
    rate = report.requests / report.seconds if report.seconds else 0.0
    yield (
        f"{report.requests} requests on {report.connections} connections in "
        f"{report.seconds:.1f} s ({rate:.0f}/s); they had taken {report.recorded_seconds:.1f} s"
    )
    yield f"{report.responses} responses compared, {report.equal} alike"
    told = 0
    for severity in sorted(_TITLES, reverse=True):
        found = [each for each in report.findings if each.severity is severity]
        if not found:
            continue
        times = sum(each.times for each in found)
        yield ""
        yield f"{_TITLES[severity]}: {often(times)}, of {_kinds(len(found))}"
        for each in found[: max(0, MOST_TOLD - told)]:
            yield from _finding_lines(each)
        if len(found) > MOST_TOLD - told:
            yield f"  … and {_kinds(len(found) - max(0, MOST_TOLD - told))} more: see --json"
        told += len(found)
    yield from _rest_lines(report)


def _kinds(number: int) -> str:
    return f"{number} kind" if number == 1 else f"{number} kinds"


def _finding_lines(found: Finding) -> Iterator[str]:
    where = found.first
    row = f" of {found.row}" if found.row else ""
    yield f"  {found.api} v{where.api_version} {found.path}{row}: {often(found.times)}"
    yield f"      recorded {found.recorded}"
    yield f"      target   {found.target}"
    client = "" if where.client_id is None else f", client {where.client_id}"
    yield f"      first at {iso_of(where.at_ns)}, {where.connection}{client}"
    if found.reason:
        yield f"      {found.reason}"


def _rest_lines(report: ReplayReport) -> Iterator[str]:
    if report.skipped:
        yield ""
        yield f"not sent: {sum(report.skipped.values())} requests"
        for (api, why), times in sorted(report.skipped.items()):
            yield f"  {api}: {often(times)}: {why}"
    if report.notes:
        yield ""
        yield from (f"note: {note}" for note in report.notes)
    if report.problems:
        yield ""
        yield f"problems of the capture: {sum(each.count for each in report.problems)}"
        for problem in report.problems[:MOST_TOLD]:
            place = problem.file if problem.offset is None else f"{problem.file}:{problem.offset}"
            yield f"  {problem.kind.value}: {place}: {problem.detail}"
