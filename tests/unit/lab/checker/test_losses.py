"""Findings that lost bytes may explain are undecidable."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.findings import DELAYED_REQUEST, CheckResult, Finding, Severity
from kafkalite.lab.checker.history import Client, History, Loss, Proof
from kafkalite.lab.checker.losses import decided
from tests.unit.lab.checker.planted import skipped_by_commit
from tests.unit.lab.checker.simulation import SimulatedCluster


def finding(
    *times: int, cause: str = "a cause", severity: Severity = Severity.VIOLATION
) -> Finding:
    return Finding(
        rule="a rule",
        severity=severity,
        text="a text",
        cause=cause,
        client=Client("a", "10.0.0.1"),
        proofs=tuple(Proof("orders.pcapng", 0, "a > b", 0, None, each) for each in times),
    )


@pytest.mark.parametrize(
    ("loss", "is_decided"),
    [(Loss(0, 9), True), (Loss(5, 10), False), (Loss(12, 13), False), (Loss(21, 30), True)],
)
def test_bytes_that_were_lost_in_between_may_explain_a_finding(
    loss: Loss,
    is_decided: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    found, undecided = decided([finding(10, 20)], [loss])
    assert bool(found) is is_decided
    assert [(each.reason, each.count) for each in undecided] == (
        [] if is_decided
        else [('findings of "a rule", because bytes were lost between its requests', 1)]
    )  # fmt: skip


def test_earlier_bytes_may_explain_that_a_request_is_late() -> None:
    found, _ = decided([finding(10, 20, cause=DELAYED_REQUEST)], [Loss(0, 5)])
    assert found == []


def test_notes_are_stated_in_any_case() -> None:
    note = finding(10, 20, severity=Severity.NOTE)
    assert decided([note], [Loss(0, 30)]) == ([note], [])


def undecided_of(result: CheckResult) -> list[str]:
    return [each.reason for each in result.undecided]


def test_a_check_of_a_history_with_losses_counts_what_it_leaves_open() -> None:
    cluster = SimulatedCluster()
    skipped_by_commit(cluster, Random(1))  # noqa: S311 - repeatable
    history: History = cluster.history()
    assert len(check(history).violations) == 1
    result = check(replace(history, losses=[Loss(0, 10**18)]))
    assert result.violations == ()
    assert undecided_of(result) == [
        'findings of "lost", because bytes were lost between its requests'
    ]
