"""Runs of things that follow each other."""

from __future__ import annotations

import numpy as np

from kafkalite.columnar.chains import Runs


def runs() -> Runs:
    return Runs(np.array([0, 4, 10, 30, 33]), np.array([4, 10, 12, 33, 40]))


def test_a_run_goes_as_far_as_each_begins_where_the_one_before_ends() -> None:
    assert runs().run(0, 100) == (3, 12)
    assert runs().run(1, 100) == (3, 12)
    assert runs().run(3, 100) == (5, 40)
    assert len(runs()) == 2


def test_a_run_is_cut_where_it_has_to_stop() -> None:
    assert runs().run(0, 11) == (2, 10)
    assert runs().run(0, 3) == (0, 0)


def test_what_begins_nowhere_is_not_found() -> None:
    assert [runs().find(at) for at in (0, 1, 30, 40)] == [0, -1, 3, -1]
    assert Runs(np.empty(0, np.int64), np.empty(0, np.int64)).find(0) == -1
