"""A check of a capture with planted facts finds exactly what was written down before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.capture.reading.captures import ignore
from kafkalite.lab.checker.captured_history import captured_history
from kafkalite.lab.checker.check import check
from tests.captures.facts import CAPTURE, FINDINGS, UNDECIDABLE, Fact

if TYPE_CHECKING:
    from kafkalite.lab.checker.findings import Finding


def fact_of(finding: Finding) -> Fact:
    topic = None if finding.partition is None else finding.partition.topic
    rule, cause, records = finding.rule, finding.cause, finding.records
    return Fact(finding.severity, rule, cause, records, topic, finding.group)


def test_a_check_finds_the_planted_facts_and_nothing_else() -> None:
    history = captured_history([CAPTURE], ignore)
    result = check(history)
    assert sorted(map(repr, map(fact_of, result.findings))) == sorted(map(repr, FINDINGS))
    assert all(each.proofs for each in result.findings)
    assert [each.reason for each in result.undecided] == [UNDECIDABLE]
    unclear = {row.event.client.id for row in history.deliveries if row.group is None}
    readers = {f"{topic}-reader" for topic in ("ended", "fenced", "recreated", "unread")}
    assert unclear == {"twin", "recreator", *readers}
