"""Things that say where the next one begins: found in runs, walked one by one only between runs.

Blocks of a file and frames of a stream are both such chains. Where a thing could stand is found
for all positions at once; but only a walk from the beginning can tell what truly begins there
from bytes that merely look like it. So the walk hops from run to run: a run is a row of
candidates each of which ends where the next begins, and if its first is reached, so are all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kafkalite.columnar.arrays import Ints


class Runs:
    """Candidates, in ascending order of their starts, and how far each one's run goes."""

    __slots__ = ("_breaks", "_ends", "starts")

    def __init__(self, starts: Ints, ends: Ints) -> None:
        self.starts = starts
        self._ends = ends
        # The last candidates of runs.
        self._breaks = np.flatnonzero(ends[:-1] != starts[1:])

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._breaks) + (len(self.starts) > 0)

    def find(self, at: int) -> int:
        """Return which candidate begins there; -1 for none."""
        index = int(self.starts.searchsorted(at))
        return index if index < len(self.starts) and self.starts[index] == at else -1

    def run(self, first: int, stop: int) -> tuple[int, int]:
        """Return the candidate after the last of this one's run, and where that last one ends.

        The run is cut so that it ends by `stop`; where even the first ends later, it is empty.
        """
        index = int(self._breaks.searchsorted(first))
        last = int(self._breaks[index]) if index < len(self._breaks) else len(self.starts) - 1
        if self._ends[last] > stop:
            last = int(self._ends[first : last + 1].searchsorted(stop, "right")) + first - 1
        if last < first:
            return first, int(self.starts[first])
        return last + 1, int(self._ends[last])
