"""The documents for developers name files that exist."""

from __future__ import annotations

import re

import pytest

from tests.architecture.source import ROOT

_DIRECTORIES = "kafkalite|tests|docs|docker|examples|protocol-specs"


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_named_files_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = re.findall(rf"`((?:{_DIRECTORIES})/[\w./*-]*)`", text)
    paths += re.findall(r"\]\(((?!https?:)[\w./-]+)\)", text)
    literal_paths = [path.rstrip("/") for path in paths if "NAME" not in path]
    assert [path for path in literal_paths if not list(ROOT.glob(path))] == []


def test_version_in_the_changelog_is_that_of_the_package() -> None:
    source = (ROOT / "kafkalite" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'__version__ = "(.+)"', source)
    assert version
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(\d.*?)\]", text, re.MULTILINE)[0] == version[1]
