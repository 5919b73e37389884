"""Names that topics may have, and pairs of names that may not live together."""

from __future__ import annotations

import pytest

from kafkalite.metadata.topic_names import colliding_topic, name_complaint


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "x" * 249, "..."])
def test_good_names(name: str) -> None:
    assert name_complaint(name) is None


@pytest.mark.parametrize(
    ("name", "complaint"),
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
def test_bad_names(name: str, complaint: str) -> None:
    assert name_complaint(name) == f"Topic name is invalid: {complaint}"


def test_dots_and_underscores_look_alike_in_metrics() -> None:
    assert colliding_topic("a.b", ["a_b", "x"]) == "a_b"
    assert colliding_topic("a.b", ["a.b"]) is None
    assert colliding_topic("ab", ["a.b"]) is None
