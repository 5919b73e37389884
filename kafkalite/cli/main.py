"""`kafkalite`: the process of a command, from its arguments to its exit status."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

from kafkalite.cli.streams import discard_output, end_output

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

_INTERRUPTED_STATUS = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command in `arguments`, by default the arguments of the process.

    As with Java's tools, an output whose reader has ended is no error.
    """
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
    except BrokenPipeError:
        discard_output()
    finally:
        end_output()


def _run(given: Sequence[str]) -> None:
    command = _command(given)
    try:
        command()
    except KeyboardInterrupt:
        # Ctrl-C ends a command without a traceback; shells know this status.
        sys.exit(_INTERRUPTED_STATUS)


def _command(given: Sequence[str]) -> Callable[[], None]:
    """Return the function that carries out the command; raises SystemExit for invalid arguments."""
    if given and given[0] == "serve":
        from kafkalite.cli import serve  # noqa: PLC0415 - other commands need no broker
        from kafkalite.cli.usual_arguments import parse_usual  # noqa: PLC0415 - as above
        from kafkalite.config.options import OPTIONS  # noqa: PLC0415 - as above

        usual = parse_usual(given[1:], OPTIONS)
        if usual is not None:
            return lambda: serve.run(cast("Namespace", usual))
    from kafkalite.cli.parsing import parse  # noqa: PLC0415 - argparse is slow to import

    parsed = parse(given)
    return lambda: parsed.run(parsed)
