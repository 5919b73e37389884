"""The record that made a condition true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.commands.bisect import Bisect
from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.ports.clock import AdjustableClock
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from tests.unit.control.group_members import CONFIG, TOPIC, Members
from tests.unit.control.ports import ANY_PORT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOW_MS = 1_000_000_000_000
COMMITTED = "committed(shop, orders, 0)"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """Return a broker whose group has committed 1 to 9 and then 3, 7 and 2."""
    clock = AdjustableClock(rate=0, now_ms=NOW_MS)
    settings = Settings(listen=ANY_PORT, topics={TOPIC: 1}, config=CONFIG, is_in_memory=True)
    running = Broker(settings, clock=clock)
    await running.start()
    members = Members(running)
    for offset in (*range(1, 10), 3, 7, 2):
        clock.advance(1000)
        await members.commit("shop", offset)
        await members.commit("other", 100 - offset)
    yield running
    await running.stop(grace_s=0)


async def test_the_first_and_the_last_record_that_made_a_condition_true(broker: Broker) -> None:
    first = await Bisect(f"{COMMITTED} < 5").perform(broker)
    assert (first.log, first.offset, first.at_ms) == ("__consumer_offsets-0", 0, NOW_MS + 1000)
    assert (first.before[COMMITTED], first.after[COMMITTED]) == (None, 1)
    assert first.record.startswith("OffsetCommit group='shop' topic='orders' partition=0: offset=1")
    last = await Bisect(f"{COMMITTED} < 5", last=True).perform(broker)
    assert (last.offset, last.before[COMMITTED], last.after[COMMITTED]) == (22, 7, 2)
    for after in ("10", "2001-09-09T01:46:45Z"):
        found = await Bisect(f"{COMMITTED} < 5", after=after).perform(broker)
        lines = list(found.lines())
        assert lines[0] == "offset 18 of __consumer_offsets-0, 2001-09-09T01:46:50.000Z"
        assert lines[2] == f"{COMMITTED}: 9 -> 3"


async def test_functions_of_several_logs_are_merged_by_time(broker: Broker) -> None:
    condition = f"leader(orders, 0) == 1 and {COMMITTED} > 8 and end_offset(orders, 0) == 0"
    found = await Bisect(condition).perform(broker)
    assert (found.offset, [*found.after.values()]) == (16, [1, 9, 0])
    with pytest.raises(TimeTravelError, match="the functions are in several logs"):
        await Bisect(condition, after="3").perform(broker)


async def test_a_condition_that_never_became_true_and_unknown_names(broker: Broker) -> None:
    never = "no record made the condition true: at the end, committed.shop, orders, 0. is 2"
    with pytest.raises(TimeTravelError, match=never):
        await Bisect(f"{COMMITTED} > 50").perform(broker)
    with pytest.raises(TimeTravelError, match="the topic 'orders' has no partition 7, but 0 to 0"):
        await Bisect("end_offset(orders, 7) > 1").perform(broker)
    with pytest.raises(TimeTravelError, match="no transactional id had been used, so __trans"):
        await Bisect("transaction(t) == Ongoing").perform(broker)


async def test_members_and_states_of_groups(broker: Broker) -> None:
    await Members(broker).join_classic("shop", "one")
    found = await Bisect("members(shop) == 1 and state(shop) == Stable").perform(broker)
    assert ([*found.before.values()], [*found.after.values()]) == ([0, "Empty"], [1, "Stable"])
    assert "generation=1" in found.record
    assert found.reasons
