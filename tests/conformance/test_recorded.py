"""Every scenario that does not wait for timers: kafkalite answers as Kafka was recorded to.

The tests of the same scenarios with a real Kafka renew the recordings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.config.default_overrides import KAFKALITE_DEFAULTS
from kafkalite.config.releases import DEFAULT
from kafkalite.testing import Broker
from tests.conformance import (
    test_group_rules,
    test_nodes,
    test_scenarios,
    test_transactions,
)
from tests.conformance.compared_releases import RELEASES
from tests.conformance.node_comparison import emulated_nodes
from tests.conformance.node_comparison import play as play_on_nodes
from tests.conformance.recordings import RECORDED, Recording, recording_of
from tests.conformance.scenario_runs import at, play
from tests.conformance.scenarios import (
    client_quotas,
    later_versions,
    log_directories,
    old_versions,
    removed_settings,
    unknown_settings,
)
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.conformance.scenario_cluster import Entry
    from tests.conformance.scenario_nodes import ScenarioNodes
    from tests.conformance.scenario_runs import Scenario, Served
    from tests.oracle.node_clusters import EmulatedNodes

SCENARIOS: Final = (
    *test_scenarios.SCENARIOS,
    *test_group_rules.SCENARIOS,
    *test_transactions.SCENARIOS,
    *later_versions.SCENARIOS,
)
_EARLIER: Final = {
    "4.3": client_quotas.SCENARIOS,
    "4.2": unknown_settings.SCENARIOS,
    "3.9": (*removed_settings.SCENARIOS, *old_versions.SCENARIOS),
}
"""Release → scenarios that are compared with it, too."""


def assert_recorded(
    scenario: Callable[..., None], answers: Sequence[Entry], release: str = DEFAULT
) -> None:
    """Assert that the answers to a scenario are those that a release of Kafka gave."""
    lines = recording_of(scenario, release).differences(scenario.__name__, answers)
    assert not lines, "\n".join(lines)


@pytest.fixture(scope="module")
def emulator() -> Iterator[Served]:
    """Start a broker with the settings of the real Kafka."""
    config = {**KAFKALITE_DEFAULTS, **COMMON_CONFIG}
    with Broker(config=config, defaults="kafka", log_level="error") as broker:
        yield at(broker)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_kafkalite_answers_as_recorded(scenario: Scenario, emulator: Served) -> None:
    assert_recorded(scenario, play(scenario, emulator))


@pytest.mark.parametrize("release", _EARLIER)
def test_an_earlier_release_answers_as_recorded(release: str) -> None:
    with Broker(as_version=release, log_level="error") as broker:
        for scenario in _EARLIER[release]:
            assert_recorded(scenario, play(scenario, at(broker)), release)


def test_two_log_directories_answer_as_recorded() -> None:
    config = {**KAFKALITE_DEFAULTS, **COMMON_CONFIG, "log.dirs": "/logs/first,/logs/second"}
    with Broker(config=config, defaults="kafka", storage="memory", log_level="error") as broker:
        for scenario in log_directories.SCENARIOS:
            assert_recorded(scenario, play(scenario, at(broker)))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(release, marks=() if release == DEFAULT else pytest.mark.endurance)
        for release in RELEASES
    ],
)
def nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, EmulatedNodes]]:
    """Start three nodes as of each release."""
    cluster = emulated_nodes(tmp_path_factory.mktemp("nodes"), request.param)
    cluster.start()
    yield request.param, cluster
    cluster.close()


@pytest.mark.parametrize("scenario", test_nodes.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_nodes_answer_as_recorded(
    scenario: Callable[[ScenarioNodes], None], nodes: tuple[str, EmulatedNodes]
) -> None:
    release, cluster = nodes
    answers = play_on_nodes(cluster, scenario, scenario.__name__)
    assert_recorded(scenario, answers, release)


def test_every_recording_is_of_a_scenario() -> None:
    scenarios: list[tuple[str, Callable[..., None]]] = [
        *((DEFAULT, scenario) for scenario in SCENARIOS),
        *((DEFAULT, scenario) for scenario in test_nodes.SCENARIOS),
        *((DEFAULT, scenario) for scenario in log_directories.SCENARIOS),
        *((release, scenario) for release in _EARLIER for scenario in _EARLIER[release]),
    ]
    played = {(recording_of(each, release), each.__name__) for release, each in scenarios}
    recorded = {
        (recording, name)
        for path in RECORDED.rglob("*.jsonl")
        for recording in [_recording_at(path)]
        for name in recording.transcripts()
    }
    assert recorded <= played
    assert all(name in recording.transcripts() for recording, name in played)
    assert len({scenario.__name__ for scenario in SCENARIOS}) == len(SCENARIOS)  # topics' names


def _recording_at(path: Path) -> Recording:
    release, *module = path.relative_to(RECORDED).with_suffix("").parts
    return Recording(release, "/".join(module))
