"""Verdicts: what one run with a failure says about a program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.lab.sweep.commands import CommandResult
    from kafkalite.lab.sweep.failures import Failure
    from kafkalite.lab.sweep.timeline import Moment


class Outcome(Enum):
    """What a program did with a failure."""

    SURVIVED = "survived"
    FAILED = "failed"
    """A finding."""
    SLOW = "slow"
    """It did not end in time although nothing is wrong but a timeout of a client."""
    UNSTEADY = "unsteady"
    """It failed once, and not again with the same failure; or it failed without the failure."""
    NOT_REACHED = "not reached"
    """It did not send the request in this run."""
    NOT_TRUE = "not true"
    """The broker could not make the error true, so the run says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What one run showed."""

    command: CommandResult
    fired: tuple[Failure, ...]
    """The failures that happened."""
    is_true: bool = True
    """Whether the broker has made its error true."""
    anomalies: tuple[str, ...] = ()
    """What the history of the broker proves, and what the check of the user says."""
    notes: tuple[str, ...] = ()
    """What the history shows that correct programs cause, too."""
    waiting: tuple[str, ...] = ()
    """What each client waited for when the time limit ended the command."""
    timeline: tuple[Moment, ...] = ()
    """What happened, if the program failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a run, and its reasons, each a sentence."""

    outcome: Outcome
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What correct programs cause, too, so that it is no finding."""

    @property
    def is_finding(self) -> bool:
        """Whether the program does not survive the failure."""
        return self.outcome is Outcome.FAILED


def verdict(observed: Observed) -> Verdict:
    """Return what a run says.

    An anomaly is always a finding. A time-out, or an exit status, is none if a failure lets a
    client wait for a timeout of its own, and an exit status is none after a fatal error.
    """
    command = observed.command
    reasons = (*observed.anomalies, *_command_reasons(command, observed.waiting))
    return Verdict(outcome=_outcome(observed), reasons=reasons, notes=observed.notes)


def _outcome(observed: Observed) -> Outcome:
    command = observed.command
    has_failed = not command.is_success or bool(observed.anomalies)
    is_excused = command.status is not None and any(each.is_fatal for each in observed.fired)
    cases = (
        (not observed.fired, Outcome.UNSTEADY if has_failed else Outcome.NOT_REACHED),
        (not observed.is_true, Outcome.NOT_TRUE),
        (bool(observed.anomalies), Outcome.FAILED),
        (not has_failed or is_excused, Outcome.SURVIVED),
        (any(each.stalls for each in observed.fired), Outcome.SLOW),
    )
    return next((outcome for applies, outcome in cases if applies), Outcome.FAILED)


def _command_reasons(command: CommandResult, waiting: Sequence[str]) -> Iterable[str]:
    if command.status is None:
        yield f"the command did not end within {command.seconds:.1f} s"
        if command.ignored_termination:
            yield "it was killed, because it ignored SIGTERM"
        yield from waiting
    elif command.status < 0:
        yield f"the command was ended by signal {-command.status}"
    elif command.status:
        yield f"the command ended with exit status {command.status}"


def needs_run(verdicts: Sequence[Verdict], confirmations: int) -> bool:
    """Return whether a case has to run (again): a finding must repeat `confirmations` times."""
    return not verdicts or (verdicts[-1].is_finding and len(verdicts) <= confirmations)


def confirmed(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of several runs of one case: a finding only if every run is one."""
    first = next((each for each in verdicts if each.is_finding), verdicts[0])
    if first.is_finding and not all(each.is_finding for each in verdicts):
        findings = sum(each.is_finding for each in verdicts)
        text = f"failed in {findings} of {len(verdicts)} runs"
        return Verdict(outcome=Outcome.UNSTEADY, reasons=(text, *first.reasons), notes=first.notes)
    return first
