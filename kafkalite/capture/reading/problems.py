"""`Problems`: the problems of a capture; equal problems are stored once, with their number."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.capture.model import Problem, ProblemKind

MAX_ROWS: Final = 10_000
"""Maximum number of distinct problems; beyond it, only their number per kind is recorded."""


class Problems:
    """A collection of problems, to be passed to `read` and `exchanges` as `problems`."""

    __slots__ = ("_problems",)

    def __init__(self) -> None:
        self._problems: dict[tuple[object, ...], Problem] = {}

    def __call__(self, problem: Problem) -> None:
        """Add a problem; if an equal one exists, add to its count."""
        key: tuple[object, ...] = (
            problem.kind, problem.file, problem.connection, problem.detail,
        )  # fmt: skip
        if key not in self._problems and len(self._problems) >= MAX_ROWS:
            key = (problem.kind,)
            problem = replace(
                problem, file="", offset=None, connection=None, detail="more of this kind"
            )
        existing = self._problems.get(key)
        if existing is not None:
            problem = replace(existing, count=existing.count + problem.count)
        self._problems[key] = problem

    def __iter__(self) -> Iterator[Problem]:
        """Yield each problem once, in the order in which they were found."""
        return iter(self._problems.values())

    def by_kind(self) -> dict[ProblemKind, int]:
        """Return the number of problems of each kind."""
        counts: dict[ProblemKind, int] = {}
        for problem in self:
            counts[problem.kind] = counts.get(problem.kind, 0) + problem.count
        return counts
