"""Every scenario that does not wait for timers: kafkalite answers as Kafka was recorded to.

The tests of the same scenarios with a real Kafka renew the recordings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from kafkalite.config.default_overrides import KAFKALITE_DEFAULTS
from kafkalite.config.releases import DEFAULT
from kafkalite.testing import Broker
from tests.conformance import (
    test_group_rules,
    test_scenarios,
    test_transactions,
)
from tests.conformance.recordings import RECORDED, Recording, recording_of
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios import later_versions
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.scenario_runs import Scenario

SCENARIOS: Final = (
    *test_scenarios.SCENARIOS,
    *test_group_rules.SCENARIOS,
    *test_transactions.SCENARIOS,
    *later_versions.SCENARIOS,
)


class Served(NamedTuple):
    """A broker in this process, as a target of scenarios."""

    port: int


@pytest.fixture(scope="module")
def emulator() -> Iterator[Served]:
    """Start a broker with the settings of the real Kafka."""
    config = {**KAFKALITE_DEFAULTS, **COMMON_CONFIG}
    with Broker(config=config, defaults="kafka", log_level="error") as broker:
        yield Served(int(broker.bootstrap_servers.rpartition(":")[2]))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_kafkalite_answers_as_recorded(scenario: Scenario, emulator: Served) -> None:
    recording = recording_of(scenario, DEFAULT)
    lines = recording.differences(scenario.__name__, play(scenario, emulator))
    assert not lines, "\n".join(lines)


def test_every_recording_is_of_a_scenario() -> None:
    recorded = {
        (path, name)
        for path in RECORDED.rglob("*.jsonl")
        for name in Recording(path.parent.name, path.stem).transcripts()
    }
    played = {(recording_of(scenario, DEFAULT).path, scenario.__name__) for scenario in SCENARIOS}
    assert recorded == played
    assert len({name for _, name in played}) == len(SCENARIOS)  # also the name of their topics
