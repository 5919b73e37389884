"""Tables are aligned, and coloured on terminals only."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from kafkalite.cli.tables import Coloured, has_colours, in_colour, table_lines

if TYPE_CHECKING:
    import pytest

ROWS = [("a", 5, Coloured("ok", "green")), ("long\n", None, Coloured(12, "red"))]


class Terminal(io.StringIO):
    """A stream that shows colours."""

    def isatty(self) -> bool:
        return True


def test_columns_are_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert list(table_lines(("NAME", "COUNT", "STATE"), ROWS)) == [
        "NAME    COUNT  STATE",
        "a           5     ok",
        "long\\n      -     12",
    ]
    assert list(table_lines(("A", "B"), [("x", "y")], minimum_widths=(3, 0), gap=" ")) == [
        "A   B",
        "x   y",
    ]
    assert list(table_lines(("A", "B"), [])) == ["A  B"]


def test_terminal_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    header, first, _ = table_lines(("NAME", "COUNT", "STATE"), ROWS)
    assert header == "\x1b[1mNAME    COUNT  STATE\x1b[0m"
    assert first == "a           5  \x1b[32m   ok\x1b[0m"
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colours()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert in_colour("x", "bold") == "x"
