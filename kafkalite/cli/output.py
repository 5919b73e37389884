"""Output of commands: exit statuses, errors on one line, JSON."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from typing import Final, NoReturn

from kafkalite.cli.streams import printable, write_stdout

FAILED_STATUS: Final = 1
"""Exit status of a command that failed, or that found a difference selected by `--fail-on`."""
USAGE_STATUS: Final = 2
"""Exit status for invalid arguments."""


def exit_with_error(status: int, text: str) -> NoReturn:
    """Print an error as one line on stderr, and exit."""
    print_to_stderr(text)
    sys.exit(status)


def os_error_text(error: OSError) -> str:
    """Return the file of an error, if it names one, and the reason."""
    if error.filename is None or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror.lower()}"


def exit_immediately(status: int) -> NoReturn:
    """End the process without freeing its memory, because that takes seconds with many objects.

    Functions registered with atexit are called, and the standard streams are flushed.
    """
    atexit._run_exitfuncs()  # noqa: SLF001 - os._exit skips them
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, or without a reader
            stream.flush()
    os._exit(status)


def print_output(text: str) -> bool:
    """Print to stdout; return False if the output has no reader.

    Raises SystemExit for other errors, such as a full disk.
    """
    error = write_stdout(text)
    if error is not None and not isinstance(error, BrokenPipeError):
        exit_with_error(FAILED_STATUS, f"cannot write the output: {(error.strerror or '').lower()}")
    return error is None


def print_to_stderr(text: str) -> None:
    """Print a line on stderr, with control characters escaped."""
    sys.stderr.write(f"kafkalite: {printable(text)}\n")
    sys.stderr.flush()


def as_json(shape: object) -> str:
    """Return JSON text that ends with a newline."""
    import json  # noqa: PLC0415 - a start prints no JSON

    return f"{json.dumps(shape, indent=2)}\n"


def as_lines(text: str) -> str:
    """Return the lines of a text, with control characters escaped."""
    return "".join(f"{printable(line)}\n" for line in text.splitlines())
