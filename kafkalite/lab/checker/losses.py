"""Findings that bytes which a capture lost may explain."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalite.lab.checker.findings import DELAYED_REQUEST, Severity
from kafkalite.lab.checker.history import Proof, Range, Undecided, intersection, merged
from kafkalite.lab.checker.log_rules import DUPLICATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.lab.checker.findings import Finding
    from kafkalite.lab.checker.history import Loss

LOST_BYTES: Final = "bytes were lost between its requests"

_SINCE_THE_START: Final = frozenset((DELAYED_REQUEST,))
"""Causes that earlier requests can explain, such as the first one on a connection."""


def decided(
    findings: Iterable[Finding], losses: Sequence[Loss]
) -> tuple[list[Finding], list[Undecided]]:
    """Return the findings that lost bytes cannot explain, and the numbers of the other ones.

    Nearly every rule needs what happened between two requests: a fetch, a commit, an EndTxn or the
    deletion of a topic. If bytes of any connection were lost in this time, such a request may be
    missing, and the finding is not decided. Notes are returned, because they accuse no client.
    """
    if not losses:
        return [*findings], []
    lost = merged(Range(*sorted((each.from_ns, each.until_ns))) for each in losses)
    clear: list[Finding] = []
    unclear: Counter[str] = Counter()
    for finding in findings:
        if finding.severity is Severity.NOTE or not _is_unclear(finding, lost):
            clear.append(finding)
        else:
            unclear[f'findings of "{finding.rule}", because {LOST_BYTES}'] += 1
    return clear, [Undecided(*each) for each in sorted(unclear.items())]


def _is_unclear(finding: Finding, lost: Sequence[Range]) -> bool:
    times = [each.at_ns for each in finding.proofs if isinstance(each, Proof)]
    if not times:
        return False
    begins_early = finding.cause in _SINCE_THE_START or finding.rule == DUPLICATE
    window = Range(0 if begins_early else min(times), max(times))
    return bool(intersection(window, lost))
