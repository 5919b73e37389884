"""The services in `examples/sweep`: the sweep finds the planted faults, and no others."""

from __future__ import annotations

from random import Random

import pytest

from kafkalite.lab.sweep.schedules import parse_schedule
from kafkalite.lab.sweep.sweep import Sweep
from kafkalite.lab.sweep.verdict import Outcome
from tests.examples.sweep_services import BY_NAME
from tests.oracle.requirements import required

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_SEED, _CASES = 36, 1
_SURVIVED = {Outcome.SURVIVED, Outcome.NOT_REACHED, Outcome.NOT_TRUE}


@pytest.fixture(autouse=True)
def one_run_without_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save time: the services are not flaky."""
    monkeypatch.setattr("kafkalite.lab.sweep.sweep.BASELINE_RUNS", 1)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("service", BY_NAME)
def test_planted_faults_are_found(service: str) -> None:
    with required():
        options = BY_NAME[service].options(is_planted=True)
    with Sweep(options) as sweep:
        sweep.run_baseline(lambda _: None)
        cases = set(map(str, sweep.cases()))
        for text, reason in BY_NAME[service].found.items():
            assert text in cases
            found = sweep.run(parse_schedule(text)).verdict
            assert found.is_finding, text
            assert reason in " ".join(found.reasons)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("service", BY_NAME)
def test_a_correct_service_survives(service: str) -> None:
    """Checks the cases that find the planted fault, and a sample of all others."""
    with required():
        options = BY_NAME[service].options(is_planted=False)
    with Sweep(options) as sweep:
        sweep.run_baseline(lambda _: None)
        others = [(each,) for each in sweep.cases() if not each.kind.stalls]
        sample = Random(_SEED).sample(others, _CASES)  # noqa: S311 - not for secrets
        for schedule in [*map(parse_schedule, BY_NAME[service].found), *sample]:
            found = sweep.run(schedule)
            assert found.verdict.outcome in _SURVIVED, found
