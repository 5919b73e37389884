"""Verification at the transaction coordinator; test_produce.py has tests of the whole path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.apis.data.produce import APIS
from kafkalite.apis.transactions.verification import (
    ADDS_PARTITIONS,
    BEFORE_ABORTABLE,
    verify,
)
from kafkalite.cluster.node import NodeState
from kafkalite.partitions.former_leader import FormerLeader
from kafkalite.partitions.producing import VerificationResult
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer, BatchView
from tests.unit.data_plane import DataPlane, batch_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkalite.gateway.call import Call

(PRODUCE,) = APIS


class Coordinator:
    """Refuses the partitions with an odd index."""

    def verify_or_add_partitions(
        self,
        name: str,
        producer: object,
        partitions: Sequence[tuple[str, int]],
        *,
        adds_missing: bool,
    ) -> dict[tuple[str, int], ErrorCode]:
        assert (name, producer, adds_missing) == ("id", (7, 0), True)
        codes = (ErrorCode.NONE, ErrorCode.PRODUCER_FENCED)
        return {place: codes[place[1] % 2] for place in partitions}


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    plane = DataPlane(tmp_path)
    plane.create(partitions=4)
    return plane


def context_of(plane: DataPlane) -> Call:
    call = plane.call(PRODUCE, 12)
    call.node.transactions = cast("Any", Coordinator())
    return call


def transactional_batch(pid: int = 7) -> BatchView:
    return BatchView(batch_of(b"v", attributes=TRANSACTIONAL, producer=BatchProducer(pid, 0, 0)))


def test_each_partition_has_its_own_result(plane: DataPlane) -> None:
    batches = [(plane.partition(index=index), transactional_batch()) for index in range(4)]
    verified = verify(context_of(plane), "id", batches, ADDS_PARTITIONS)
    assert sorted(partition.index for partition in verified.partitions) == [0, 2]
    assert {one.index: error.code for one, error in verified.refusals.items()} == {
        1: ErrorCode.INVALID_PRODUCER_EPOCH,
        3: ErrorCode.INVALID_PRODUCER_EPOCH,
    }


def test_without_unverified_partitions_the_coordinator_is_not_asked(plane: DataPlane) -> None:
    verified = verify(context_of(plane), "id", [], BEFORE_ABORTABLE)
    assert verified == VerificationResult(frozenset(), {})


def test_several_producers_are_refused(plane: DataPlane) -> None:
    batches = [
        (plane.partition(index=0), transactional_batch()),
        (plane.partition(index=1), transactional_batch(8)),
    ]
    with pytest.raises(KafkaError) as caught:
        verify(context_of(plane), "id", batches, ADDS_PARTITIONS)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_isolated_leader_does_not_reach_the_coordinator(plane: DataPlane) -> None:
    call = context_of(plane)
    call.node.state = NodeState.ISOLATED
    partition = plane.partition()
    verified = verify(call, "id", [(partition, transactional_batch())], ADDS_PARTITIONS)
    refusal = verified.refusals[partition]
    assert refusal.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert refusal.message == (
        "Unable to verify the partition has been added to the transaction. "
        "Underlying error: NETWORK_EXCEPTION"
    )
    assert not verified.is_concurrent


def test_a_former_leader_verifies_transactions_that_are_not_open_in_its_log(
    plane: DataPlane,
) -> None:
    partition = plane.partition()
    first = transactional_batch()
    partition.append(first, plane.clock.now_ms(), is_verified=True)
    partition.views[0] = FormerLeader(partition, {})
    plane.lead("t", 0, 1)
    call = context_of(plane)
    call.node.state = NodeState.ISOLATED
    other = transactional_batch(8)
    assert verify(call, "id", [(partition, first)], ADDS_PARTITIONS).refusals == {}
    verified = verify(call, "id", [(partition, other)], ADDS_PARTITIONS)
    assert verified.refusals[partition].code is ErrorCode.NOT_ENOUGH_REPLICAS
