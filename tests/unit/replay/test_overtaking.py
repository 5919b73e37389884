"""Which requests might be taken by a target before what they were recorded after."""

from __future__ import annotations

import pytest

from kafkalite.replay.lanes import Pending
from kafkalite.replay.overtaking import Overtaking

PRODUCE, COMMIT, JOIN, BEAT, LEAVE = 0, 8, 11, 12, 13
ONE, TWO = 1, 2
NODE, OTHER = 5, 6


def joined(overtaking: Overtaking, connection: int = ONE) -> Pending:
    pending = Pending(7)
    overtaking.sent(JOIN, NODE, connection, pending)
    return pending


@pytest.mark.parametrize("api_key", [COMMIT, JOIN, BEAT, LEAVE])
def test_what_asks_of_a_group_may_overtake_who_joins_one(api_key: int) -> None:
    overtaking = Overtaking()
    joined(overtaking)
    assert overtaking.is_possible(api_key, NODE, TWO)


def test_neither_its_own_connection_nor_other_nodes_nor_other_apis_overtake_it() -> None:
    overtaking = Overtaking()
    joined(overtaking)
    assert not overtaking.is_possible(BEAT, OTHER, TWO)
    assert not overtaking.is_possible(PRODUCE, NODE, TWO)
    assert overtaking.is_possible(BEAT, NODE, TWO)
    assert not overtaking.is_possible(BEAT, NODE, ONE)


def test_its_own_connection_does_not_make_others_forget_it() -> None:
    overtaking = Overtaking()
    joined(overtaking)
    assert not overtaking.is_possible(LEAVE, NODE, ONE)
    assert overtaking.is_possible(BEAT, NODE, TWO)


def test_what_was_answered_or_seen_is_not_overtaken() -> None:
    overtaking = Overtaking()
    joined(overtaking).resolve(b"")
    assert not overtaking.is_possible(BEAT, NODE, TWO)
    joined(overtaking)
    overtaking.seen(NODE)
    assert not overtaking.is_possible(BEAT, NODE, TWO)
    joined(overtaking)
    assert overtaking.is_possible(BEAT, NODE, TWO)


def test_what_changes_nothing_is_not_kept() -> None:
    overtaking = Overtaking()
    overtaking.sent(BEAT, NODE, ONE, Pending(7))
    assert not overtaking.is_possible(JOIN, NODE, TWO)
