"""The modules for Java and the example that uses them: copies that Maven builds and tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Final

from tests.architecture.source import ROOT
from tests.docs.blocks import Kind, blocks_of
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import program

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MODULES, EXAMPLE = "integrations/java", "examples/java"
SPRING: Final = f"{MODULES}/kafkalite-spring-boot"
TIMEOUT_S: Final = 600

_OPTIONS = ("-q", "-B", "-P", "examples")
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def copy_projects(directory: Path) -> Path:
    """Copy the sources, with the tests of the pages; return the directory of the modules."""
    ignored = shutil.ignore_patterns("target")
    for project in (MODULES, EXAMPLE):
        shutil.copytree(ROOT / project, directory / project, ignore=ignored)
    for block in blocks_of(Kind.JAVA_TEST):
        found = re.search(r"^class (\w+)", block.text, re.MULTILINE)
        assert found is not None, block.name
        project = SPRING if "springframework" in block.text else EXAMPLE
        source = directory / project / "src" / "test" / "java" / "shop" / f"{found[1]}.java"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(block.text, encoding="utf-8")
    document = "docs/reference/openapi.json"
    (directory / document).parent.mkdir(parents=True)
    shutil.copy(ROOT / document, directory / document)
    return directory / MODULES


def maven_with_repository() -> list[str]:
    """Return the command of Maven without a network; it fetches all that the projects need before.

    Raises MissingProgramError and UnavailableError.
    """
    program("java")
    maven = program("mvn")
    poms = [
        pom
        for project in (MODULES, EXAMPLE)
        for pom in (ROOT / project).rglob("pom.xml")
        if "target" not in pom.parts
    ]

    def fetch(directory: Path) -> None:
        modules = copy_projects(directory / "projects")
        local = f"-Dmaven.repo.local={directory / 'repository'}"
        # No test has this tag.
        run_build([maven, *_OPTIONS, local, "verify", "-Dgroups=none"], modules, TIMEOUT_S)
        shutil.rmtree(directory / "projects")

    repository = build_once("java-modules", poms, fetch) / "repository"
    return [maven, *_OPTIONS, "-o", f"-Dmaven.repo.local={repository}"]


def check_build(modules: Path, command: list[str], environment: Mapping[str, str]) -> None:
    """Check that a command of Maven succeeds in copied modules."""
    done = subprocess.run(
        command,
        cwd=modules,
        env={**os.environ, "MAVEN_OPTS": _SHORT_LIVED, **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def passed_tests(project: Path) -> dict[str, int]:
    """Return the number of tests that passed by class."""
    passed = {}
    for report in project.glob("target/surefire-reports/*.xml"):
        cases = ET.parse(report).getroot().findall("testcase")  # noqa: S314 - our own file
        name = report.stem.rpartition(".")[2]
        passed[name] = sum(1 for case in cases if not len(case.findall("skipped")))
    return passed
