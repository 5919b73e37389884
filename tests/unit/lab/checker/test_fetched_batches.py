"""Fetch sessions: later requests name only the partitions that changed."""

from __future__ import annotations

import pytest

from kafkalite.lab.checker.fetched_batches import (
    FetchSessions,
    UnreadableBatchesError,
    batches_of,
    is_commit_marker,
    topic_of,
)
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.storage.batch import BatchView, build_batch
from kafkalite.storage.record_format import NewRecord

TOPIC_ID = bytes(range(16))
NODE = "node 1"


def request(
    session_id: int, epoch: int, positions: dict[int, int], forgotten: tuple[int, ...] = ()
) -> FetchRequest:
    rows = [
        FetchRequest.FetchPartition(partition=number, fetch_offset=offset)
        for number, offset in positions.items()
    ]
    dropped = FetchRequest.ForgottenTopic(topic_id=TOPIC_ID, partitions=list(forgotten))
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchRequest.FetchTopic(topic_id=TOPIC_ID, partitions=rows)],
        forgotten_topics_data=[dropped] if forgotten else [],
    )


def test_a_session_remembers_positions_until_they_are_forgotten() -> None:
    sessions = FetchSessions()
    answer = FetchResponse(session_id=7)
    assert sessions.positions(NODE, request(0, 0, {0: 5, 1: 6}), answer) == {
        (TOPIC_ID, 0): 5,
        (TOPIC_ID, 1): 6,
    }
    assert sessions.positions(NODE, request(7, 1, {0: 9}), answer) == {
        (TOPIC_ID, 0): 9,
        (TOPIC_ID, 1): 6,
    }
    assert sessions.positions(NODE, request(7, 2, {}, (1,)), answer) == {(TOPIC_ID, 0): 9}


def test_sessions_of_other_nodes_and_earlier_ones_are_unknown() -> None:
    sessions = FetchSessions()
    sessions.positions(NODE, request(0, 0, {0: 5}), FetchResponse(session_id=7))
    assert sessions.positions("node 2", request(7, 1, {}), FetchResponse(session_id=7)) is None
    assert sessions.positions(NODE, request(8, 1, {}), FetchResponse(session_id=8)) is None


def test_a_topic_has_an_id_or_a_name() -> None:
    assert topic_of(FetchRequest.FetchTopic(topic_id=TOPIC_ID)) == TOPIC_ID
    assert topic_of(FetchRequest.FetchTopic(topic="orders")) == "orders"


def test_damaged_batches_raise_an_error() -> None:
    with pytest.raises(UnreadableBatchesError):
        batches_of(bytes(8) + b"\0\0\0\1" + bytes(60))
    assert batches_of(None) == ()


def test_a_damaged_marker_raises_an_error() -> None:
    batch = bytearray(build_batch([NewRecord(b"", b"", 0)], attributes=1 << 5))
    batch[22] |= 7  # no compression has this number
    with pytest.raises(UnreadableBatchesError):
        is_commit_marker(BatchView(bytes(batch)))
