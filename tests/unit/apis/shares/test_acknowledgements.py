"""Acknowledgements: session keys and validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.shares import ACCEPT, FIRST, ShareCluster, errors

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def wire(tmp_path: Path) -> ShareCluster:
    return ShareCluster(tmp_path)


@pytest.mark.parametrize(
    "fields", [{"group_id": None}, {"member_id": ""}, {"member_id": None}, {"member_id": "m" * 37}]
)
def test_a_group_and_a_member_are_required(wire: ShareCluster, fields: dict[str, Any]) -> None:
    assert wire.fetch(FIRST, **fields).error_code == ErrorCode.INVALID_REQUEST
    assert wire.ack(1, **fields)[0] == ErrorCode.INVALID_REQUEST


def test_acknowledgements_in_a_fetch_have_their_own_errors(wire: ShareCluster) -> None:
    wire.produce(2)
    wire.fetch(FIRST)
    answer = wire.fetch(1, acks={0: [(0, 5, ACCEPT)], 7: [(0, 0, ACCEPT)]})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors(answer) == (0, {0: (0, ErrorCode.INVALID_REQUEST), 7: (unknown, unknown)})


def test_a_partition_without_readers_cannot_be_acknowledged(tmp_path: Path) -> None:
    wire = ShareCluster(tmp_path, partitions=2)
    wire.fetch(FIRST)
    code = wire.ack(1, (0, 0, ACCEPT), index=1)[1]
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
