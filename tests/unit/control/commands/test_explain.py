"""The history of groups, transactional ids, topics and clients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.explain import Explain
from kafkalite.coordinator.contract import Event
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.ports.clock import AdjustableClock
from kafkalite.protocol.acl_operations import Entity

if TYPE_CHECKING:
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


async def test_the_history_of_a_topic_is_returned() -> None:
    running = broker()
    running.history.add(Event("t", "refused", "epoch 3", {}, Entity.TOPIC), 0)
    running.history.add(Event("t", "joined", "m1 joined", {}), 0)
    explanation = await Explain(topic="t").perform(running)
    assert [entry.text for entry in explanation.entries] == ["epoch 3"]
    assert (explanation.groups, explanation.topics) == (("t",), ("t",))
