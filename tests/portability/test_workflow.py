"""The workflows for tests and for releases match their schema and name what exists."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.docs.schemas import validate
from tests.packaging.interpreters import VERSIONS
from tests.portability.test_core import CORE, ROOT

if TYPE_CHECKING:
    from pathlib import Path

WORKFLOWS = ROOT / ".github" / "workflows"
TEXT = (WORKFLOWS / "tests.yml").read_text(encoding="utf-8")
RELEASE = (WORKFLOWS / "release.yml").read_text(encoding="utf-8")
VARIABLE = "KAFKALITE_REPOSITORY_URL"
JOBS = yaml.safe_load(TEXT)["jobs"]


@pytest.mark.parametrize("path", sorted(WORKFLOWS.iterdir()), ids=lambda path: path.stem)
def test_each_workflow_matches_its_schema(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    # In YAML 1.1, the key `on` is the boolean true.
    workflow = {"on" if key is True else key: value for key, value in workflow.items()}
    validate(workflow, "github-workflows.json")


def test_a_release_is_published_for_a_tag_only() -> None:
    jobs = yaml.safe_load(RELEASE)["jobs"]
    steps = [step for job in jobs.values() for step in job.get("steps", ())]
    publishing = [step for step in steps if step.get("name") == "Publish"]
    assert len(publishing) == 2
    for step in (*publishing, jobs["publish-site"]):
        assert step["if"].startswith("startsWith(github.ref, 'refs/tags/') && ")
    assert VARIABLE in yaml.safe_load(RELEASE)["env"]
    assert VARIABLE in (ROOT / "hatch_build.py").read_text(encoding="utf-8")
    for path in re.findall(r"-f (\S+)", RELEASE):
        assert (ROOT / path).is_file()


def test_it_runs_each_version_of_python() -> None:
    assert tuple(JOBS["posix"]["strategy"]["matrix"]["python"]) == VERSIONS
    assert set(JOBS["windows"]["strategy"]["matrix"]["python"]) <= set(VERSIONS)


def test_windows_runs_packages_of_the_core() -> None:
    packages = re.findall(r"tests/unit/(\w+)", TEXT)
    assert packages
    assert set(packages) <= set(CORE)
    assert all((ROOT / "tests" / "unit" / package).is_dir() for package in packages)
