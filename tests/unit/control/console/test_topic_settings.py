"""The settings of topics."""

from __future__ import annotations

import pytest

from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.topics import CreateTopic
from tests.unit.control.console.served_console import served_console


async def test_changed_settings_are_the_first() -> None:
    async with served_console() as console:
        config = {"retention.ms": "5", "cleanup.policy": "compact"}
        await CreateTopic("t", config=config).perform(console.broker)
        found = await console.source.settings("t")
        assert [each.name for each in found[:2]] == ["cleanup.policy", "retention.ms"]
        assert (found[1].value, found[1].source) == ("5", "dynamic topic")
        assert not any(each.is_changed for each in found[2:])
        assert found[2].source == "default"
        assert all(each.about for each in found)


async def test_an_unknown_topic_is_refused() -> None:
    async with served_console() as console:
        with pytest.raises(CommandError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await console.source.settings("missing")
