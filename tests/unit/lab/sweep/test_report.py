"""The report of a sweep as text."""

from __future__ import annotations

from kafkalite.lab.sweep.report import finding_lines, repeating_line, shown, summary, table
from kafkalite.lab.sweep.sweep import SweepOptions
from kafkalite.lab.sweep.verdict import Outcome
from tests.unit.lab.sweep.seen import FAILED, RESULTS, result


def test_a_finding_has_the_line_that_repeats_it() -> None:
    assert [*finding_lines(FAILED, SweepOptions(command=("pytest", "my tests")))] == [
        "failed: Produce#1 orders-0 late",
        "  Produce#1 is lost with its connection, and handled after the next one of its kind",
        "  exit status 1",
        "    | a",
        "    | b",
        "  repeat: kafkalite sweep --case 'Produce#1 orders-0 late' -- pytest 'my tests'",
    ]


def test_findings_are_first() -> None:
    assert shown(RESULTS) == [FAILED, RESULTS[2]]


def test_the_table_has_the_numbers_of_cases_and_of_findings() -> None:
    assert table(RESULTS) == (
        ["failure", "Heartbeat", "Produce"],
        [["late", "1", "1/2"], ["stalled", "", "1"]],
    )


def test_cases_whose_failure_did_not_happen_are_not_in_the_table() -> None:
    without = [
        result("Fetch#9 request-lost", Outcome.NOT_REACHED),
        result("JoinGroup#2 UNKNOWN_MEMBER_ID", Outcome.NOT_TRUE),
    ]
    assert table([*without, *RESULTS]) == table(RESULTS)
    assert table(without) == (["failure"], [])


def test_the_summary_counts_all_cases() -> None:
    assert summary(RESULTS, 9) == "9 cases: 2 survived, 1 failed, 1 slow, 5 not run"
    assert summary([], 1) == "1 case: 1 not run"


def test_the_line_has_the_options_of_the_sweep() -> None:
    options = SweepOptions(
        command=("pytest",), check=("./check", "a b"), state="x.yaml", brokers=1, limit_s=0.5
    )
    assert repeating_line(FAILED, options) == (
        "kafkalite sweep --case 'Produce#1 orders-0 late' --state x.yaml --brokers 1 "
        "--timeout 500ms --check './check '\"'\"'a b'\"'\"'' -- pytest"
    )
