"""The disks that crashes at the steps of a run leave, collected in one run."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, TypeVar

from kafkalite.testing.files import FaultyFiles, MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

State = TypeVar("State")


def crashes(
    run: Callable[[FaultyFiles, State], None], state: State, *, parts: Sequence[float] = (0.5,)
) -> list[tuple[MemoryFiles, State]]:
    """Return the disk and a copy of `state` as a crash at each step of `run` leaves them.

    `run` begins with an empty disk and changes `state`. A step that writes bytes has a disk for
    each of `parts`, the fraction that the crash lets through; every other step has one. The disks
    equal those of `FaultyFiles` with `fail_at`, which needs a run for each step.
    """
    found: list[tuple[MemoryFiles, State]] = []
    run(_ObservedFiles(lambda disk: found.append((disk, deepcopy(state))), parts), state)
    return found


def different_disks(
    points: Sequence[tuple[MemoryFiles, State]], known_at: Callable[[State], object]
) -> Iterator[tuple[MemoryFiles, State]]:
    """Yield the points whose disk, or what `known_at` returns of the state, is a new one."""
    seen = set[tuple[object, object]]()
    for disk, state in points:
        point = (disk.state(), known_at(state))
        if point not in seen:
            seen.add(point)
            yield disk, state


class _ObservedFiles(FaultyFiles):
    """Reports, before each step, the disks that a crash in it leaves."""

    def __init__(self, report: Callable[[MemoryFiles], None], parts: Sequence[float]) -> None:
        super().__init__(MemoryFiles())
        self._report = report
        self._parts = parts

    def step(self, write_part: Callable[[float], None] | None = None) -> None:
        super().step()
        if write_part is None:
            self._report(self.disk.copy())
            return
        before = self.disk.copy()
        for part in self._parts:
            write_part(part)
            self._report(self.disk.copy())
            self.disk.become(before)
