"""The reference pages agree with the code and are complete."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.recording.recorder import Recorder
from kafkalite.client import Access, Backoff, ClusterMetadata, Metadata
from kafkalite.lab.replay.report import ReplayReport
from tests.architecture.source import ROOT
from tests.reference import pages
from tests.reference.control_api import openapi_text
from tests.reference.man_page import man_page
from tests.reference.page_parts import PARTS
from tests.reference.pages import DIRECTORY, MAN_PAGE, PAGES, SCENARIO_SCHEMA
from tests.reference.python_api import INTERNAL
from tests.reference.scenario_schema import scenario_schema_text

if TYPE_CHECKING:
    from pathlib import Path

NEEDS_SPARK = {"audit-tables"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.spark] if name in NEEDS_SPARK else [])
        for name in PAGES
    ],
)
def test_page_is_up_to_date(name: str) -> None:
    text = (DIRECTORY / f"{name}.md").read_text(encoding="utf-8")
    assert text == PAGES[name](), "run `python -m tests.reference`"


def test_the_schema_of_scenarios_is_up_to_date() -> None:
    text = (DIRECTORY / SCENARIO_SCHEMA).read_text(encoding="utf-8")
    assert text == scenario_schema_text(), "run `python -m tests.reference`"


def test_man_page_is_up_to_date() -> None:
    assert (ROOT / MAN_PAGE).read_text(encoding="utf-8") == man_page(), (
        "run `python -m tests.reference`"
    )


@pytest.mark.parametrize("path", PARTS)
def test_part_of_a_page_is_up_to_date(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert text == PARTS[path](text), "run `python -m tests.reference`"


@pytest.mark.parametrize(
    ("path", "old"),
    [
        ("README.md", "| Client-visible APIs, of 74 in Kafka 4.4 | 7 | 74 |\n"),
        (
            "docs/explanation/defaults.md",
            "<!-- no-effect-table -->\nold\n<!-- /no-effect-table -->\n",
        ),
    ],
)
def test_the_program_updates_the_parts_of_pages(
    path: str, old: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "PAGES", {})
    monkeypatch.setattr(pages, "DIRECTORY", tmp_path / "docs" / "reference")
    monkeypatch.setattr(pages, "PARTS", {path: PARTS[path]})
    page = tmp_path / path
    (tmp_path / "docs/explanation").mkdir(parents=True)
    page.write_text(old, encoding="utf-8")
    pages.write()
    assert page.read_text(encoding="utf-8") == PARTS[path](old) != old


def test_every_page_of_the_reference_is_generated() -> None:
    assert {path.stem for path in DIRECTORY.glob("*.md")} == set(PAGES)


def test_internal_methods_exist_and_are_not_on_the_page() -> None:
    page = PAGES["python-api"]()
    kinds = {
        each.__name__: each
        for each in (Access, Backoff, ClusterMetadata, Metadata, Recorder, ReplayReport)
    }
    assert set(kinds) == set(INTERNAL)
    for name, methods in INTERNAL.items():
        (_, section) = page.split(f".{name}\n", 1)
        for method in methods:
            assert getattr(kinds[name], method) is not None
            assert f"#### {name}.{method}\n" not in page
            assert f"`{method}: " not in section.partition("\n### ")[0]


def test_openapi_document_is_up_to_date() -> None:
    text = (DIRECTORY / "openapi.json").read_text(encoding="utf-8")
    assert text == openapi_text(), "run `python -m tests.reference`"


def test_every_field_of_a_command_and_of_an_answer_is_described() -> None:
    tables = re.findall(r"^\| `\w+` \|.*$", PAGES["control-api"](), re.MULTILINE)
    assert len(tables) > 100
    assert [row for row in tables if row.endswith(("| . |", "|  |"))] == []
