"""Every client library does its daily work: write, read, share, commit, come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.story import (
    Group,
    codec_round_trip,
    group_reads_while_members_come_and_go,
    group_resumes_after_a_restart,
)

if TYPE_CHECKING:
    from tests.clients.conftest import Seat

pytestmark = pytest.mark.client


def test_records_come_back_equal_and_in_order_with_every_codec(seat: Seat) -> None:
    for codec in seat.client.codecs:
        codec_round_trip(seat.driver, codec)


def test_a_group_loses_no_record_and_no_commit_while_members_come_and_go(seat: Seat) -> None:
    for protocol in seat.client.protocols:
        group = Group(seat.driver, seat.target, f"{protocol}-group", f"{protocol}-moving", protocol)
        witness = group_reads_while_members_come_and_go(group)
        assert bool(witness.commits) is seat.client.logs_commits


def test_a_group_resumes_from_its_commits_after_a_broker_restart(seat: Seat) -> None:
    for protocol in seat.client.protocols:
        group = Group(
            seat.driver, seat.target, f"{protocol}-again", f"{protocol}-resumed", protocol
        )
        group_resumes_after_a_restart(group)
