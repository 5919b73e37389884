"""The CI workflow for the three operating systems names what exists."""

from __future__ import annotations

import re

import yaml

from tests.docs.schemas import validate
from tests.packaging.interpreters import VERSIONS
from tests.portability.test_core import CORE, ROOT

TEXT = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
JOBS = yaml.safe_load(TEXT)["jobs"]


def test_the_workflow_matches_its_schema() -> None:
    # In YAML 1.1, the key `on` is the boolean true.
    workflow = {"on" if key is True else key: value for key, value in yaml.safe_load(TEXT).items()}
    validate(workflow, "github-workflows.json")


def test_it_runs_each_version_of_python() -> None:
    assert tuple(JOBS["posix"]["strategy"]["matrix"]["python"]) == VERSIONS
    assert set(JOBS["windows"]["strategy"]["matrix"]["python"]) <= set(VERSIONS)


def test_windows_runs_packages_of_the_core() -> None:
    packages = re.findall(r"tests/unit/(\w+)", TEXT)
    assert packages
    assert set(packages) <= set(CORE)
    assert all((ROOT / "tests" / "unit" / package).is_dir() for package in packages)
