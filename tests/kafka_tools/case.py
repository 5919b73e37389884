"""`Case`: one command line of a tool, and what is compared of its output."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_READING: Final = re.compile(r"\b(list|describe)|--verify|get-offsets|get-api|cluster-id")


class Case(NamedTuple):
    """A command line of a tool; the address of the broker is added.

    Placeholders: `{bootstrap}`, `{controller}`, `{sasl}` and `{data}` of the broker, and `{files}`,
    a directory with files that the tools read.
    """

    tool: str
    """A script, or a Java class that prepares the broker."""
    command: str = ""
    text: str = ""
    """The standard input."""
    until: str = ""
    """The command is repeated until its output has this expression, which names a state.

    A tool in the background is not repeated, but its output is awaited, also before it is stopped.
    """
    figures: bool = False
    """Numbers are measured figures."""
    unordered: bool = False
    """The lines may have any order."""
    repeats: bool = False
    """The tool repeats lines, more or less often."""
    without: str = ""
    """An expression: these lines of the output are not compared."""
    background: str = ""
    """A name: the tool runs until the case that stops this name."""
    stops: str = ""
    """The name of a tool that ends as by SIGTERM; its output is compared."""
    is_shown: bool = True
    """Whether the table has the case; a case that only prepares others is not shown."""

    @property
    def title(self) -> str:
        """The command line without the address, as the table has it."""
        return f"{self.tool} {self.command}".strip()

    @property
    def reads(self) -> bool:
        """Whether the command changes nothing, so that it may be repeated."""
        return not self.stops and _READING.search(self.title) is not None
