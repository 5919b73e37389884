"""IncarnationCheck: which epochs are refused, by which nodes, and the reported refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.data import fetch
from kafkalite.apis.data.incarnations import IncarnationCheck
from kafkalite.gateway.call import Call
from kafkalite.gateway.exchanges import ObservedRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.unit.data_plane import DataPlane

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.gateway.refusals import Refusal

(FETCH,) = fetch.APIS
EPOCH = 7


class Data(DataPlane):
    """Topic t, whose partition 0 has epoch 7, nodes 0 (leader) and 1; and the refusals."""

    def __init__(self, path: Path, *, is_on: bool = True) -> None:
        super().__init__(path, {"kafkalite.partition.epochs": "true"} if is_on else None)
        self.create(replicas=(0, 1))
        self.partition().incarnation_epoch = EPOCH
        self.refusals: list[Refusal] = []

    def check(self, node_id: int = 0) -> IncarnationCheck | None:
        """Return the check of a request to a node."""
        observed = ObservedRequest((), 0)
        observed.refusals = self.refusals
        context = self.call(FETCH, 12, node_id=node_id).context
        return IncarnationCheck.of(Call(context, observed=observed), "Fetch")

    def code(self, epoch: int, node_id: int = 0, *, leader_only: bool = True) -> ErrorCode:
        """Return the error code of a check."""
        check = self.check(node_id)
        assert check is not None
        try:
            check.check(self.partition(), epoch, leader_only=leader_only)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE


def test_there_is_no_check_by_default(tmp_path: Path) -> None:
    assert Data(tmp_path, is_on=False).check() is None


@pytest.mark.parametrize("epoch", [EPOCH, -1, -9])
def test_the_current_and_no_epoch_are_accepted(tmp_path: Path, epoch: int) -> None:
    data = Data(tmp_path)
    assert data.code(epoch) is ErrorCode.NONE
    assert data.refusals == []


@pytest.mark.parametrize("epoch", [0, EPOCH - 1, EPOCH + 1])
def test_another_epoch_is_refused_and_reported(tmp_path: Path, epoch: int) -> None:
    data = Data(tmp_path)
    assert data.code(epoch) is ErrorCode.INVALID_PARTITION_EPOCH
    (refusal,) = data.refusals
    assert (refusal.api, refusal.entity_id, refusal.kind) == ("Fetch", "t", Entity.TOPIC)
    assert refusal.error.explanation == (
        f"Fetch of t-0 refused: the client expects partition epoch {epoch}, but the partition has 7"
    )
    assert refusal.error.facts == {
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
    assert check is not None
    for _ in range(150):
        with pytest.raises(KafkaError):
            check.check(data.partition(), 1, leader_only=True)
    assert len(data.refusals) == 100
