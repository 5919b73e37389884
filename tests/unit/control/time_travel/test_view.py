"""Earlier states equal the states that the broker had, from its logs and from its files."""

# ruff: noqa: S311 - the work is to be repeatable
from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.control.command_table import running_cluster
from kafkalite.control.commands.bisect import Bisect
from kafkalite.control.group_reader import UnknownGroupError, describe_group
from kafkalite.control.time_travel.logs import DirectoryLogs, LogSource, RunningLogs
from kafkalite.control.time_travel.points import Point, TimeTravelError
from kafkalite.control.time_travel.view import PastView
from kafkalite.ports.clock import AdjustableClock
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from kafkalite.storage.compaction import plan_log_compaction
from kafkalite.storage.log_cleaner import clean
from tests.unit.control.group_members import CONFIG, TOPIC, Members
from tests.unit.control.ports import ANY_PORT

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.control.group_status import GroupStatus

NOW_MS = 1_000_000_000_000
GROUPS = ("classic", "consumer", "simple")


class Moment(NamedTuple):
    """What a broker knew at a time."""

    time_ms: int
    end_offset: int
    groups: dict[str, object]


def facts(group: GroupStatus) -> object:
    """Return what is in the log of a group."""
    offsets = [
        (
            each.topic,
            each.partition,
            each.offset,
            each.leader_epoch,
            each.metadata,
            each.committed_ms,
        )
        for each in group.offsets
        if each.offset is not None
    ]
    state = (group.type, group.protocol, group.state, group.epoch, group.assignment_epoch)
    return state, group.members, offsets


class Work:
    """Random work with groups, and what the broker knew after each step."""

    def __init__(self, broker: Broker, clock: AdjustableClock, seed: int) -> None:
        self.broker = broker
        self.clock = clock
        self.random = Random(seed)
        self.members = Members(broker)
        self.moments: list[Moment] = []
        self.epoch = 0

    async def step(self) -> None:
        random, members = self.random, self.members
        partition, offset = random.randrange(2), random.randrange(1000)
        match random.randrange(5):
            case 0 if not self.epoch:
                self.epoch = await members.join_consumer("consumer", "A" * 22)
            case 0:
                self.epoch = await members.join_consumer("consumer", "A" * 22, self.epoch)
            case 1:
                joined = await members.join_classic("classic", "one")
                await members.commit("classic", offset, partition, member=joined)
            case 2 if self.epoch:
                member = ("A" * 22, self.epoch)
                await members.commit("consumer", offset, partition, member=member)
            case _:
                await members.commit("simple", offset, partition, metadata=f"m{offset}")

    async def note(self) -> None:
        groups: dict[str, object] = {}
        for name in GROUPS:
            try:
                groups[name] = facts(await describe_group(self.broker, name))
            except UnknownGroupError:
                groups[name] = None
        log = running_cluster(self.broker).partitions.logs()["__consumer_offsets", 0]
        self.moments.append(Moment(self.clock.now_ms(), log.end_offset, groups))

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            await self.step()
            await self.note()
            self.clock.advance(self.random.randrange(1, 500))


def groups_at(source: LogSource, point: Point) -> dict[str, object]:
    view = PastView(source, point)
    found: dict[str, object] = {}
    for name in GROUPS:
        try:
            found[name] = facts(view.group(name))
        except TimeTravelError:
            found[name] = None
    return found


@pytest.mark.parametrize("seed", range(3))
async def test_each_earlier_state_is_the_one_that_the_broker_had(tmp_path: Path, seed: int) -> None:
    clock = AdjustableClock(rate=0, now_ms=NOW_MS)
    path = str(tmp_path)
    settings = Settings(listen=ANY_PORT, topics={TOPIC: 2}, config=CONFIG, data_directory=path)
    broker = Broker(settings, clock=clock)
    await broker.start()
    work = Work(broker, clock, seed)
    await work.run(40)
    running = RunningLogs(running_cluster(broker))
    for moment in work.random.sample(work.moments, 10):
        assert groups_at(running, Point(time_ms=moment.time_ms)) == moment.groups
        assert groups_at(running, Point(end_offset=moment.end_offset)) == moment.groups
    await broker.stop(grace_s=0)
    stopped = DirectoryLogs(path, clock.now_ms())
    for moment in work.random.sample(work.moments, 10):
        assert groups_at(stopped, Point(time_ms=moment.time_ms)) == moment.groups


async def test_a_topic_has_the_partitions_and_ends_that_it_had() -> None:
    clock = AdjustableClock(rate=0, now_ms=NOW_MS)
    broker = Broker(Settings(listen=ANY_PORT, topics={TOPIC: 2}, is_in_memory=True), clock=clock)
    await broker.start()
    cluster = running_cluster(broker)
    clock.advance(1000)
    cluster.create_missing_topics({"later": 1})
    logs = RunningLogs(cluster)
    before = PastView(logs, Point(time_ms=NOW_MS))
    assert [each.end_offset for each in before.topic(TOPIC).partitions] == [0, 0]
    with pytest.raises(TimeTravelError, match="there is no topic 'later' at 2001-09-09T01:46:40"):
        before.topic("later")
    assert len(PastView(logs, Point(time_ms=NOW_MS + 1000)).topic("later").partitions) == 1
    with pytest.raises(TimeTravelError, match="a topic needs a time, not an offset of one log"):
        PastView(logs, Point(end_offset=1)).topic(TOPIC)
    with pytest.raises(
        TimeTravelError, match="no group had been used, so __consumer_offsets did not exist"
    ):
        before.group("shop")
    await broker.stop(grace_s=0)


async def test_points_that_the_log_does_not_have_are_errors() -> None:
    broker = Broker(Settings(listen=ANY_PORT, topics={TOPIC: 1}, config=CONFIG, is_in_memory=True))
    await broker.start()
    members = Members(broker)
    for offset in range(4):
        await members.commit("shop", offset)
    cluster = running_cluster(broker)
    logs = RunningLogs(cluster)
    with pytest.raises(TimeTravelError, match="offset 9 is after the end of __consumer_offsets-0"):
        PastView(logs, Point(end_offset=9)).group("shop")
    assert PastView(logs, Point(end_offset=1)).committed("shop", TOPIC, 0) == 0
    with pytest.raises(TimeTravelError, match="there is no group 'other' at offset 2 of __consum"):
        PastView(logs, Point(end_offset=2)).group("other")
    log = cluster.partitions.logs()["__consumer_offsets", 0]
    log.roll(0)
    plan = plan_log_compaction(log, last_stable_offset=log.end_offset, now_ms=NOW_MS)
    assert plan is not None
    for _ in clean(log, plan, now_ms=0):
        pass
    gone = "the state at offset 2 is not known: compaction has removed records of __consumer_offs"
    with pytest.raises(TimeTravelError, match=gone):
        PastView(logs, Point(end_offset=2)).group("shop")
    assert PastView(logs, Point(end_offset=4)).committed("shop", TOPIC, 0) == 3
    found = await Bisect("committed(shop, orders, 0) >= 2").perform(broker)
    assert (found.offset, found.unknown_from) == (3, 0)
    await broker.stop(grace_s=0)
