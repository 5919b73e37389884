"""Producer ids never repeat, on any node."""

from __future__ import annotations

import itertools

from kafkalite.partitions.table import ProducerIdBlocks


def test_blocks_are_allocated_when_used_up() -> None:
    starts = itertools.count(0, 2)
    calls = []

    def allocate() -> tuple[int, int]:
        calls.append(1)
        return next(starts), 2

    ids = ProducerIdBlocks()
    drawn = [ids.next_id(node, allocate) for node in (0, 1, 0, 1, 0, 0, 0)]
    assert drawn == [0, 2, 1, 3, 4, 5, 6]
    assert len(set(drawn)) == len(drawn)
    assert len(calls) == 4
