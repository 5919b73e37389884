"""What is imported is declared: a library that only another one brings may be gone tomorrow."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from typing import Any, Final

import pytest

from tests.architecture.source import PACKAGE, ROOT, hand_written_modules, storey_of, tree_of

EXTRAS: Final = {
    "capture": "capture",
    "columnar": "columnar",
    "replay": "columnar",
    "spark": "spark",
    "cli": "spark",
    "testing": "test",
}
"""Storeys of which some modules need more than the package does, and the extra that has it all."""

DISTRIBUTIONS: Final = {"re2": "google-re2"}
"""Modules that are called otherwise than what they are installed by."""

IF_THERE: Final = {"fsspec": "stores that pyarrow does not know; without it, that is told"}
"""Modules that no extra for users needs, and what for they are tried."""


@cache
def project() -> Any:  # noqa: ANN401 - whatever it says
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def declared(extra: str = "") -> set[str]:
    """Return what is installed with an extra, or without any, by its own word."""
    found = set(map(name_of, project()["dependencies"]))
    for requirement in project()["optional-dependencies"].get(extra, ()):
        if name_of(requirement) == project()["name"]:
            for other in re.findall(r"[\w-]+", requirement.partition("[")[2].partition("]")[0]):
                found |= declared(other)
        else:
            found.add(name_of(requirement))
    return found


def name_of(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found
    return found[0].lower()


def imported(tree: ast.Module) -> set[str]:
    """Return the libraries that a module imports, wherever in it, by their distributions."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    tops = {name.partition(".")[0] for name in names} - {PACKAGE.name, *sys.stdlib_module_names}
    return {DISTRIBUTIONS.get(top, top) for top in tops}


def test_every_library_that_is_imported_is_declared_where_it_is_needed() -> None:
    undeclared = {
        str(path.relative_to(ROOT)): missing
        for path in hand_written_modules()
        if (
            missing := imported(tree_of(path))
            - declared(EXTRAS.get(storey_of(path), ""))
            - IF_THERE.keys()
        )
    }
    assert undeclared == {}


@pytest.mark.parametrize("storey", EXTRAS)
def test_no_storey_has_an_extra_that_it_does_not_need(storey: str) -> None:
    mine = [path for path in hand_written_modules() if storey_of(path) == storey]
    assert any(imported(tree_of(path)) - declared() for path in mine)
