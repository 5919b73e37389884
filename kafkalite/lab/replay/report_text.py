"""The report of a replay as text: findings, the most severe first, each with its first example."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.lab.replay.comparison.findings import Severity
from kafkalite.lab.replay.report import iso_time
from kafkalite.ports.texts import count_text, times_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.replay.report import Finding, ReplayReport

_TITLES = {
    Severity.UNANSWERED: "not answered",
    Severity.ERROR: "errors differ",
    Severity.DIFFERENCE: "fields differ",
    Severity.CONFIGURATION: "configured differently",
    Severity.TIMING: "possibly timing",
    Severity.EXPLAINED: "explained",
}
MAX_LISTED = 50
"""Maximum number of kinds of findings in the text; the JSON report has all."""


def replay_text(report: ReplayReport) -> str:
    """Return the report of a replay as text, one or more lines."""
    return "".join(f"{line}\n" for line in _report_lines(report))


def _report_lines(report: ReplayReport) -> Iterator[str]:
    rate = report.requests / report.seconds if report.seconds else 0.0
    yield (
        f"{count_text(report.requests, 'request')} on "
        f"{count_text(report.connections, 'connection')} in "
        f"{report.seconds:.1f} s ({rate:.0f}/s), recorded in {report.recorded_seconds:.1f} s"
    )
    yield f"{count_text(report.responses, 'response')} compared, {report.equal} equal"
    listed_count = 0
    for severity in sorted(_TITLES, reverse=True):
        findings = [finding for finding in report.findings if finding.severity is severity]
        if not findings:
            continue
        times = sum(finding.times for finding in findings)
        yield ""
        yield f"{_TITLES[severity]}: {times_text(times)}, {count_text(len(findings), 'kind')}"
        for finding in findings[: max(0, MAX_LISTED - listed_count)]:
            yield from _finding_lines(finding)
        if len(findings) > MAX_LISTED - listed_count:
            omitted = len(findings) - max(0, MAX_LISTED - listed_count)
            yield f"  … and {count_text(omitted, 'kind')} more: see --json"
        listed_count += len(findings)
    yield from _closing_lines(report)


def _finding_lines(finding: Finding) -> Iterator[str]:
    first = finding.first
    row = f" of {finding.row}" if finding.row else ""
    yield f"  {finding.api} v{first.api_version} {finding.path}{row}: {times_text(finding.times)}"
    yield f"      recorded {finding.recorded}"
    yield f"      target   {finding.target}"
    client = "" if first.client_id is None else f", client {first.client_id}"
    yield f"      first at {iso_time(first.at_ns)}, {first.connection}{client}"
    if finding.reason:
        yield f"      reason: {finding.reason}"


def _closing_lines(report: ReplayReport) -> Iterator[str]:
    if report.skipped:
        yield ""
        yield f"not sent: {count_text(sum(report.skipped.values()), 'request')}"
        for (api, reason), times in sorted(report.skipped.items()):
            yield f"  {api}: {times_text(times)}: {reason}"
    if report.notes:
        yield ""
        yield from (f"note: {note}" for note in report.notes)
    if report.problems:
        yield ""
        yield f"problems in the capture: {sum(problem.count for problem in report.problems)}"
        for problem in report.problems[:MAX_LISTED]:
            location = (
                problem.file if problem.offset is None else f"{problem.file}:{problem.offset}"
            )
            yield f"  {problem.kind.value}: {location}: {problem.detail}"
