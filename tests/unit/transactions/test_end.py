"""The tables of EndTxn are complete, and markers complete only their own transaction."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kafkalite.transactions.end import (
    END_ACTIONS,
    EPOCH_BUMPING_END_ACTIONS,
    are_markers_of,
    markers_of,
)
from kafkalite.transactions.state import IDLE_STATES, PREPARED_STATES, Transaction, TransactionState
from tests.unit.transactions.transaction_coordinator import A, B, C

PREPARED = Transaction("x", 7, 3, 1_000, TransactionState.PREPARE_COMMIT, frozenset([A, B]))
STATES_WITHOUT_PENDING_MARKERS = {*IDLE_STATES, TransactionState.ONGOING}


def test_tables_of_end_actions_have_every_state_without_pending_markers() -> None:
    never = {TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE}
    assert STATES_WITHOUT_PENDING_MARKERS | PREPARED_STATES | never == set(TransactionState)
    ends = (True, False)
    assert set(END_ACTIONS) == set(itertools.product(STATES_WITHOUT_PENDING_MARKERS, ends))
    assert set(EPOCH_BUMPING_END_ACTIONS) == set(
        itertools.product(STATES_WITHOUT_PENDING_MARKERS, ends, ends)
    )


@pytest.mark.parametrize(
    "other",
    [
        {"state": TransactionState.PREPARE_ABORT},
        {"state": TransactionState.COMPLETE_COMMIT},
        {"producer_id": 8},
        {"producer_epoch": 4},
        # Before transaction version 2 nothing else distinguishes the next transaction from this
        # one.
        {"partitions": frozenset([A])},
        {"partitions": frozenset([A, B, C])},
    ],
)
def test_late_markers_do_not_complete_another_transaction(
    other: dict[str, Any],
) -> None:
    assert are_markers_of(markers_of(PREPARED), PREPARED)
    assert not are_markers_of(markers_of(PREPARED), PREPARED._replace(**other))
