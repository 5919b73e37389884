"""The tables of EndTxn are whole, and markers complete the transaction that they tell of."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kafkalite.transactions.ending import BUMPING_STEPS, STEPS, is_told_by, markers_of
from kafkalite.transactions.state import AT_REST, PREPARED, Transaction, TransactionState
from tests.unit.transactions.transaction_world import A, B, C

SOME = Transaction("x", 7, 3, 1_000, TransactionState.PREPARE_COMMIT, frozenset([A, B]))
MET = {*AT_REST, TransactionState.ONGOING}


def test_every_state_that_can_be_met_is_in_the_tables() -> None:
    never = {TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE}
    assert MET | PREPARED | never == set(TransactionState)
    ends = (True, False)
    assert set(STEPS) == set(itertools.product(MET, ends))
    assert set(BUMPING_STEPS) == set(itertools.product(MET, ends, ends))


@pytest.mark.parametrize(
    "other",
    [
        {"state": TransactionState.PREPARE_ABORT},
        {"state": TransactionState.COMPLETE_COMMIT},
        {"producer_id": 8},
        {"producer_epoch": 4},
        # Before transaction version 2 the next one may be told from this by nothing else.
        {"partitions": frozenset([A])},
        {"partitions": frozenset([A, B, C])},
    ],
)
def test_markers_that_come_late_do_not_complete_another_transaction(
    other: dict[str, Any],
) -> None:
    assert is_told_by(markers_of(SOME), SOME)
    assert not is_told_by(markers_of(SOME), SOME._replace(**other))
