"""The modules for Java, and the example that uses them, built and tested by Maven."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import ROOT
from tests.docs.blocks import Kind, blocks_of
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import program, required

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_PROJECTS = ("integrations/java", "examples/java")
_SPRING = "integrations/java/kafkalite-spring-boot"
_TIMEOUT_S = 600
_OPTIONS = ("-q", "-B", "-P", "examples")
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def _copy_of_the_projects(directory: Path) -> Path:
    """Copy the sources, with the tests of the pages; return the directory of the modules."""
    ignored = shutil.ignore_patterns("target")
    for project in _PROJECTS:
        shutil.copytree(ROOT / project, directory / project, ignore=ignored)
    for block in blocks_of(Kind.JAVA_TEST):
        found = re.search(r"^class (\w+)", block.text, re.MULTILINE)
        assert found is not None, block.name
        project = _SPRING if "springframework" in block.text else _PROJECTS[1]
        source = directory / project / "src" / "test" / "java" / "shop" / f"{found[1]}.java"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(block.text, encoding="utf-8")
    document = "docs/reference/openapi.json"
    (directory / document).parent.mkdir(parents=True)
    shutil.copy(ROOT / document, directory / document)
    return directory / _PROJECTS[0]


def _repository(maven: str) -> Path:
    """Fetch all that Maven needs, by a build in which no test has the given tag."""
    poms = [
        pom
        for project in _PROJECTS
        for pom in (ROOT / project).rglob("pom.xml")
        if "target" not in pom.parts
    ]

    def fetch(directory: Path) -> None:
        modules = _copy_of_the_projects(directory / "projects")
        local = f"-Dmaven.repo.local={directory / 'repository'}"
        run_build([maven, *_OPTIONS, local, "verify", "-Dgroups=none"], modules, _TIMEOUT_S)
        shutil.rmtree(directory / "projects")

    return build_once("java-modules", poms, fetch) / "repository"


@pytest.mark.timeout(2 * _TIMEOUT_S)
def test_tests_of_the_java_modules_and_of_their_example_pass(tmp_path: Path) -> None:
    with required():
        program("java")
        maven = program("mvn")
        repository = _repository(maven)
    modules = _copy_of_the_projects(tmp_path)
    command = f"-Dkafkalite.command={sys.executable} -P -m kafkalite"
    done = subprocess.run(
        [maven, *_OPTIONS, "-o", f"-Dmaven.repo.local={repository}", "verify", command],
        cwd=modules,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MAVEN_OPTS": _SHORT_LIVED},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert _passed(tmp_path / _PROJECTS[1]) == {"OrdersTest": 10, "PublishedOrdersTest": 1}
    assert _passed(tmp_path / _SPRING)["BillsTest"] == 1


def _passed(project: Path) -> dict[str, int]:
    """Return the number of tests that passed by class."""
    passed = {}
    for report in project.glob("target/surefire-reports/*.xml"):
        cases = ET.parse(report).getroot().findall("testcase")  # noqa: S314 - our own file
        name = report.stem.rpartition(".")[2]
        passed[name] = sum(1 for case in cases if not len(case.findall("skipped")))
    return passed
