"""What is wrong with a capture, counted: the same thing said a million times is one row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.capture.model import Problem, ProblemKind

MAX_ROWS: Final = 10_000
"""How many different problems are told one by one; of those beyond, each kind's number."""


class Problems:
    """Takes problems as `read` and `exchanges` report them; call it, or its rows."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], Problem] = {}

    def __call__(self, problem: Problem) -> None:
        """Count a problem, with those like it of the same connection or file."""
        key: tuple[object, ...] = (
            problem.kind, problem.file, problem.connection, problem.detail,
        )  # fmt: skip
        if key not in self._found and len(self._found) >= MAX_ROWS:
            key = (problem.kind,)
            problem = replace(
                problem, file="", offset=None, connection=None, detail="more of this kind"
            )
        known = self._found.get(key)
        if known is not None:
            problem = replace(known, count=known.count + problem.count)
        self._found[key] = problem

    def __iter__(self) -> Iterator[Problem]:
        """Yield each problem once, in the order in which they were found."""
        return iter(self._found.values())

    def by_kind(self) -> dict[ProblemKind, int]:
        """Return how many there are of each kind."""
        counts: dict[ProblemKind, int] = {}
        for problem in self:
            counts[problem.kind] = counts.get(problem.kind, 0) + problem.count
        return counts
