"""RangeMap: values of offset ranges, compared with one value for each offset."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from kafkalite.lab.checker.history import Range
from kafkalite.lab.checker.range_map import RangeMap


def test_a_range_map_is_a_dict_of_offsets() -> None:
    for seed in range(50):
        random = Random(seed)  # noqa: S311 - repeatable
        ranges: RangeMap[int] = RangeMap()
        offsets: dict[int, int] = {}
        for value in range(20):
            first = random.randrange(30)
            whole = Range(first, first + random.randrange(8))
            ranges[whole] = value
            offsets.update(dict.fromkeys(range(whole.first, whole.last + 1), value))
            if not value % 5:
                start = random.randrange(12)
                ranges.remove_below(start)
                offsets = {each: offsets[each] for each in offsets if each >= start}
            asked = Range(random.randrange(20), random.randrange(20, 40))
            found = {
                offset: each
                for part, each in ranges.overlapping(asked)
                for offset in range(part.first, part.last + 1)
            }
            assert found == {
                offset: each
                for offset, each in offsets.items()
                if asked.first <= offset <= asked.last
            }
        spread = [part for part, _ in ranges.items()]
        assert all(earlier.last < later.first for earlier, later in pairwise(spread))


def test_a_range_map_is_empty_at_first() -> None:
    empty: RangeMap[int] = RangeMap()
    assert [*empty.overlapping(Range(0, 10))] == []
