"""The result of a check as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.lab.checker.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.checker.findings import CheckResult, Finding

_MAX_PROOFS = 4


def report_lines(result: CheckResult) -> Iterator[str]:
    """Yield the lines of a report, findings of the severest kind first."""
    if result.requests or result.logged is None:
        yield (
            f"{result.requests} requests: {result.acknowledged} records acknowledged, "
            f"{result.delivered} delivered"
        )
    if result.logged is not None:
        yield f"data directories: {result.logged} records in the logs of topics"
    for severity in Severity:
        for finding in result.findings:
            if finding.severity is severity:
                yield from _finding_lines(finding)
    for each in result.undecided:
        yield f"undecidable: {each.count} {each.reason}"
    counts = {
        severity: sum(each.severity is severity for each in result.findings)
        for severity in Severity
    }
    yield ", ".join(f"{severity.value}s: {count}" for severity, count in counts.items())


def _finding_lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.severity.value}: {finding.rule} ({finding.cause}): {finding.text}"
    for proof in finding.proofs[:_MAX_PROOFS]:
        yield f"  {proof}"
    if len(finding.proofs) > _MAX_PROOFS:
        yield f"  and {len(finding.proofs) - _MAX_PROOFS} more requests"
