"""Expected commits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.commits import ExpectCommit
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from kafkalite.testing import Broker as BrokerOfTests
from tests.unit.control.group_members import CONFIG, TOPIC, Members
from tests.unit.control.ports import ANY_PORT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    running = Broker(Settings(listen=ANY_PORT, topics={TOPIC: 2}, config=CONFIG))
    await running.start()
    yield running
    await running.stop(grace_s=0)


async def test_an_expectation_waits_for_the_offset(broker: Broker) -> None:
    members = Members(broker)
    command = ExpectCommit(group="shop", topic=TOPIC, offset=5, within_ms=60_000)
    waiting = asyncio.create_task(command.perform(broker))
    await asyncio.sleep(0)
    await members.commit("shop", 4)
    await asyncio.sleep(0)
    assert not waiting.done()
    await members.commit("shop", 5)
    result = await waiting
    assert (result.met, result.offset) == (True, 5)


async def test_any_offset_can_be_expected(broker: Broker) -> None:
    await Members(broker).commit("shop", 3)
    result = await ExpectCommit(group="shop", topic=TOPIC, within_ms=0).perform(broker)
    assert (result.met, result.offset) == (True, 3)


@pytest.mark.parametrize(
    ("group", "partition", "text"),
    [
        ("shop", 0, f"'shop' to commit offset 5 of {TOPIC}-0; the committed offset is 3"),
        ("shop", 1, f"'shop' to commit offset 5 of {TOPIC}-1; the committed offset is none"),
        (
            "shap",
            0,
            (
                f"'shap' to commit offset 5 of {TOPIC}-0; the committed offset is none: there is "
                "no group 'shap'; similar names are shop"
            ),
        ),
    ],
)
async def test_an_unmet_expectation_has_the_committed_offset(
    broker: Broker, group: str, partition: int, text: str
) -> None:
    await Members(broker).commit("shop", 3)
    result = await ExpectCommit(
        group=group, topic=TOPIC, partition=partition, offset=5, within_ms=0
    ).perform(broker)
    assert not result.met
    assert result.text.splitlines()[0] == f"expected group {text}"


async def test_the_history_of_the_group_explains_an_unmet_expectation(broker: Broker) -> None:
    await Members(broker).join_consumer("shop", "c")
    result = await ExpectCommit(group="shop", topic=TOPIC, within_ms=0).perform(broker)
    assert "  explain: " in result.text
    assert " joined" in result.text


async def test_unknown_topics_and_partitions_are_refused_at_once(broker: Broker) -> None:
    with pytest.raises(CommandError, match="there is no topic"):
        await ExpectCommit(group="shop", topic="nothing").perform(broker)
    with pytest.raises(CommandError, match="has the partitions 0 to 1, but not "):
        await ExpectCommit(group="shop", topic=TOPIC, partition=2).perform(broker)


def test_a_test_expects_a_commit() -> None:
    with BrokerOfTests(topics={"orders": 1}) as running, pytest.raises(AssertionError) as failed:
        running.expect_commit("shop", "orders", offset=1, within=0)
    assert "the committed offset is none" in str(failed.value)
