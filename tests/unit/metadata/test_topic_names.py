"""Valid topic names, and pairs of names that collide."""

from __future__ import annotations

import pytest

from kafkalite.metadata.topic_names import colliding_topic, invalid_name_reason


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "x" * 249, "..."])
def test_valid_topic_names_are_accepted(name: str) -> None:
    assert invalid_name_reason(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        (
            "a b",
            (
                "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
                "and '-'"
            ),
        ),
    ],
)
def test_invalid_topic_names_are_refused_with_a_reason(name: str, reason: str) -> None:
    assert invalid_name_reason(name) == f"Topic name is invalid: {reason}"


def test_dots_and_underscores_collide() -> None:
    assert colliding_topic("a.b", ["a_b", "x"]) == "a_b"
    assert colliding_topic("a.b", ["a.b"]) is None
    assert colliding_topic("ab", ["a.b"]) is None
