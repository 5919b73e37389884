"""Types of arguments: whole numbers, numbers and forms of records, with errors for people."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Final

RECORD_FORMATS: Final = ("text", "json", "base64", "hex")
"""Forms of a line with a record; `record_lines` reads and writes them."""


def whole_number(text: str) -> int:
    """Return the number in a text; raises ArgumentTypeError."""
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a whole number") from None


def number(text: str) -> float:
    """Return the number in a text; raises ArgumentTypeError."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number") from None
