"""Notes keep what they are given, in its order."""

from __future__ import annotations

import numpy as np
import pytest

from kafkalite.capture.model import Direction
from kafkalite.columnar.notes import BrokenError, Notes, unaligned
from kafkalite.columnar.plan import message_plan

PLAN = message_plan(3, 1, Direction.REQUEST)
DATA = np.zeros(8, dtype=np.uint8)


def test_instances_are_numbered_and_know_whose_they_are() -> None:
    notes = Notes(PLAN, DATA, 3)

    assert notes.enter(1, np.array([0, 2]), 0) == 0
    assert notes.enter(1, np.array([2]), np.array([1])) == 2

    assert notes.parents(1).tolist() == [0, 2, 2]
    assert notes.ranks(1).tolist() == [0, 0, 1]


def test_a_broken_message_needs_somewhere_to_go() -> None:
    with pytest.raises(BrokenError):
        Notes(PLAN, DATA, 3).refuse(np.array([1]), "why")

    notes = Notes(PLAN, DATA, 3, zeros=5)
    assert notes.refuse(np.array([1]), "why") == 5
    assert notes.reasons == {1: "why"}
    assert notes.unbroken(np.array([0, 1]), np.array([1, 2])).tolist() == [1]


def test_numbers_are_read_from_any_byte() -> None:
    assert unaligned(np.frombuffer(b"\x00\x01\x02", np.uint8), ">i2").tolist() == [1, 258]
    assert unaligned(np.frombuffer(b"\x00", np.uint8), ">i2").tolist() == []
