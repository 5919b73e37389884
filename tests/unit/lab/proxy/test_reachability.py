"""The first reachable address, and the throttled log of failures."""

from __future__ import annotations

import asyncio
import json
from io import StringIO
from typing import TYPE_CHECKING

from kafkalite.lab.proxy import reachability
from kafkalite.lab.proxy.reachability import Probe, ReachabilityLog, connect_to_first
from kafkalite.server.addresses import Address
from kafkalite.server.logging import Level, Log
from tests.oracle.target import free_port
from tests.unit.lab.proxy.running_proxies import (
    LOOPBACK,
    TIMEOUT_S,
    running_proxy,
    scripted_cluster,
)

if TYPE_CHECKING:
    import pytest


class Stream(StringIO):
    """A stream that announces its second line."""

    def __init__(self) -> None:
        super().__init__()
        self.second = asyncio.Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.getvalue().count("\n") > 1:
            self.second.set()
        return written


async def closed_by_client(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    assert await reader.read() == b""


async def test_first_address_that_accepts_is_returned() -> None:
    async with scripted_cluster(closed_by_client) as upstream:
        addresses = [Address(LOOPBACK, free_port()), upstream]
        assert await connect_to_first(Probe, addresses, None, TIMEOUT_S) == upstream


async def test_unreachable_cluster_is_logged_before_a_client_connects() -> None:
    unreachable = Address(LOOPBACK, free_port())
    async with asyncio.timeout(TIMEOUT_S), running_proxy(unreachable) as proxy:
        assert proxy.proxy._probing is not None
        await proxy.proxy._probing
        line = json.loads(proxy.log.getvalue())
    assert line["event"] == "the upstream cannot be reached"
    assert line["reason"] == f"no broker answers at {unreachable}: connection refused"


async def test_failures_are_logged_at_most_once_per_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reachability, "REPORT_INTERVAL_S", 0.05)
    stream = Stream()
    log = ReachabilityLog(Log(Level.INFO, "json", stream))

    def lines() -> list[tuple[str, int | None]]:
        found = map(json.loads, stream.getvalue().splitlines())
        return [(line["event"], line.get("attempts")) for line in found]

    for _ in range(4):
        log.report_failure("refused")
    down = "the upstream cannot be reached"
    assert lines() == [(down, 1)]
    async with asyncio.timeout(TIMEOUT_S):
        await stream.second.wait()
    assert lines() == [(down, 1), (down, 3)]
    log.report_success()
    log.report_success()
    assert lines()[2:] == [("the upstream can be reached again", None)]
    log.report_failure("refused")
    assert lines()[3:] == [(down, 1)]
    log.close()
