"""Numbers are written with their nouns."""

from __future__ import annotations

from kafkalite.ports.texts import count_text, times_text, truncate


def test_noun_is_plural_unless_the_number_is_one() -> None:
    assert count_text(0, "ghost") == "0 ghosts"
    assert count_text(1, "ghost") == "1 ghost"
    assert count_text(1200, "ghost") == "1,200 ghosts"


def test_a_long_text_is_cut() -> None:
    assert [truncate(text, 3) for text in ("", "abc", "abcd")] == ["", "abc", "ab…"]


def test_one_occurrence_is_once() -> None:
    assert [times_text(times) for times in (1, 2, 1200)] == ["once", "2 times", "1,200 times"]
