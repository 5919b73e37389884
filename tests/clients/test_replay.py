"""What real clients asked of kafkalite is asked again, and answered alike in every field.

The same is done with what a real Kafka answered them, in tests/captures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kafkalite.replay.calls import replay
from kafkalite.replay.findings import Severity
from kafkalite.replay.options import ReplayOptions
from kafkalite.replay.telling import replay_text
from kafkalite.testing import Broker
from tests.clients.process import visiting
from tests.clients.roster import CLIENTS
from tests.clients.story import Group, codec_round_trip, group_reads_while_members_come_and_go
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.roster import Client

pytestmark = pytest.mark.client

AT_ONCE = {"confluent-kafka", "aiokafka"}
"""Clients whose life is short enough for every run."""


CONFIG = {**COMMON_CONFIG, "group.initial.rebalance.delay.ms": "1000"}
"""A group whose first members are not waited for begins with those that a busy machine let in by
then, which no replay can know."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A broker that records, as the stories of clients know one."""

    bootstrap: str
    name: str = "kafkalite"
    port: int = 0


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(
            client,
            id=client.name,
            marks=() if client.name in AT_ONCE else pytest.mark.endurance,
        )
        for client in CLIENTS
    ],
)
def test_what_clients_asked_is_answered_alike(client: Client, tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    with (
        Broker(config=CONFIG, capture=capture) as broker,
        visiting(client, broker.bootstrap_servers, tmp_path) as driver,
    ):
        target = Recorded(broker.bootstrap_servers)
        codec_round_trip(driver, client.codecs[-1])
        for protocol in client.protocols:
            group = Group(driver, target, f"{protocol}-group", f"{protocol}-orders", protocol)  # type: ignore[arg-type]  # it is not restarted
            group_reads_while_members_come_and_go(group)
    with Broker(config=CONFIG) as other:
        # By its clock, members that stood still too long when it was recorded are as long silent.
        report = replay(
            capture, to=other.bootstrap_servers, options=ReplayOptions(clock=other.clock)
        )
    assert report.broken_off is None
    assert report.at_least(Severity.DIFFERENCE) == [], replay_text(report)
    assert report.responses > 50
    assert not report.problems
