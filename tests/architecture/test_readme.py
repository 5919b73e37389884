"""What the README says of the code is generated from the code, or compared with it."""

from __future__ import annotations

import os
import re

from kafkalite.apis.table import TABLE
from kafkalite.protocol.versions import Versions
from tests.architecture.source import ROOT

README = ROOT / "README.md"
REWRITE = bool(os.environ.get("KAFKALITE_REWRITE"))
"""Set to have the generated parts written instead of compared."""


def api_table() -> str:
    rows = [
        f"| {key} | {row.name} | {Versions(row.lowest, row.highest)} |"
        for key, row in sorted(TABLE.items())
    ]
    return "\n".join(("| Key | API | Versions |", "| ---: | --- | --- |", *rows))


def test_the_readme_lists_the_apis_that_are_served() -> None:
    """Run with KAFKALITE_REWRITE=1 to bring the README up to date."""
    text = README.read_text(encoding="utf-8")
    section = re.compile(r"(<!-- api-table -->\n).*?(<!-- /api-table -->)", re.DOTALL)
    current = section.sub(lambda found: f"{found[1]}{api_table()}\n{found[2]}", text)
    if REWRITE:
        README.write_text(current, encoding="utf-8")
    assert current == README.read_text(encoding="utf-8")


def test_what_the_readme_names_is_there() -> None:
    text = README.read_text(encoding="utf-8")
    named = re.findall(r"`((?:kafkalite|tests|docker|protocol-specs)/[\w./-]+)`", text)
    named += re.findall(r"\]\(([\w./-]+)\)", text)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_commands_are_single_shell_lines() -> None:
    text = README.read_text(encoding="utf-8")
    for marker in ("run-command", "test-command"):
        block = re.search(rf"<!-- {marker} -->\n```sh\n(.*?)```", text, re.DOTALL)
        assert block is not None
        assert block[1].count("\n") == 1
