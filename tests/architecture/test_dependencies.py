"""Every imported library is declared as a dependency or in the extra that needs it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.architecture.source import PACKAGE, ROOT, hand_written_modules, layer_of, nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

EXTRAS: Final = {
    "capture": "capture",
    "control": "schemas",
    "lab.columnar": "columnar",
    "lab.replay": "columnar",
    "lab.spark": "spark",
    "lab.sweep": "sweep",
    "cli": "spark",
    "identity": "security",
    "security": "security",
    "telemetry": "telemetry",
    "testing": "test",
}
"""Package → the extra that its modules need beyond the dependencies."""

DISTRIBUTIONS: Final = {
    "_pytest": "pytest",
    "backports": "backports.zstd",
    "google": "protobuf",
    "kafka": "kafka-python",
    "opentelemetry": "opentelemetry-proto",
    "prometheus_client": "prometheus-client",
    "re2": "google-re2",
    "yaml": "pyyaml",
}
"""Module → the name of its distribution, if the two differ."""

OPTIONAL: Final = {
    "compression": "a package of Python 3.14; earlier ones need the backport",
    "pytest": "plugins, which pytest itself loads",
}
"""Libraries in no extra for users → what they are imported for if installed."""


@cache
def pyproject() -> Any:  # noqa: ANN401 - parsed TOML
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def project() -> Any:  # noqa: ANN401 - as above
    return pyproject()["project"]


def declared(extra: str = "") -> set[str]:
    """Return the distributions that an extra declares, together with the dependencies."""
    distributions = set(map(distribution_name, project()["dependencies"]))
    for requirement in project()["optional-dependencies"].get(extra, ()):
        if distribution_name(requirement) == project()["name"]:
            for name in re.findall(r"[\w-]+", requirement.partition("[")[2].partition("]")[0]):
                distributions |= declared(name)
        else:
            distributions.add(distribution_name(requirement))
    return distributions


def distribution_name(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match
    return match[0].lower()


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the distributions that a module imports, at its top or in functions."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    tops = {name.partition(".")[0] for name in names} - {PACKAGE.name, *sys.stdlib_module_names}
    return {DISTRIBUTIONS.get(top, top) for top in tops}


def test_every_imported_library_is_declared() -> None:
    undeclared = {
        str(path.relative_to(ROOT)): missing
        for path in hand_written_modules()
        if (
            missing := imported(nodes_of(path))
            - declared(EXTRAS.get(layer_of(path), ""))
            - OPTIONAL.keys()
        )
    }
    assert undeclared == {}


@pytest.mark.parametrize("layer", EXTRAS)
def test_every_extra_is_needed_by_its_package(layer: str) -> None:
    modules = [path for path in hand_written_modules() if layer_of(path) == layer]
    assert any(imported(nodes_of(path)) - declared() for path in modules)


def test_the_wheel_has_the_marker_of_typed_packages() -> None:
    """Type checkers read the annotations of installed packages with this file only (PEP 561)."""
    wheel = pyproject()["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert (PACKAGE / "py.typed").exists()
    assert wheel["packages"] == [PACKAGE.name]
    assert "exclude" not in wheel
