"""ShareAcknowledge: acknowledgements without a fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.shares.state import ShareKey
from tests.cluster.shares import (
    ACCEPT,
    FIRST,
    RELEASE,
    RENEW,
    ShareCluster,
    acquired,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def wire(tmp_path: Path) -> ShareCluster:
    made = ShareCluster(tmp_path)
    made.produce(4, 4)
    assert acquired(made.fetch(FIRST)) == {0: [(0, 7, 1)]}
    return made


def test_an_acknowledgement_that_cannot_be_stored_is_not_applied(wire: ShareCluster) -> None:
    home = wire.cluster.shares.partition_for_share("g", wire.topic_id, 0)
    topic = wire.cluster.partitions.topic("__share_group_state")
    assert topic is not None
    log = topic.partitions[home].log
    whole = log.config
    log.config = whole._replace(max_message_bytes=10)
    assert wire.ack(1, (0, 7, ACCEPT))[1] == ErrorCode.UNKNOWN_SERVER_ERROR
    log.config = whole
    assert wire.ack(2, (0, 7, ACCEPT)) == (0, 0)


@pytest.mark.parametrize(
    ("batches", "code"),
    [
        ([(1, 0, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 3, ACCEPT), (2, 4, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 3, ACCEPT), (3, 4, ACCEPT)], ErrorCode.INVALID_RECORD_STATE),
        ([(0, 3, [ACCEPT, ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, 9)], ErrorCode.INVALID_REQUEST),
        ([(0, 3, RENEW)], ErrorCode.INVALID_REQUEST),
        ([(0, 8, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(9, 9, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(-9, -1, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(each, each, ACCEPT) for each in range(100_000)], ErrorCode.INVALID_REQUEST),
        ([(0, 2**63 - 1, ACCEPT)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_acknowledgement_changes_nothing(
    wire: ShareCluster, batches: list[tuple[int, int, int | list[int]]], code: ErrorCode
) -> None:
    share = wire.cluster.share_partitions.find(ShareKey("g", wire.topic_id, 0))
    assert share is not None
    before = repr(share.window.in_flight.batches)
    summary = wire.cluster.shares.summary("g", wire.topic_id, 0)
    assert wire.ack(1, *batches) == (0, code)
    assert repr(share.window.in_flight.batches) == before
    assert wire.cluster.shares.summary("g", wire.topic_id, 0) == summary
    (entry,) = [each for each in wire.cluster.history.about("g") if each.kind == "refused"]
    assert entry.facts["error"] == code.name
    assert wire.ack(2, (0, 7, ACCEPT)) == (0, 0)


def test_records_of_other_members_cannot_be_acknowledged(wire: ShareCluster) -> None:
    wire.produce(2)
    wire.fetch(FIRST, "b")
    assert wire.ack(1, (0, 1, ACCEPT), member="b") == (0, ErrorCode.INVALID_RECORD_STATE)
    entries = [each for each in wire.cluster.history.about("g") if each.kind == "refused"]
    assert entries[0].facts["error"] == "INVALID_RECORD_STATE"
    assert entries[0].facts["member_id"] == "b"
    assert entries[0].facts["acquired_by"] == "a"
    assert entries[0].facts["rule"] == "acquired-by-member"


def test_records_over_the_delivery_limit_are_archived_and_recorded_in_the_history(
    tmp_path: Path,
) -> None:
    wire = ShareCluster(tmp_path, config={"group.share.delivery.count.limit": "2"})
    wire.produce(2)
    wire.fetch(FIRST)
    wire.ack(1, (0, 1, RELEASE))
    assert acquired(wire.fetch(2)) == {0: [(0, 1, 2)]}
    wire.ack(3, (0, 1, RELEASE))
    assert acquired(wire.fetch(4)) == {}
    (entry,) = [each for each in wire.cluster.history.about("g") if each.kind == "archived"]
    assert entry.text == (
        "records 0 to 1 of t-0 archived after 2 deliveries (rule delivery-count-limit)"
    )


def test_records_are_not_acknowledged_if_share_groups_are_disabled(tmp_path: Path) -> None:
    wire = ShareCluster(tmp_path, config={"share.version": "0"})
    request = ShareAcknowledgeRequest(group_id="g", member_id="a", share_session_epoch=1)
    assert wire.handle(request).error_code == ErrorCode.UNSUPPORTED_VERSION
