"""The number of function calls of the longest decisions, which have no pauses.

Others wait that long. The time depends on the load of the machine; the number of calls does not.
"""

from __future__ import annotations

import cProfile
import pstats
from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata import controller
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.partition_creation import NewPartitions
from tests.perf.socketless_broker import SocketlessBroker
from tests.scenarios.streams_coordinator import ManualStreamsCoordinator, Request, internal, reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.endurance

_TOPOLOGY_BUDGET = 850_000
"""The maximum number of calls to configure a large topology and to assign its tasks."""

_CREATION_BUDGET = 650_000
"""The maximum number of calls between two turns of others while many partitions are created."""


def _subtopologies() -> ManualStreamsCoordinator:
    names = [f"t{number:04}" for number in range(2_000)]
    return ManualStreamsCoordinator(
        dict.fromkeys(names, 5), subtopologies=[reading(name, name=name) for name in names]
    )


def _tasks() -> ManualStreamsCoordinator:
    return ManualStreamsCoordinator({"t": 10_000}, subtopologies=[reading("t")])


def _source_topics() -> ManualStreamsCoordinator:
    names = [f"t{number:05}" for number in range(16_000)]
    return ManualStreamsCoordinator(dict.fromkeys(names, 1), subtopologies=[reading(*names)])


def _own_repartition_topics() -> ManualStreamsCoordinator:
    names = [f"r{number:04}" for number in range(7_000)]
    own = reading(
        "t", repartition_sink_topics=names, repartition_source_topics=list(map(internal, names))
    )
    return ManualStreamsCoordinator(dict.fromkeys(["t", *names], 1), subtopologies=[own])


def _copartition_groups() -> ManualStreamsCoordinator:
    names = [f"r{number:04}" for number in range(4_500)]
    own = reading(
        "t",
        repartition_source_topics=[internal(name, 1) for name in names],
        copartition_groups=[
            Request.CopartitionGroup(repartition_source_topics=[index])
            for index in range(len(names))
        ],
    )
    return ManualStreamsCoordinator(dict.fromkeys(["t", *names], 1), subtopologies=[own])


@pytest.mark.parametrize(
    "make",
    [_subtopologies, _tasks, _source_topics, _own_repartition_topics, _copartition_groups],
)
def test_a_large_topology_is_configured_within_a_number_of_calls(
    make: Callable[[], ManualStreamsCoordinator],
) -> None:
    coordinator = make()
    profile = cProfile.Profile()
    response = profile.runcall(coordinator.ask, coordinator.joining("m")).response
    assert response.status == []
    assert pstats.Stats(profile).total_calls < _TOPOLOGY_BUDGET  # type: ignore[attr-defined]


def _longest_turn(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> int:
    """Return the number of calls of a change between two pauses, or before the first one."""
    profiles: list[cProfile.Profile] = []

    def begin_turn() -> None:
        for profile in profiles[-1:]:
            profile.disable()
        profiles.append(cProfile.Profile())
        profiles[-1].enable()

    monkeypatch.setattr(controller, "pause", begin_turn)
    begin_turn()
    change()
    profiles[-1].disable()
    longest: int = max(
        pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
        for profile in profiles
    )
    return longest


def test_many_partitions_are_created_within_a_number_of_calls_between_two_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = SocketlessBroker(str(tmp_path))
    metadata = broker.cluster.metadata
    created = _longest_turn(
        monkeypatch,
        lambda: metadata.create_topics([NewTopic(name="t", partitions=9_999)], may_pause=True),
    )
    metadata.create_topics([NewTopic(name="u")])
    added = _longest_turn(
        monkeypatch,
        lambda: metadata.create_partitions([NewPartitions("u", 10_000)], may_pause=True),
    )
    broker.close()
    assert max(created, added) < _CREATION_BUDGET
