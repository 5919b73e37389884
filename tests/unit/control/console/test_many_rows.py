"""Pages about 10,000 topics, groups and transactional ids: paged, and made in small steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.commands.topics import CreateTopic
from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.transactions.state import Transaction
from tests.unit.control.console.served_console import ServedConsole, served_console
from tests.unit.control.group_members import TOPIC
from tests.unit.control.test_turns import turns_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MANY = 10_000
MIN_TURNS = MANY // 2_000
"""The number of turns that other tasks get at least while so many entries are read once."""


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


def add_topics(console: ServedConsole) -> None:
    metadata = console.members.cluster.metadata
    image = metadata.image
    model = image.topics[TOPIC]
    added = {name: model._replace(name=name) for name in names("topic")}
    metadata.resume(image._replace(topics={**image.topics, **added}))


def add_groups(console: ServedConsole) -> None:
    (shard,) = console.members.cluster.groups.shards()
    groups = shard.machine.directory.groups
    groups.update({name: ClassicGroup(name) for name in names("group")})


async def add_transactions(console: ServedConsole) -> None:
    await console.begin_transaction("first")
    shard = next(iter(console.members.cluster.transactions.shards()))
    for name in names("id"):
        shard.machine.replay(CoordinatorRecord(name, Transaction(name, 1, 0, 60_000)))


def names(kind: str) -> list[str]:
    """Return names that are not in their order."""
    return [f"{kind}-{number:06}" for number in reversed(range(MANY))]


async def test_many_topics(console: ServedConsole) -> None:
    add_topics(console)
    pages: list[str] = []

    async def load() -> None:
        pages.append(await console.get("/topics"))
        pages.append(await console.get("/topics", page=70, q="TOPIC-0"))

    assert await turns_of(load()) >= 4 * MIN_TURNS
    first, other = pages
    assert "1\u2013100 of 10,001" in first
    assert first.count("<tr>") == 101
    assert "topic-000099" not in first
    assert "6,901\u20137,000 of 10,000" in other
    assert "topic-006999" in other
    assert "9,901\u201310,000" in await console.get("/topics", page=9_999, q="topic")


async def test_many_groups(console: ServedConsole) -> None:
    add_groups(console)
    pages: list[str] = []

    async def load() -> None:
        pages.append(await console.get("/groups", page=2))

    assert await turns_of(load()) >= 2 * MIN_TURNS
    (second,) = pages
    assert "101\u2013200 of 10,000" in second
    assert "group-000100" in second
    assert "1 of 1" in await console.get("/groups", q="group-001234")


async def test_many_transactional_ids(console: ServedConsole) -> None:
    await add_transactions(console)
    pages: list[str] = []

    async def load() -> None:
        pages.append(await console.get("/transactions"))
        pages.append(await console.get("/transaction", id="first"))

    assert await turns_of(load()) >= 4 * MIN_TURNS
    assert "1\u2013100 of 10,001" in pages[0]
    assert "id-000098" in pages[0]
    assert "1\u20131 of 1" in await console.get("/transactions", state="open")


async def test_the_overview_counts_many_topics_in_small_steps(console: ServedConsole) -> None:
    add_topics(console)
    pages: list[str] = []

    async def load() -> None:
        pages.append(await console.get("/"))
        pages.append(await console.get("/controls"))

    assert await turns_of(load()) >= 2 * MIN_TURNS
    assert "<b>10,001</b> <span>topics, 20,002 partitions</span>" in pages[0]


async def test_many_partitions(console: ServedConsole) -> None:
    await CreateTopic("wide", 5_000).perform(console.broker)
    pages: list[str] = []

    async def load() -> None:
        pages.append(await console.get("/topic", topic="wide", page=50))

    assert await turns_of(load()) >= 5_000 // 2_000
    assert "4,901\u20135,000 of 5,000" in pages[0]
