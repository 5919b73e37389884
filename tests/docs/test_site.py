"""The documentation site builds without warnings, and needs no other host."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import ROOT
from tests.clients.console_picture import DOCUMENTED
from tests.docs.blocks import pages
from tests.docs.pictures import DIRECTORY, PICTURES, render

if TYPE_CHECKING:
    from pathlib import Path

LOADING_ATTRIBUTES = {"img": "src", "script": "src", "iframe": "src", "source": "src"}

SCREENSHOTS = {"audit-report.png", *(f"console-{name}.webp" for name in DOCUMENTED)}
"""Written by `tests.spark.report_picture` and `tests.clients.console_picture`."""


class LoadedUrls(HTMLParser):
    """Collects the URLs that a browser loads with a page; links are not loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        name = LOADING_ATTRIBUTES.get(tag)
        if tag == "link" and values.get("rel") not in {"canonical", "prev", "next"}:
            name = "href"
        if name is not None and values.get(name):
            self.urls.append(values[name] or "")


@pytest.mark.endurance  # CI installs the extra `docs` only for these tests
def test_the_site_builds_strictly_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("needs the extra: pip install '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    completed = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        parser = LoadedUrls()
        parser.feed(page.read_text(encoding="utf-8"))
        assert [url for url in parser.urls if re.match(r"(https?:)?//", url)] == [], page


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_generated(name: str) -> None:
    """Run `python -m tests.docs.pictures` after a change of the pictures."""
    content = (DIRECTORY / f"{name}.svg").read_text(encoding="utf-8")
    assert content == render(PICTURES[name])


def test_every_picture_is_generated_and_on_a_page() -> None:
    files = {path.name for path in DIRECTORY.iterdir()}
    assert files == {*(f"{name}.svg" for name in PICTURES), *SCREENSHOTS}
    text = "".join(page.read_text(encoding="utf-8") for page in pages())
    assert [name for name in files if f"images/{name})" not in text] == []


def test_the_picture_of_a_request_names_packages_that_exist() -> None:
    for box in PICTURES["request-path"].boxes:
        for package in box.code.split(", "):
            assert (ROOT / "kafkalite" / package).is_dir(), package
