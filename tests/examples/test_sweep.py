"""The services in `examples/sweep`: the sweep finds the planted faults, and no others."""

from __future__ import annotations

import sys

import pytest

from kafkalite.lab.sweep.schedules import parse_schedule
from kafkalite.lab.sweep.sweep import Sweep, SweepOptions
from kafkalite.lab.sweep.verdict import Outcome
from tests.architecture.source import ROOT

pytestmark = pytest.mark.endurance

SERVICES = ROOT / "examples" / "sweep"

PLANTED = {
    "service_librdkafka.py": (
        "--commit-first",
        {
            "Produce#1 bills-0 request-lost": "missing: bill of order-1",
            "Produce#3 bills-0 killed-before": "missing: bill of order-3",
        },
    ),
    "service_aiokafka.py": (
        "--without-idempotence",
        {
            "Produce#1 bills-0 answer-lost": "sent them again without idempotence",
            "Produce#2 bills-0 late": "sent them again without idempotence",
        },
    ),
}
"""Service → the argument that plants a fault, and a finding of each case."""


@pytest.mark.parametrize("service", PLANTED)
@pytest.mark.parametrize("is_planted", [True, False])
def test_planted_faults_are_found(
    service: str,
    is_planted: bool,  # noqa: FBT001 - the service with its fault, or without
) -> None:
    argument, expected = PLANTED[service]
    options = SweepOptions(
        command=(sys.executable, str(SERVICES / service), *[argument] * is_planted),
        check=(sys.executable, str(SERVICES / "check_bills.py")),
        state=str(SERVICES / "shop.yaml"),
    )
    with Sweep(options) as sweep:
        sweep.run_baseline(lambda _: None)
        cases = set(map(str, sweep.cases()))
        for text, reason in expected.items():
            assert text in cases
            found = sweep.run(parse_schedule(text)).verdict
            if is_planted:
                assert found.is_finding, text
                assert reason in " ".join(found.reasons)
            else:
                assert found.outcome is Outcome.SURVIVED, found
