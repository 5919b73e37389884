"""The fine print of groups and their offsets, played to a real Kafka and to kafkalite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.playing import play, play_together, transcript_of
from tests.conformance.scenarios import (
    classic_rules,
    group_records,
    group_waits,
    offset_rules,
    share_groups,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.playing import Scenario, Transcript
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle

SCENARIOS = (*classic_rules.SCENARIOS, *offset_rules.SCENARIOS, *group_records.SCENARIOS)
WAITING = (*group_waits.WAITING, *share_groups.WAITING)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_kafkalite_answers_as_kafka_does(
    scenario: Scenario, real_kafka: Target, accused: Target
) -> None:
    found = differences(play(scenario, real_kafka), play(scenario, accused))
    assert not found, "\n".join(found)


@pytest.fixture(scope="module")
def waited(real_kafka: Target, accused: Target) -> Mapping[tuple[str, str], Transcript]:
    """Play everything that waits, at once."""
    return play_together(WAITING, {"real": real_kafka, "ours": accused})


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in WAITING])
def test_kafkalite_waits_as_long_as_kafka_does(
    scenario: str, waited: Mapping[tuple[str, str], Transcript]
) -> None:
    found = differences(
        transcript_of(waited[scenario, "real"]), transcript_of(waited[scenario, "ours"])
    )
    assert not found, "\n".join(found)
