"""The number of function calls between two pauses of a long request.

Others wait that long. The time depends on the load of the machine; the number of calls does not.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.turns import ELEMENTS_PER_PAUSE, MemoryRequest, Worker
from tests.perf.fairness import ATTACKS
from tests.perf.socketless_broker import SocketlessBroker
from tests.scenarios.streams_world import Request, StreamsWorld, internal, reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

_ENTITIES = 10_000
_BUDGETS = {
    "add partitions": 1_000,
    "add raft voter": 1_500,
    "consumer group describe": 17_000,
    "delete groups": 16_000,
    "delete topics": 1_500,
    "describe groups": 2_500,
    "describe transactions": 16_000,
    "elect leaders": 8_000,
    "fetch": 2_500,
    "find coordinator": 4_000,
    "list offsets": 2_000,
    "metadata names": 2_000,
    "offset commit": 2_000,
    "offset fetch": 2_000,
    "produce to unknown": 2_500,
    "streams heartbeat": 1_500,
    "update features": 3_000,
}
"""The maximum number of calls between two pauses; the first refusals of a request are recorded."""

_TOPOLOGY_BUDGET = 850_000
"""The maximum number of calls to configure a large topology and to assign its tasks."""


def calls_per_turn(broker: SocketlessBroker, frame: bytes) -> list[int]:
    """Serve a request in turns that end at the first pause; return their numbers of calls."""
    counts = [0]

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        counts[-1] += event in {"call", "c_call"}

    def task() -> None:
        sys.setprofile(count)
        try:
            broker.serve(frame)
        finally:
            sys.setprofile(None)

    worker = Worker()
    worker.task = task
    while (outcome := worker.take_turn(0.0)) is not None:
        assert outcome is worker or isinstance(outcome, MemoryRequest)
        counts.append(0)
    worker.end()
    return counts


@pytest.mark.parametrize(("name", "budget"), _BUDGETS.items())
def test_a_long_request_stays_within_its_number_of_calls_between_pauses(
    name: str, budget: int, tmp_path: Path
) -> None:
    broker = SocketlessBroker(str(tmp_path))
    frame = ATTACKS[name].request(_ENTITIES)
    broker.serve(frame)  # the first one imports code
    counts = calls_per_turn(broker, frame)
    broker.close()
    assert len(counts) > _ENTITIES / ELEMENTS_PER_PAUSE
    assert max(counts) < budget


# One decision configures a topology and assigns its tasks, without pauses.


def _subtopologies() -> StreamsWorld:
    names = [f"t{number:04}" for number in range(2_000)]
    return StreamsWorld(
        dict.fromkeys(names, 5), subtopologies=[reading(name, name=name) for name in names]
    )


def _tasks() -> StreamsWorld:
    return StreamsWorld({"t": 10_000}, subtopologies=[reading("t")])


def _source_topics() -> StreamsWorld:
    names = [f"t{number:05}" for number in range(16_000)]
    return StreamsWorld(dict.fromkeys(names, 1), subtopologies=[reading(*names)])


def _own_repartition_topics() -> StreamsWorld:
    names = [f"r{number:04}" for number in range(7_000)]
    own = reading(
        "t", repartition_sink_topics=names, repartition_source_topics=list(map(internal, names))
    )
    return StreamsWorld(dict.fromkeys(["t", *names], 1), subtopologies=[own])


def _copartition_groups() -> StreamsWorld:
    names = [f"r{number:04}" for number in range(4_500)]
    own = reading(
        "t",
        repartition_source_topics=[internal(name, 1) for name in names],
        copartition_groups=[
            Request.CopartitionGroup(repartition_source_topics=[index])
            for index in range(len(names))
        ],
    )
    return StreamsWorld(dict.fromkeys(["t", *names], 1), subtopologies=[own])


@pytest.mark.parametrize(
    "make",
    [_subtopologies, _tasks, _source_topics, _own_repartition_topics, _copartition_groups],
)
def test_a_large_topology_is_configured_within_a_number_of_calls(
    make: Callable[[], StreamsWorld],
) -> None:
    world = make()
    profile = cProfile.Profile()
    response = profile.runcall(world.ask, world.joining("m")).response
    assert response.status == []
    assert pstats.Stats(profile).total_calls < _TOPOLOGY_BUDGET  # type: ignore[attr-defined]
