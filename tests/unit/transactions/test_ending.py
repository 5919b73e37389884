"""The tables of EndTxn are whole: each state, end and kind of request has its cell."""

from __future__ import annotations

import itertools

from kafkalite.transactions.ending import BUMPING_STEPS, STEPS
from kafkalite.transactions.state import AT_REST, PREPARED, TransactionState

MET = {*AT_REST, TransactionState.ONGOING}


def test_every_state_that_can_be_met_is_in_the_tables() -> None:
    never = {TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE}
    assert MET | PREPARED | never == set(TransactionState)
    ends = (True, False)
    assert set(STEPS) == set(itertools.product(MET, ends))
    assert set(BUMPING_STEPS) == set(itertools.product(MET, ends, ends))
