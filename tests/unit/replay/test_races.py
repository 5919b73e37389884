"""Requests race as if each was held against every other that was under way with it."""

# ruff: noqa: S311 - what is drawn is to be repeatable

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.replay.races import Races
from tests.unit.replay.recorded import Recording

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange
    from kafkalite.replay.races import UnderWay


def reading(on: int) -> Exchange:
    return Recording().say(HeartbeatRequest(), None, 4, on=on)


def writing(on: int) -> Exchange:
    return Recording().say(ProduceRequest(), None, 9, on=on)


def test_a_read_races_with_writes_of_others_that_are_under_way_before_or_after() -> None:
    races = Races()
    write = races.begin(writing(on=1))
    later = races.begin(reading(on=2))
    assert not races.end(write)
    assert races.end(later)

    earlier = races.begin(reading(on=2))
    write = races.begin(writing(on=1))
    assert races.end(earlier)
    assert not races.end(write)


def test_nobody_races_with_itself_nor_with_reads_nor_with_what_is_over() -> None:
    races = Races()
    own = [races.begin(each(on=1)) for each in (writing, reading, writing)]
    other = races.begin(reading(on=2))
    assert [races.end(each) for each in own] == [False] * 3
    assert races.end(other)
    assert not races.end(races.begin(reading(on=2)))


@pytest.mark.parametrize("seed", range(20))
def test_it_is_as_if_each_was_held_against_every_other(seed: int) -> None:
    random = Random(seed)
    races = Races()
    under_way: list[tuple[Exchange, UnderWay]] = []
    raced: set[int] = set()
    """Twin: the places in `under_way` of all that overlap a write of another connection."""
    made = [make(on) for make in (reading, writing) for on in range(3)]
    for _ in range(300):
        if under_way and random.random() < 0.5:
            place = random.randrange(len(under_way))
            _, token = under_way.pop(place)
            assert races.end(token) == (place in raced)
            raced = {each - (each > place) for each in raced if each != place}
            continue
        new = random.choice(made)
        for place, (other, _) in enumerate(under_way):
            if other.connection != new.connection:
                raced |= {len(under_way)} if other.api_key == ProduceRequest.API_KEY else set()
                raced |= {place} if new.api_key == ProduceRequest.API_KEY else set()
        under_way.append((new, races.begin(new)))
