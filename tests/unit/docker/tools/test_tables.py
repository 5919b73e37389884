"""Tables in the layouts of Kafka's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.docker.tools.tables import write_tabbed_table, write_table

if TYPE_CHECKING:
    import pytest


def test_columns_have_least_widths(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(("A", "B", "C"), [("long", None, 3)], (2, 3))
    assert capsys.readouterr().out == "A    B   C\nlong -   3\n"


def test_columns_end_with_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    write_tabbed_table(("Name", "N"), [("a", None)])
    assert capsys.readouterr().out == "Name\tN   \t\na   \tNone\t\n"
