"""Tables and names in the documentation are those of the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.options import OPTIONS
from tests.architecture.source import ROOT
from tests.docs.blocks import DOCS, GENERATED, pages

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_and_links_in_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.name not in {"changes.md", "architecture.md"}:  # earlier names; paths in the package
        paths = re.findall(r"`((?:kafkalite|tests|docker|protocol-specs|examples)/[\w./-]+)`", text)
        missing = [path for path in paths if not (ROOT / path).exists()]
        assert [path for path in missing if "NAME" not in path] == []  # a placeholder
    links = re.findall(r"\]\(([\w./-]+\.(?:md|svg))(?:#[\w-]+)?\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as the site and code hosts generate them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page",
    sorted({*pages(), *GENERATED.glob("*.md")}),
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_anchors_in_links_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(((?:[\w./-]+\.md)?)#([\w-]+)\)", text)
    missing = [
        (path, anchor)
        for path, anchor in links
        if anchor not in anchors_of(page.parent / path if path else page)
    ]
    assert missing == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 250


def test_the_variables_of_the_image_are_those_of_the_options() -> None:
    text = (DOCS / "how-to" / "compose.md").read_text(encoding="utf-8")
    variables = set(re.findall(r"^\| `(KAFKALITE_\w+)`", text, re.MULTILINE))
    assert variables == {option.variable.name for option in OPTIONS if option.variable is not None}


def test_the_options_of_serve_are_those_of_the_command() -> None:
    text = (DOCS / "how-to" / "run.md").read_text(encoding="utf-8")
    documented = {
        option
        for row in re.findall(r"^\| (`--.*?) \|", text, re.MULTILINE)
        for option in re.findall(r"--[\w-]+", row)
    }
    command = [sys.executable, "-m", "kafkalite", "serve", "--help"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    completed = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert documented == set(re.findall(r"^  (--[\w-]+)", completed.stdout, re.MULTILINE))
