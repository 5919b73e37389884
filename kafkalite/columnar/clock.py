"""A clock that was set back while packets were captured: told, as the scalar reader tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kafkalite.capture.model import ProblemKind
from kafkalite.capture.packets import JUMP_NS
from kafkalite.columnar.arrays import where

if TYPE_CHECKING:
    from kafkalite.columnar.blocks import Tell
    from kafkalite.columnar.captured import Packets


class ClockWatch:
    """Compares the times of one file's packets, each with that of the packet before it."""

    def __init__(self, tell: Tell, last_ns: int = 0) -> None:
        self._tell = tell
        self._last_ns = last_ns

    def watch(self, packets: Packets, offset: int) -> None:
        """Tell where a chunk's times go back; jumps as far as each other are counted together."""
        if not len(packets):
            return
        back = -np.diff(packets.at_ns, prepend=self._last_ns)
        self._last_ns = int(packets.at_ns[-1])
        jumps = where(back > JUMP_NS)
        if not len(jumps):
            return
        sizes, firsts, counts = np.unique(
            back[jumps] // JUMP_NS, return_index=True, return_counts=True
        )
        for nth in np.argsort(firsts).tolist():
            place = offset + int(packets.at[jumps[firsts[nth]]])
            detail = f"time goes back by {sizes[nth]} s"
            self._tell(ProblemKind.CLOCK_JUMP, place, detail, int(counts[nth]))
