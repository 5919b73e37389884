"""Which files can have tests that `-m` selects, found out without importing them."""

from __future__ import annotations

import re
from functools import cache
from itertools import combinations
from typing import Final

from _pytest.mark.expression import Expression

LEVELS: Final = frozenset({"container", "endurance", "spark"})
"""The markers that decide in which run a test is. The file of a test has to name its markers."""

IMPLIED: Final = {"oracle": "endurance"}
"""Markers that imply another one."""

_OF_ALL_TESTS: Final = re.compile(r"^pytestmark = (\[[^\]]*\]|.*)$", re.MULTILINE)
_MARKER: Final = re.compile(r"\bpytest\.mark\.(\w+)")
_WORD: Final = re.compile(r"\w+")


def can_have_selected_tests(source: str, expression: str, *, is_of_pipeline: bool) -> bool:
    """Return whether a file with this source can have a test that `-m expression` selects.

    All tests in a directory of the pipeline have its marker.
    """
    if not expression:
        return True
    of_all = {name for text in _OF_ALL_TESTS.findall(source) for name in _MARKER.findall(text)}
    certain = _levels_of(of_all) | ({"spark"} if is_of_pipeline else set())
    return _can_select(expression, frozenset(certain), frozenset(named_levels(source) - certain))


def named_levels(source: str) -> set[str]:
    """Return the levels that a source names, or of which it names a marker that implies them."""
    return _levels_of({name for name in (*LEVELS, *IMPLIED) if name in source})


def _levels_of(names: set[str]) -> set[str]:
    return (names | {IMPLIED[name] for name in names & IMPLIED.keys()}) & LEVELS


@cache
def _can_select(expression: str, certain: frozenset[str], possible: frozenset[str]) -> bool:
    """Return whether an expression can select a test with these levels and any other markers."""
    compiled = Expression.compile(expression)
    others = {*_WORD.findall(expression)} - {"and", "or", "not"} - LEVELS
    optional = sorted(others | possible)
    return any(
        compiled.evaluate(lambda name, /, names=frozenset(chosen), **_: name in certain | names)
        for count in range(len(optional) + 1)
        for chosen in combinations(optional, count)
    )
