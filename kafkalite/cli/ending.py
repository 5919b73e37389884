"""How commands end, and how they print: exit statuses, complaints of one line, JSON."""

from __future__ import annotations

import json
import sys
from typing import Final, NoReturn

from kafkalite.cli.streams import printable, written

FAILED_STATUS: Final = 1
"""What was asked was done, and the answer is no; or it could not be done."""
USAGE_STATUS: Final = 2
"""What was asked makes no sense."""


def end(status: int, text: str) -> NoReturn:
    """Say why in a line on stderr, and exit."""
    complain(text)
    sys.exit(status)


def put(text: str) -> bool:
    """Print what was asked for, and return whether somebody reads it; SystemExit on a full disk."""
    error = written(text)
    if error is not None and not isinstance(error, BrokenPipeError):
        end(FAILED_STATUS, f"the answer cannot be written: {(error.strerror or '').lower()}")
    return error is None


def complain(text: str) -> None:
    """Say a line on stderr; nothing in it is obeyed by a terminal."""
    sys.stderr.write(f"kafkalite: {printable(text)}\n")
    sys.stderr.flush()


def as_json(shape: object) -> str:
    """Return what machines read."""
    return f"{json.dumps(shape, indent=2)}\n"


def as_lines(text: str) -> str:
    """Return text of several lines that hold nothing a terminal would obey."""
    return "".join(f"{printable(line)}\n" for line in text.splitlines())
