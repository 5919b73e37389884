"""Commands about scenarios, and what a shell prints."""

from __future__ import annotations

from kafkalite.control.commands.scenario import (
    COMMANDS,
    CheckScenario,
    ScenarioResult,
    ScenarioText,
    ShowScenario,
)
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings


async def test_a_broker_without_a_scenario_is_one() -> None:
    broker = Broker(Settings(listen=("PLAINTEXT://127.0.0.1:0",), topics={"orders": 3}, seed=4))
    await broker.start()
    shown = await ShowScenario().perform(broker)
    checked = await CheckScenario().perform(broker)
    await broker.stop()
    assert shown.yaml == "start:\n  topics: {orders: 3}\nseed: 4\n"
    assert checked == ScenarioResult(True, ())


def test_a_shell_prints_lines() -> None:
    show, check = COMMANDS.rows
    assert list(show.lines(ScenarioText("a: 1\nb: 2\n"), {})) == ["a: 1", "b: 2"]
    assert list(check.lines(ScenarioResult(True, ()), {})) == ["all expectations are met"]
    assert list(check.lines(ScenarioResult(False, ("x", "y")), {})) == ["x", "y"]
