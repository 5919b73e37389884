"""The standard streams of a process that may have been started without them.

A descriptor that was closed is given to whatever is opened next. Were that a socket, the event loop
would end the process when the client leaves, for no loop expects sockets there.
"""

from __future__ import annotations

import os
import sys

_STANDARD = range(3)


def open_closed_streams() -> None:
    """Lead those of stdin, stdout and stderr nowhere that are closed."""
    for number in _STANDARD:
        try:
            os.fstat(number)
        except OSError:
            _lead_nowhere(number)
    # Python has no objects for streams that were closed when it started.
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def say(text: str) -> bool:
    """Print to stdout and return whether somebody may read it.

    Where nobody does any more, a broker has no reason to end; who only prints does.
    """
    return written(text) is None


def written(text: str) -> OSError | None:
    """Print to stdout, and return what kept it from being printed."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        _lead_nowhere(sys.stdout.fileno())  # what is not written yet is written at the end
        return error
    return None


def printable(text: str) -> str:
    """Return `text` as a terminal may have it: clients choose names, with anything in them."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def _lead_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
