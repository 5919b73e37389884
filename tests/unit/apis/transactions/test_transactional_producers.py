"""Shared parts of transactional requests: the error of a fenced producer, the shard of an id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.transactions.transactional_producers import (
    FencingEra,
    fencing_eras,
    lower_fencing_error,
    shard_of,
)
from kafkalite.protocol._generated.messages.end_txn import EndTxnResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.transactions import ID, TransactionCluster

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE])
def test_other_errors_are_the_same_in_every_version(code: ErrorCode) -> None:
    for knows_fenced in (True, False):
        assert FencingEra(knows_fenced=knows_fenced).error_for(code) is code


def test_a_fenced_producer_gets_producer_fenced_if_the_version_knows_it() -> None:
    eras = fencing_eras(knows_fenced_from=2)
    codes = []
    for version in range(4):
        response = EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
        codes.append(lower_fencing_error(response, eras.at(version)).error_code)
    old, new = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED
    assert codes == [old, old, new, new]


def test_the_shard_of_an_id_is_on_its_leader(tmp_path: Path) -> None:
    wire = TransactionCluster(tmp_path, nodes=2)
    (leader,) = wire.find()
    call = wire.contexts[leader].latest_call
    transactions = wire.cluster.transactions
    assert shard_of(call, ID).partition == transactions.partition_for(ID)
    for other, name, code in (
        (wire.contexts[3 - leader].latest_call, ID, ErrorCode.NOT_COORDINATOR),
        (call, "", ErrorCode.INVALID_REQUEST),
    ):
        with pytest.raises(KafkaError) as refusal:
            shard_of(other, name)
        assert refusal.value.code is code
    wire.end()
