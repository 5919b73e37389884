"""The usual work of every client library: write, read, rebalance, commit, restart.

The fixture `connected` marks the clients that pip does not install with `endurance`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.client_scenario import (
    Group,
    codec_round_trip,
    group_reads_while_members_come_and_go,
    group_resumes_after_a_restart,
)

if TYPE_CHECKING:
    from tests.clients.conftest import ConnectedClient

pytestmark = pytest.mark.client


def test_records_come_back_equal_and_in_order_with_every_codec(connected: ConnectedClient) -> None:
    for codec in connected.client.codecs:
        codec_round_trip(connected.driver, codec)


def test_a_group_loses_no_record_and_no_commit_while_members_come_and_go(
    connected: ConnectedClient,
) -> None:
    for protocol in connected.client.protocols:
        group = Group(
            connected.driver, connected.target, f"{protocol}-group", f"{protocol}-moving", protocol
        )
        history = group_reads_while_members_come_and_go(group)
        assert bool(history.commits) is connected.client.logs_commits


def test_a_group_resumes_from_its_commits_after_a_broker_restart(
    connected: ConnectedClient,
) -> None:
    for protocol in connected.client.protocols:
        group = Group(
            connected.driver, connected.target, f"{protocol}-again", f"{protocol}-resumed", protocol
        )
        group_resumes_after_a_restart(group)
