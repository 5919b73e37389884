"""The history of groups, transactional ids, topics and clients."""

from __future__ import annotations

import json
import re
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.explain import (
    COMMANDS,
    Explain,
    FollowHistory,
    HistoryEntry,
    NamedMember,
    member_names,
    named_texts,
)
from kafkalite.coordinator.contract import Event
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.ports.clock import AdjustableClock
from tests.unit.control.test_turns import turns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.server.broker import Broker


def broker() -> Broker:
    clock = AdjustableClock(rate=0, now_ms=1_000)
    return cast("Broker", SimpleNamespace(clock=clock, history=EventHistory()))


async def test_the_history_of_one_group_or_of_all_is_returned() -> None:
    running = broker()
    for number, group in enumerate(("a", "b", "a")):
        running.history.add(Event(group, "joined", f"m{number} joined", {}), number)
    one = await Explain("a").perform(running)
    assert [entry.text for entry in one.entries] == ["m0 joined", "m2 joined"]
    assert (one.now_ms, one.groups) == (1_000, ("a", "b"))
    assert [entry.text for entry in (await Explain(limit=2).perform(running)).entries] == [
        "m1 joined", "m2 joined",
    ]  # fmt: skip
    assert (await Explain("a", limit=-5).perform(running)).entries == ()
    assert (await Explain("unknown").perform(running)).entries == ()
    assert (await Explain(transactional_id="a").perform(running)).entries == ()


def test_subjects_of_explain_cannot_be_combined() -> None:
    with pytest.raises(CommandError, match="takes one group"):
        Explain("g", transactional_id="t")
    with pytest.raises(CommandError, match="one topic"):
        Explain("g", topic="t")
    with pytest.raises(CommandError, match="one client"):
        Explain(topic="t", client="127.0.0.1")


UUID = "8773c7fd-3435-41ad-acbe-4e7b239f8ee2"


async def lines(running: Broker, **given: object) -> list[str]:
    (row, _) = COMMANDS.rows
    return list(row.lines(await Explain(**given).perform(running), given))  # type: ignore[arg-type]


def join(running: Broker, member_id: str, client_id: str, group: str = "shop") -> None:
    facts = {"member_id": member_id, "client_id": client_id, "client_host": "/10.0.0.1"}
    running.history.add(Event(group, "joined", f"member {member_id} joined", facts), 0)


async def test_lines_name_the_clients_of_members_and_are_aligned() -> None:
    running = broker()
    join(running, "QlNiaT/8Th637V9vYeMTig", "svc-0")
    join(running, f"svc-1-{UUID}", "svc-1")
    join(running, "m3", "svc-2", "s")
    text = f"epoch 1 → 2: QlNiaT/8Th637V9vYeMTig, svc-1-{UUID}"
    running.history.add(Event("shop", "rebalance", text, {}), 0)
    time = "1970-01-01T00:00:00.000Z"
    first, second = "svc-0@10.0.0.1 (QlNiaT/8…)", "svc-1@10.0.0.1 (8773c7fd…)"
    assert await lines(running) == [
        f"{time} shop joined:    member {first} joined",
        f"{time} shop joined:    member {second} joined",
        f"{time} s    joined:    member svc-2@10.0.0.1 (m3) joined",
        f"{time} shop rebalance: epoch 1 → 2: {first}, {second}",
    ]


async def test_shortened_ids_are_different() -> None:
    running = broker()
    for each in ("abcdefgh-1111-2222", "abcdefgh-1111-3333", "abcdefgh-1112-3333"):
        join(running, each, "svc")
    assert [line.partition("svc@10.0.0.1 ")[2] for line in await lines(running)] == [
        "(abcdefgh-1111-2222) joined",
        "(abcdefgh-1111-3333) joined",
        "(abcdefgh-1112-3333) joined",
    ]


async def test_entries_can_begin_at_a_time() -> None:
    running = broker()
    for time_ms in (0, 400, 900):
        running.history.add(Event("g", "joined", f"{time_ms}", {}), time_ms)
    last = await Explain(since="600ms").perform(running)
    assert [entry.text for entry in last.entries] == ["400", "900"]
    last = await Explain("g", since="1970-01-01T00:00:00.900Z").perform(running)
    assert [entry.text for entry in last.entries] == ["900"]
    with pytest.raises(ValueError, match="'soon' is neither a duration, such as 15m, nor a time"):
        Explain(since="soon")


async def test_the_history_is_as_it_was_at_an_earlier_point() -> None:
    running = broker()
    for time_ms in (0, 400, 900, 950):
        running.history.add(
            Event("g", "joined", "again" if time_ms in {400, 950} else "once", {}), time_ms
        )
    then = (await Explain("g", at="100ms").perform(running)).entries
    assert [(each.text, each.times, each.at_ms) for each in then] == [
        ("once", 2, 900),
        ("again", 1, 400),
    ]
    then = (await Explain("g", at="600ms", since="100ms").perform(running)).entries
    assert [(each.text, each.at_ms) for each in then] == [("again", 400)]
    then = (await Explain("g", at="100ms", limit=1).perform(running)).entries
    assert [each.text for each in then] == ["again"]
    with pytest.raises(ValueError, match="'soon' is no point in time"):
        await Explain(at="soon").perform(running)


async def test_a_stream_has_the_entries_and_those_that_follow() -> None:
    running = broker()
    for group in ("a", "b", "a"):
        running.history.add(Event(group, "joined", f"{group} joined", {}), 0)
    events = FollowHistory(group="a", limit=1).events(running)
    assert await anext(events) == ": history\n\n"
    assert _entry(await anext(events))["number"] == 3
    running.history.add(Event("b", "left", "b left", {}), 0)
    running.history.add(Event("a", "refused", "stale", {}), 0)
    running.history.add(Event("a", "refused", "stale", {}), 0)
    repeated = _entry(await anext(events))
    assert (repeated["number"], repeated["times"]) == (6, 2)
    with pytest.raises(CommandError, match="no end"):
        await FollowHistory().perform(running)


async def test_other_tasks_run_between_the_entries_of_a_stream() -> None:
    running = broker()
    for number in range(1_000):
        running.history.add(Event(f"g{number}", "joined", "m joined", {}), 0)
    events = FollowHistory(limit=1_000).events(running)

    async def consume() -> None:
        for _ in range(1_001):
            await anext(events)

    assert await turns_of(consume()) >= 9


def _entry(event: str) -> dict[str, object]:
    number, kind, data = event.splitlines()[:3]
    entry: dict[str, object] = json.loads(data.removeprefix("data: "))
    assert (number, kind) == (f"id: {entry['number']}", "event: entry")
    return entry


def test_ids_of_members_in_texts_are_replaced_by_names() -> None:
    ids = ("a", "a.b", "app-1", "app-1 (x)")
    members = tuple(NamedMember(each, f"client {each}", "host") for each in ids)
    pattern = r"(?<![\w+/-])(?:app-1 \(x\)|app-1|a\.b|a)(?![\w+/-])"
    random = Random(1)  # noqa: S311 - a seed of a test
    for number in range(300):
        text = "".join(random.choices((*ids, " ", ",", "-", "b", "\u03a9", "app-1"), k=12))
        entry = HistoryEntry(
            number, "g", None, None, None, "joined", text, {}, 1, 1, "", 1, "", members
        )
        names = member_names([entry])
        assert named_texts([entry]) == [re.sub(pattern, _name_in(names), text)]


def _name_in(names: Mapping[str, str]) -> Callable[[re.Match[str]], str]:
    return lambda match: names[match[0]]
