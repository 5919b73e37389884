"""IncarnationCheck: which epochs are refused, by which nodes, and the reported refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.data import fetch, list_offsets
from kafkalite.partitions.fetch_sessions import FINAL_EPOCH
from kafkalite.partitions.incarnations import IncarnationCheck
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.unit.data_plane import DataPlane
from tests.unit.exchanges import new_exchange

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.gateway.api import Api

EPOCH = 7
OUTDATED_FETCH = FetchRequest(
    session_epoch=FINAL_EPOCH,
    topics=[
        FetchRequest.FetchTopic(
            topic="t", partitions=[FetchRequest.FetchPartition(incarnation_epoch=EPOCH - 1)]
        )
    ],
)
OUTDATED_LIST_OFFSETS = ListOffsetsRequest(
    topics=[
        ListOffsetsRequest.ListOffsetsTopic(
            name="t",
            partitions=[
                ListOffsetsRequest.ListOffsetsPartition(incarnation_epoch=EPOCH - 1, timestamp=-1)
            ],
        )
    ]
)


class Data(DataPlane):
    """Topic t, whose partition 0 has epoch 7, nodes 0 (leader) and 1; and the refusals."""

    def __init__(self, path: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(path, settings)
        self.create(replicas=(0, 1))
        self.partition().incarnation_epoch = EPOCH
        self.refusals: list[tuple[str, KafkaError]] = []

    def check(self, node_id: int = 0) -> IncarnationCheck:
        """Return the check of a request to a node."""
        return IncarnationCheck(
            node_id, "Fetch", lambda topic, error: self.refusals.append((topic, error))
        )

    def code(self, epoch: int, node_id: int = 0, *, leader_only: bool = True) -> ErrorCode:
        """Return the error code of a check."""
        try:
            self.check(node_id).check(self.partition(), epoch, leader_only=leader_only)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE


@pytest.mark.parametrize("epoch", [EPOCH, -1, -9])
def test_the_current_and_no_epoch_are_accepted(tmp_path: Path, epoch: int) -> None:
    data = Data(tmp_path)
    assert data.code(epoch) is ErrorCode.NONE
    assert data.refusals == []


@pytest.mark.parametrize("epoch", [0, EPOCH - 1, EPOCH + 1])
def test_another_epoch_is_refused_and_reported(tmp_path: Path, epoch: int) -> None:
    data = Data(tmp_path)
    assert data.code(epoch) is ErrorCode.INVALID_PARTITION_EPOCH
    ((topic, error),) = data.refusals
    assert topic == "t"
    assert error.explanation == (
        f"Fetch of t-0 refused: the client expects partition epoch {epoch}, but the partition has 7"
    )
    assert error.facts == {
        "rule": "partition-epoch",
        "partition": "t-0",
        "received_epoch": epoch,
        "current_epoch": EPOCH,
    }


def test_only_a_node_that_may_answer_refuses_an_epoch(tmp_path: Path) -> None:
    data = Data(tmp_path)
    assert data.code(1, node_id=1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert data.code(1, node_id=1, leader_only=False) is ErrorCode.INVALID_PARTITION_EPOCH
    assert data.code(1, node_id=2, leader_only=False) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_number_of_reports_of_a_request_is_limited(tmp_path: Path) -> None:
    data = Data(tmp_path)
    check = data.check()
    for _ in range(150):
        with pytest.raises(KafkaError):
            check.check(data.partition(), 1, leader_only=True)
    assert len(data.refusals) == 100


@pytest.mark.parametrize(
    ("api", "request_"),
    [(fetch.APIS[0], OUTDATED_FETCH), (list_offsets.APIS[0], OUTDATED_LIST_OFFSETS)],
    ids=["Fetch", "ListOffsets"],
)
@pytest.mark.parametrize("is_on", [True, False])
def test_requests_are_checked_and_reported_if_the_broker_uses_partition_epochs(
    tmp_path: Path,
    api: Api,
    request_: object,
    is_on: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    data = Data(tmp_path, {"kafkalite.partition.epochs": "true"} if is_on else None)
    call = data.call(api, 12)
    observed = new_exchange(call.context, request_, api.versions.highest)
    answer = api.handler(call, request_)
    topics = answer.responses if api.name == "Fetch" else answer.topics
    code = topics[0].partitions[0].error_code
    refusals = [(each.api, each.entity_id, each.kind) for each in observed.refusals]
    if is_on:
        assert code == ErrorCode.INVALID_PARTITION_EPOCH
        assert refusals == [(api.name, "t", Entity.TOPIC)]
    else:
        assert (code, refusals) == (ErrorCode.NONE, [])
