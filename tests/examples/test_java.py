"""The modules for Java, and the example that uses them, built and tested by Maven."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import ROOT
from tests.examples.java_modules import (
    EXAMPLE,
    SPRING,
    TIMEOUT_S,
    check_build,
    copy_projects,
    maven_with_repository,
    passed_tests,
)
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.client, pytest.mark.endurance]


@pytest.mark.timeout(2 * TIMEOUT_S)
def test_tests_of_the_java_modules_and_of_their_example_pass(tmp_path: Path) -> None:
    with required():
        maven = maven_with_repository()
    command = f"-Dkafkalite.command={sys.executable} -P -m kafkalite"
    modules = copy_projects(tmp_path)
    check_build(modules, [*maven, "verify", command], {"PYTHONPATH": str(ROOT)})
    assert passed_tests(tmp_path / EXAMPLE) == {"OrdersTest": 10, "PublishedOrdersTest": 1}
    assert passed_tests(tmp_path / SPRING)["BillsTest"] == 1
