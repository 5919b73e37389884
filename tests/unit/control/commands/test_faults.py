"""Commands that add, list and remove faults."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.apis.table import find_api
from kafkalite.control.commands.faults import (
    AddFault,
    RemoveFault,
    ShowFault,
)
from kafkalite.gateway.fault_rules import Action, Match, Trigger, UnknownFaultError
from kafkalite.gateway.faults import Faults
from kafkalite.gateway.gateway import Gateway
from kafkalite.ports.seeded_entropy import SeededEntropy

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker


def served_broker() -> Broker:
    gateway = Gateway(find_api, lambda _, __: None)
    faults = Faults(
        (1,),
        {"P": gateway},
        SeededEntropy(),
        report=lambda *_: None,
        report_bug=lambda *_: None,
        install=lambda _: None,
    )
    return cast("Broker", SimpleNamespace(faults=faults))


async def test_a_wait_for_a_fault_ends_when_the_fault_is_removed() -> None:
    broker = served_broker()
    await AddFault(Match(), Trigger(), Action(twice=True)).perform(broker)
    waiting = asyncio.create_task(ShowFault("f1", firings=1, wait_ms=600_000).perform(broker))
    await asyncio.sleep(0)
    assert len(broker.faults.watchers) == 1
    await RemoveFault("f1").perform(broker)
    with pytest.raises(UnknownFaultError, match=r"^there is no fault 'f1'; there is none$"):
        await waiting
