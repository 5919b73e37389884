"""Checks of recorded incidents find what was written down before, and invent nothing."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.reading.captures import ignore
from kafkalite.lab.checker.captured_history import captured_history
from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.findings import Finding, Severity
from tests.captures import damage
from tests.captures.incidents import INCIDENTS, Incident, Truth
from tests.captures.test_damaged_recordings import tcp_packets

if TYPE_CHECKING:
    from pathlib import Path

IN_EVERY_RUN = "lost"
"""The damage that every run tests."""


def matches(finding: Finding, truth: Truth) -> bool:
    topic = None if finding.partition is None else finding.partition.topic
    found = finding.rule, finding.cause, finding.records
    return found == truth[:3] and truth.topic in {None, topic}


@pytest.mark.parametrize("incident", INCIDENTS, ids=[each.name for each in INCIDENTS])
def test_a_recorded_incident_is_found_and_nothing_else(incident: Incident) -> None:
    findings = check(captured_history([incident.path], ignore)).findings
    serious = [each for each in findings if each.severity is not Severity.NOTE]
    for truth in (*incident.truth, *incident.notes):
        assert [each for each in findings if matches(each, truth)], truth
    invented = [
        each.text for each in serious if not any(matches(each, truth) for truth in incident.truth)
    ]
    assert invented == []
    for each in serious:
        assert each.client is not None
        assert each.proofs


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=() if each == IN_EVERY_RUN else [pytest.mark.endurance])
        for each in damage.DAMAGES
        if each not in damage.HARMLESS
    ],
)
@pytest.mark.parametrize("incident", INCIDENTS, ids=[each.name for each in INCIDENTS])
def test_a_damaged_capture_has_no_invented_finding(
    incident: Incident, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "damaged.pcap"
    packets = damage.DAMAGES[name](tcp_packets(incident.path), Random(1))  # noqa: S311 - repeatable
    path.write_bytes(damage.capture_file(packets))
    result = check(captured_history([path], ignore))
    known = {truth[:2] for truth in incident.truth}
    invented = [each.text for each in result.violations if (each.rule, each.cause) not in known]
    assert invented == []
