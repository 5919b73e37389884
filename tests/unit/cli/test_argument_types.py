"""Types of arguments: their values and errors."""

from argparse import ArgumentTypeError

import pytest

from kafkalite.cli.argument_types import number, whole_number


def test_numbers_are_parsed() -> None:
    assert whole_number("12") == 12
    assert number("0.5") == 0.5


def test_errors_have_the_text() -> None:
    with pytest.raises(ArgumentTypeError, match=r"^'1\.5' is not a whole number$"):
        whole_number("1.5")
    with pytest.raises(ArgumentTypeError, match=r"^'50%' is not a number$"):
        number("50%")
