"""Producer ids: handed out one by one, taken from the controller a block at a time.

Each node draws from its own block, as in a real cluster. What is left of a block when the broker
stops is never handed out: an id must not be seen twice, and there are enough of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class ProducerIds:
    """The blocks in use, one per node."""

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[int, int]] = {}

    def draw(self, node_id: int, allocate: Callable[[], tuple[int, int]]) -> int:
        """Return an id that was never returned before.

        `allocate` is called when the node's block is used up; it returns the first id of a new
        one and how many it holds, and makes that durable first.
        """
        next_id, left = self._blocks.get(node_id, (0, 0))
        if left == 0:
            next_id, left = allocate()
        self._blocks[node_id] = (next_id + 1, left - 1)
        return next_id
