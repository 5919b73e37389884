"""Numbers as Java prints them."""

from __future__ import annotations

import pytest

from kafkalite.docker.tools.java_numbers import java_double


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (1024.0, "1024.0"),
        (0.5, "0.5"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (-1.5e9, "-1.5E9"),
        (1e-4, "1.0E-4"),
    ],
)
def test_doubles(number: float, text: str) -> None:
    assert java_double(number) == text
