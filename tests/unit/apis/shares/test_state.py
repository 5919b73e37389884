"""The requests for share state: a result for each partition, by the leader of the state's log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol._generated.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
)
from kafkalite.protocol._generated.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
)
from kafkalite.protocol._generated.messages.read_share_group_state import ReadShareGroupStateRequest
from kafkalite.protocol._generated.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
)
from kafkalite.protocol._generated.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.shares.state import ShareKey, StateBatch, StateChange
from tests.cluster.shares import APIS, ShareCluster

if TYPE_CHECKING:
    from pathlib import Path

INITIALIZE, READ = InitializeShareGroupStateRequest, ReadShareGroupStateRequest
WRITE, DELETE = WriteShareGroupStateRequest, DeleteShareGroupStateRequest
SUMMARY = ReadShareGroupStateSummaryRequest
TOPICS = {
    INITIALIZE: INITIALIZE.InitializeStateData,
    READ: READ.ReadStateData,
    WRITE: WRITE.WriteStateData,
    DELETE: DELETE.DeleteStateData,
    SUMMARY: SUMMARY.ReadStateSummaryData,
}


def request(kind: Any, topic_id: bytes, *indexes: int, group: str = "g", **fields: Any) -> Any:  # noqa: ANN401
    """Return a request of one of the five kinds."""
    rows = [kind.PartitionData(partition=index, **fields) for index in indexes]
    topics = [TOPICS[kind](topic_id=topic_id, partitions=rows)]
    return kind(group_id=group, topics=topics)


def rows(answer: Any) -> list[Any]:  # noqa: ANN401 - of any of the five
    return [row for result in answer.results for row in result.partitions]


def codes(answer: Any) -> list[int]:  # noqa: ANN401 - of any of the five
    return [row.error_code for row in rows(answer)]


@pytest.fixture
def wire(tmp_path: Path) -> ShareCluster:
    return ShareCluster(tmp_path, partitions=2)


def test_recorded_refusals_are_limited(wire: ShareCluster) -> None:
    assert len(codes(wire.handle(request(SUMMARY, wire.topic_id, *range(2, 30))))) == 28
    refusals = [each for each in wire.cluster.history.about("g") if each.kind == "refused"]
    assert len(refusals) == 10
    assert {each.facts["error"] for each in refusals} == {"UNKNOWN_TOPIC_OR_PARTITION"}
    assert {each.facts["api"] for each in refusals} == {"ReadShareGroupStateSummary"}


@pytest.mark.parametrize("kind", TOPICS)
def test_a_request_without_a_group_is_empty(wire: ShareCluster, kind: Any) -> None:  # noqa: ANN401
    assert rows(wire.handle(request(kind, wire.topic_id, 0, group=""))) == []


def test_a_write_without_partitions_is_empty(wire: ShareCluster) -> None:
    assert wire.handle(request(WRITE, wire.topic_id)).results == []


def test_only_the_leader_of_the_log_answers(tmp_path: Path) -> None:
    wire = ShareCluster(tmp_path, nodes=2)
    answers = [
        codes(wire.handle(request(SUMMARY, wire.topic_id, 0), connection=f"{node}", node_id=node))
        for node in (1, 2)
    ]
    assert sorted(answers) == [[ErrorCode.NONE], [ErrorCode.NOT_COORDINATOR]]


@pytest.mark.parametrize("kind", TOPICS)
def test_one_error_applies_to_all_partitions(kind: Any) -> None:  # noqa: ANN401
    asked = request(kind, bytes(16), 0, 1)
    answer = APIS[kind.API_KEY].refuse(asked, ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert codes(answer) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


def test_states_survive_pruning_of_their_log(wire: ShareCluster) -> None:
    shares = wire.cluster.shares
    key = ShareKey("g", wire.topic_id, 0)
    for offset in range(1_200):
        batch = StateBatch(offset, offset, 2, 1)
        shares.write_state(key, StateChange(0, 0, offset, 1, (batch,)))
    home = shares.partition_for_share(*key)
    topic = wire.cluster.partitions.topic("__share_group_state")
    assert topic is not None
    wire.clock.advance(300_000)
    assert topic.partitions[home].log_start_offset > 1_000
    wire.restart()
    assert wire.cluster.shares.summary(*key).start_offset == 1_199
