"""Checks of histories: all rules, and the result with merged findings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalite.lab.checker import (
    commit_rules,
    delivery_rules,
    log_rules,
    retry_rules,
    share_rules,
    transaction_rules,
)
from kafkalite.lab.checker.books import comparison
from kafkalite.lab.checker.books import rules as book_rules
from kafkalite.lab.checker.findings import CheckResult, Finding, Severity
from kafkalite.lab.checker.history import Range, Undecided
from kafkalite.lab.checker.losses import decided

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalite.lab.checker.books.model import Books
    from kafkalite.lab.checker.history import History

RULES: Final[tuple[Callable[[History], Iterator[Finding]], ...]] = (
    delivery_rules.lost,
    log_rules.overwritten,
    log_rules.duplicates,
    log_rules.reordered,
    transaction_rules.torn,
    transaction_rules.delayed_ends,
    transaction_rules.delayed_additions,
    log_rules.zombie_writes,
    commit_rules.zombie_commits,
    commit_rules.regressions,
    commit_rules.contradicted,
    commit_rules.commits_across_incarnations,
    log_rules.writes_across_incarnations,
    share_rules.skipped_by_share_groups,
    share_rules.share_deliveries,
    share_rules.share_delivery_counts,
    share_rules.late_acknowledgements,
    share_rules.stale_share_sessions,
    delivery_rules.aborted_reads,
    delivery_rules.delivered_twice,
    share_rules.not_processed,
    retry_rules.useless_retries,
    delivery_rules.unread,
)
"""The rules in the order of a report."""
PRODUCER_RULES: Final = frozenset(
    (
        transaction_rules.torn,
        transaction_rules.delayed_ends,
        log_rules.zombie_writes,
    )
)
"""The rules that need all partitions of a producer. The others need all about one partition."""
UNDIVIDED_RULES: Final = frozenset(
    (share_rules.stale_share_sessions, transaction_rules.delayed_additions)
)
"""The rules that need no records, only requests that every shard has."""

_SEVERITIES: Final = tuple(Severity)
_MAX_PROOFS: Final = 10

UNREADABLE_RECORDS: Final = "records of coordinators that cannot be decoded"


def check(history: History, books: Books | None = None) -> CheckResult:
    """Return the findings of all rules, those of the severest kind first.

    With books, the rules about them follow: what clients were answered, and the books alone.
    """
    own = history if books is None else comparison.with_markers(history, books)
    findings, undecided = findings_of(own, RULES), [*history.undecided]
    if books is not None:
        compared = comparison.Comparison(own, books)
        findings += _joined(compared.findings())
        findings += (finding for rule in book_rules.RULES for finding in _joined(rule(books)))
        undecided += compared.undecided
        if books.unreadable:
            undecided.append(Undecided(UNREADABLE_RECORDS, books.unreadable))
    findings, unclear = decided(findings, history.losses)
    undecided += unclear
    findings.sort(key=lambda each: _SEVERITIES.index(each.severity))
    return CheckResult(
        findings=tuple(findings),
        undecided=tuple(undecided),
        requests=history.requests,
        acknowledged=sum(each.batch.records for each in history.writes if each.is_acknowledged),
        delivered=sum(each.last_offset - each.first_offset + 1 for each in history.deliveries),
        logged=None if books is None else books.records,
    )


def findings_of(
    history: History, rules: Iterable[Callable[[History], Iterator[Finding]]]
) -> list[Finding]:
    """Return the findings of some rules."""
    return [finding for rule in rules for finding in _joined(rule(history))]


def _joined(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings, with one for those that differ only in offsets that follow each other."""
    runs: list[Finding] = []
    latest: dict[tuple[object, ...], int] = {}
    for finding in findings:
        key = _key(finding)
        index = latest.get(key)
        if index is not None and _follows(runs[index], finding):
            runs[index] = _join(runs[index], finding)
        else:
            latest[key] = len(runs)
            runs.append(finding)
    return iter(runs)


def _follows(earlier: Finding, later: Finding) -> bool:
    if earlier.offsets is None or later.offsets is None:
        return False
    if later.offsets.first != earlier.offsets.last + 1:
        return False
    return _named(earlier.offsets) in earlier.text


def _named(offsets: Range) -> str:
    return f"{offsets} "


def _key(finding: Finding) -> tuple[object, ...]:
    return (
        finding.rule, finding.severity, finding.cause, finding.partition, finding.group,
        finding.transactional_id, finding.client,
    )  # fmt: skip


def _join(earlier: Finding, later: Finding) -> Finding:
    assert earlier.offsets is not None, "checked by the caller"
    assert later.offsets is not None, "as above"
    offsets = Range(earlier.offsets.first, later.offsets.last)
    # Each text names the offsets first; a position after them may be the same offset.
    text = earlier.text.replace(_named(earlier.offsets), _named(offsets), 1)
    proofs = tuple(dict.fromkeys((*earlier.proofs, *later.proofs)))[:_MAX_PROOFS]
    return replace(
        earlier, offsets=offsets, text=text, records=earlier.records + later.records, proofs=proofs
    )
