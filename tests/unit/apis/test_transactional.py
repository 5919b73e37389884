"""What requests of transactional producers have in common: the word for a zombie, the shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.transactional import FencingEra, fencing_eras, lower_fenced, shard_of
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.end_txn import EndTxnResponse
from tests.unit.apis.transaction_wire import ID, TransactionWire

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE])
def test_other_errors_are_the_same_in_every_version(code: ErrorCode) -> None:
    for knows_fenced in (True, False):
        assert FencingEra(knows_fenced=knows_fenced).told(code) is code


def test_a_fenced_producer_is_told_so_once_there_is_a_word_for_it() -> None:
    eras = fencing_eras(knows_fenced_from=2)
    told = []
    for version in range(4):
        response = EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
        told.append(lower_fenced(response, eras.at(version)).error_code)
    old, new = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED
    assert told == [old, old, new, new]


def test_the_shard_of_an_id_is_found_where_it_is_led(tmp_path: Path) -> None:
    wire = TransactionWire(tmp_path, nodes=2)
    (leader,) = wire.find()
    context = wire.contexts[leader]
    transactions = wire.cluster.transactions
    assert shard_of(context, ID).partition == transactions.partition_for(ID)
    for other, name, code in (
        (wire.contexts[3 - leader], ID, ErrorCode.NOT_COORDINATOR),
        (context, "", ErrorCode.INVALID_REQUEST),
    ):
        with pytest.raises(KafkaError) as refusal:
            shard_of(other, name)
        assert refusal.value.code is code
    wire.end()
