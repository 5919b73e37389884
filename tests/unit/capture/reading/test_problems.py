"""Unit tests of the collection of problems."""

from __future__ import annotations

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.capture.reading.problems import MAX_ROWS, Problems


def problem(detail: str, offset: int = 0, count: int = 1) -> Problem:
    return Problem(
        kind=ProblemKind.GAP,
        file="a",
        offset=offset,
        connection=None,
        detail=detail,
        count=count,
    )


def test_equal_problems_are_counted_at_the_first_position() -> None:
    problems = Problems()
    for each in (problem("x", 5), problem("y", 6), problem("x", 9, count=2)):
        problems(each)
    assert [(each.detail, each.offset, each.count) for each in problems] == [
        ("x", 5, 3),
        ("y", 6, 1),
    ]
    assert problems.by_kind() == {ProblemKind.GAP: 4}


def test_beyond_the_limit_only_kinds_are_counted() -> None:
    problems = Problems()
    for number in range(MAX_ROWS + 7):
        problems(problem(str(number)))
    rows = list(problems)
    assert len(rows) == MAX_ROWS + 1
    assert rows[-1].detail == "more of this kind"
    assert rows[-1].count == 7
