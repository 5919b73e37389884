"""Verdicts: which runs are findings."""

from __future__ import annotations

import pytest

from kafkalite.lab.sweep.commands import CommandResult
from kafkalite.lab.sweep.failures import FAILURES, Failure
from kafkalite.lab.sweep.verdict import Observed, Outcome, Verdict, confirmed, needs_run, verdict
from tests.unit.lab.sweep.seen import ended

LATE, STALLED, FENCED = FAILURES["late"], FAILURES["stalled"], FAILURES["PRODUCER_FENCED"]


def test_a_program_that_succeeds_survives() -> None:
    assert verdict(Observed(command=ended(), fired=(LATE,))) == Verdict(outcome=Outcome.SURVIVED)


def test_an_exit_status_is_a_finding() -> None:
    found = verdict(Observed(command=ended(3), fired=(LATE,)))
    assert found.is_finding
    assert found.reasons == ("the command ended with exit status 3",)


def test_a_signal_is_named() -> None:
    found = verdict(Observed(command=ended(-11), fired=(LATE,)))
    assert found.reasons == ("the command was ended by signal 11",)


def test_a_time_out_names_what_clients_wait_for() -> None:
    command = CommandResult(status=None, seconds=61.2, output="", ignored_termination=True)
    found = verdict(Observed(command=command, fired=(LATE,), waiting=("a waits for Fetch",)))
    assert found.is_finding
    assert found.reasons == (
        "the command did not end within 61.2 s",
        "it was killed, because it ignored SIGTERM",
        "a waits for Fetch",
    )


@pytest.mark.parametrize("status", [1, None])
def test_a_stall_is_slow_and_no_finding(status: int | None) -> None:
    assert verdict(Observed(command=ended(status), fired=(STALLED,))).outcome is Outcome.SLOW


def test_a_program_may_end_after_a_fatal_error_but_not_hang() -> None:
    assert verdict(Observed(command=ended(1), fired=(FENCED,))).outcome is Outcome.SURVIVED
    assert verdict(Observed(command=ended(None), fired=(FENCED,))).is_finding


@pytest.mark.parametrize("failure", [LATE, STALLED, FENCED])
def test_an_anomaly_is_always_a_finding(failure: Failure) -> None:
    observed = Observed(command=ended(), fired=(failure,), anomalies=("lost: 1 record",))
    found = verdict(observed)
    assert found.is_finding
    assert found.reasons == ("lost: 1 record",)


def test_what_did_not_happen_is_no_finding() -> None:
    assert verdict(Observed(command=ended(), fired=())).outcome is Outcome.NOT_REACHED
    assert verdict(Observed(command=ended(1), fired=())).outcome is Outcome.UNSTEADY
    untrue = Observed(command=ended(1), fired=(LATE,), is_true=False)
    assert verdict(untrue).outcome is Outcome.NOT_TRUE


def test_a_finding_must_repeat() -> None:
    failed = Verdict(outcome=Outcome.FAILED, reasons=("exit status 1",))
    survived = Verdict(outcome=Outcome.SURVIVED)
    assert [needs_run([failed] * runs, 1) for runs in range(3)] == [True, True, False]
    assert not needs_run([survived], 1)
    assert confirmed([failed, failed]) is failed
    assert confirmed([survived]) is survived
    found = confirmed([failed, survived])
    assert found.outcome is Outcome.UNSTEADY
    assert found.reasons == ("failed in 1 of 2 runs", "exit status 1")


def test_one_of_several_failures_can_be_the_reason() -> None:
    observed = Observed(command=ended(1), fired=(LATE, STALLED))
    assert verdict(observed).outcome is Outcome.SLOW


def test_a_note_is_no_finding() -> None:
    found = verdict(Observed(command=ended(), fired=(LATE,), notes=("expelled member: a",)))
    assert found == Verdict(outcome=Outcome.SURVIVED, notes=("expelled member: a",))
    failed = Verdict(outcome=Outcome.FAILED, notes=("expelled member: b",))
    assert confirmed([failed, found]).notes == ("expelled member: b",)
