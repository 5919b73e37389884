"""The standard streams, which may be closed when the process starts.

The system gives the number of a closed descriptor to the next file that is opened. If a socket had
the number of a standard stream, the event loop would end the process when the client disconnects.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress

_STANDARD_DESCRIPTORS = range(3)


def open_closed_streams() -> None:
    """Open the null device for each of stdin, stdout and stderr that is closed.

    Characters that the encoding of stdout lacks are printed as escapes from now on. A pipe has the
    encoding of the system, which on Windows lacks most characters.
    """
    for number in _STANDARD_DESCRIPTORS:
        try:
            os.fstat(number)
        except OSError:
            _open_null_device(number)
    # sys.stdout and sys.stderr are None if the stream was closed when Python started.
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def try_print(text: str) -> bool:
    """Print to stdout, and return whether that succeeded.

    A broker uses this function, because it must continue when its output has no reader.
    """
    return write_stdout(text) is None


def write_stdout(text: str) -> OSError | None:
    """Print to stdout, and return the error if that failed."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        discard_output()
        return error
    return None


def write_stdout_bytes(data: bytes) -> bool:
    """Print bytes to stdout; return False if the output has no reader.

    On a terminal, control characters within lines are escaped. Raises OSError for other errors.
    """
    if sys.stdout.isatty():
        lines = data.decode(errors="backslashreplace").split("\n")
        data = "\n".join(map(printable, lines)).encode()
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        discard_output()
        return False
    return True


def end_output() -> None:
    """Flush stdout before the process ends; what has no reader any more is discarded.

    Python would print an error and exit with status 120.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except (OSError, ValueError):
        pass  # Python reports it at the end; ValueError: the stream is closed


def discard_output() -> None:
    """Let stdout, whose reader has ended, be the null device."""
    # A stream of a test has no descriptor.
    with suppress(OSError, ValueError):
        _open_null_device(sys.stdout.fileno())


def printable(text: str) -> str:
    """Return `text` with control characters escaped, because names from clients can have them."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _open_null_device(number: int) -> None:
    device = os.open(os.devnull, os.O_RDWR)
    if device != number:
        os.dup2(device, number)
        os.close(device)
