"""Commands that disturb and heal links."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.control.commands.links import (
    DisturbLink,
    HealLink,
    HealLinks,
    ListLinks,
    line_of,
)
from kafkalite.server.link_rules import LinkRule, UnknownLinkError
from tests.unit.server.test_links import Network

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker


async def test_commands_return_the_affected_rules() -> None:
    broker = cast("Broker", SimpleNamespace(nodes=SimpleNamespace(links=Network().links)))
    first = await DisturbLink(client_id="shop", cut=True).perform(broker)
    second = await DisturbLink(latency_ms=5).perform(broker)
    assert first.rule == LinkRule(client_id="shop", cut=True)
    assert (await ListLinks().perform(broker)).links == (first, second)
    assert line_of(second) == "l2: latency_ms=5 (0 connections)"
    assert await HealLink("l1").perform(broker) == first
    with pytest.raises(UnknownLinkError):
        await HealLink("l1").perform(broker)
    assert (await HealLinks().perform(broker)).links == (second,)
