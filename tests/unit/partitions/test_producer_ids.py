"""Producer ids never repeat, whatever node hands them out."""

from __future__ import annotations

import itertools

from kafkalite.partitions.producer_ids import ProducerIds


def test_blocks_are_drawn_when_they_are_used_up() -> None:
    starts = itertools.count(0, 2)
    calls = []

    def allocate() -> tuple[int, int]:
        calls.append(1)
        return next(starts), 2

    ids = ProducerIds()
    drawn = [ids.draw(node, allocate) for node in (0, 1, 0, 1, 0, 0, 0)]
    assert drawn == [0, 2, 1, 3, 4, 5, 6]
    assert len(set(drawn)) == len(drawn)
    assert len(calls) == 4
