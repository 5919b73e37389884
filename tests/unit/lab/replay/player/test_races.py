"""Detection of races gives the same result as comparing all pairs of requests."""

# ruff: noqa: S311 - random numbers must be repeatable

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.replay.player.races import Races
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from tests.unit.lab.replay.recording import Recording

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange
    from kafkalite.lab.replay.player.races import RequestInFlight


def read_request(connection: int) -> Exchange:
    return Recording().add(HeartbeatRequest(), None, 4, connection_number=connection)


def write_request(connection: int) -> Exchange:
    return Recording().add(ProduceRequest(), None, 9, connection_number=connection)


def test_read_races_with_concurrent_writes_of_other_connections() -> None:
    races = Races()
    write = races.begin(write_request(connection=1))
    later = races.begin(read_request(connection=2))
    assert not races.end(write)
    assert races.end(later)

    earlier = races.begin(read_request(connection=2))
    write = races.begin(write_request(connection=1))
    assert races.end(earlier)
    assert not races.end(write)


def test_no_race_with_own_requests_reads_or_finished_requests() -> None:
    races = Races()
    own = [races.begin(each(connection=1)) for each in (write_request, read_request, write_request)]
    other = races.begin(read_request(connection=2))
    assert [races.end(request) for request in own] == [False] * 3
    assert races.end(other)
    assert not races.end(races.begin(read_request(connection=2)))


@pytest.mark.parametrize("seed", range(20))
def test_races_equal_those_of_pairwise_comparison(seed: int) -> None:
    random = Random(seed)
    races = Races()
    in_flight: list[tuple[Exchange, RequestInFlight]] = []
    expected_races: set[int] = set()
    """Expected: indexes in `in_flight` of requests that overlap a write of another connection."""
    choices = [
        make(connection) for make in (read_request, write_request) for connection in range(3)
    ]
    for _ in range(300):
        if in_flight and random.random() < 0.5:
            index = random.randrange(len(in_flight))
            _, request_in_flight = in_flight.pop(index)
            assert races.end(request_in_flight) == (index in expected_races)
            expected_races = {
                request - (request > index) for request in expected_races if request != index
            }
            continue
        new = random.choice(choices)
        for index, (other, _) in enumerate(in_flight):
            if other.connection != new.connection:
                expected_races |= (
                    {len(in_flight)} if other.api_key == ProduceRequest.API_KEY else set()
                )
                expected_races |= {index} if new.api_key == ProduceRequest.API_KEY else set()
        in_flight.append((new, races.begin(new)))
