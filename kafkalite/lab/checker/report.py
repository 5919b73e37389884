"""The result of a check as text."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kafkalite.lab.checker.findings import Severity
from kafkalite.lab.checker.groups.counterfactuals import ASSUMPTIONS
from kafkalite.lab.checker.proof_commands import commands_of
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.lab.checker.findings import CheckResult, Finding
    from kafkalite.lab.checker.groups.counterfactuals import Counterfactual

_MAX_PROOFS = 4


def report_lines(result: CheckResult) -> Iterator[str]:
    """Yield the lines of a report, findings of the severest kind first."""
    if result.requests or result.logged is None:
        yield (
            f"{count_text(result.requests, 'request')}: "
            f"{count_text(result.acknowledged, 'record')} acknowledged, "
            f"{result.delivered:,} delivered"
        )
    if result.logged is not None:
        yield f"data directories: {count_text(result.logged, 'record')} in the logs of topics"
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
    proofs = [*dict.fromkeys(finding.proofs)]
    for proof in proofs[:_MAX_PROOFS]:
        yield f"  {proof}"
    if len(proofs) > _MAX_PROOFS:
        yield f"  and {len(proofs) - _MAX_PROOFS} more requests"
    for command in commands_of(proofs[:_MAX_PROOFS]):
        yield f"  $ {command}"


def what_if_lines(rows: Sequence[Counterfactual]) -> Iterator[str]:
    """Yield what other rules would have changed, and the assumptions behind it."""
    if not rows:
        yield "what if: no partition was idle, and no commit was refused"
        return
    for row in rows:
        yield f"what if: {row}"
    for assumption in ASSUMPTIONS:
        yield f"assumption: {assumption}"


def what_if(rows: Sequence[Counterfactual]) -> dict[str, Any]:
    """Return the same as values of JSON."""
    return {"what_if": [asdict(row) for row in rows], "assumptions": [*ASSUMPTIONS]}
