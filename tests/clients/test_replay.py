"""Recorded requests of real clients are replayed, and get equal responses.

tests/captures does the same with recordings of a real Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.replay.comparison.findings import Severity
from kafkalite.lab.replay.options import ReplayOptions
from kafkalite.lab.replay.player.run import replay
from kafkalite.lab.replay.report_text import replay_text
from kafkalite.testing import Broker
from tests.clients.client_libraries import CLIENTS
from tests.clients.client_scenario import (
    Group,
    codec_round_trip,
    group_reads_while_members_come_and_go,
)
from tests.clients.process import running_driver
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.client_libraries import Client

pytestmark = [pytest.mark.client, pytest.mark.endurance]

IN_EVERY_RUN = {"confluent-kafka", "aiokafka"}
"""Clients whose scenario is short enough for every test run."""


CONFIG = {**COMMON_CONFIG, "group.initial.rebalance.delay.ms": "1000"}
"""Without an initial rebalance delay, the first generation has the members that happened to join
in time, which a replay cannot repeat."""


@dataclass(frozen=True, slots=True)
class RecordingTarget:
    """A recording broker, with the interface of a Target."""

    bootstrap: str
    name: str = "kafkalite"
    port: int = 0


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(
            client,
            id=client.name,
            marks=() if client.name in IN_EVERY_RUN else pytest.mark.endurance,
        )
        for client in CLIENTS
    ],
)
def test_replayed_requests_get_equal_responses(client: Client, tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    with (
        Broker(config=CONFIG, capture=capture) as broker,
        running_driver(client, broker.bootstrap_servers, tmp_path) as driver,
    ):
        target = RecordingTarget(broker.bootstrap_servers)
        codec_round_trip(driver, client.codecs[-1])
        for protocol in client.protocols:
            group = Group(driver, target, f"{protocol}-group", f"{protocol}-orders", protocol)  # type: ignore[arg-type]  # it is not restarted
            group_reads_while_members_come_and_go(group)
    with Broker(config=CONFIG) as replayed_on:
        # With this clock, members that were silent for too long in the recording time out here too.
        report = replay(
            capture,
            to=replayed_on.bootstrap_servers,
            options=ReplayOptions(clock=replayed_on.clock),
        )
    assert report.abort_reason is None
    assert report.at_least(Severity.DIFFERENCE) == [], replay_text(report)
    assert report.responses > 50
    assert not report.problems
