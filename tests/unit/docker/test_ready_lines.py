"""Lines for which the Kafka modules of Testcontainers wait."""

from __future__ import annotations

import asyncio
import re

import pytest

from kafkalite.docker.ready_lines import ready_lines
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings


async def lines_of(settings: Settings) -> str:
    broker = Broker(settings, Log(Level.ERROR))
    await broker.start()
    try:
        return ready_lines(broker)
    finally:
        await broker.stop()


@pytest.mark.parametrize("release", [None, "3.9", "4.4"])
def test_the_version_is_that_of_the_emulated_release(release: str | None) -> None:
    text = asyncio.run(lines_of(Settings(listen=["127.0.0.1:0"], as_version=release)))
    assert f"Kafka version: {release or '4.4'}, kafkalite " in text


@pytest.mark.parametrize(
    "pattern",
    [
        r".*Transitioning from RECOVERY to RUNNING.*",
        r".*\[KafkaServer id=\d+\] started.*",
        r".*Kafka Server started.*",
        r"started \(kafka\.server\.KafkaServer\)",
        r"Creating new log file",
        r"Checking need to trigger auto leader balancing",
        r"Kafka startTimeMs: \d+",
    ],
)
def test_each_line_is_printed_once(pattern: str) -> None:
    text = asyncio.run(lines_of(Settings(listen=["127.0.0.1:0"], config={"node.id": "7"})))
    assert len([line for line in text.splitlines() if re.search(pattern, line)]) == 1
    assert "[KafkaServer id=7] started" in text
