"""Each program in `examples/` runs, and each configuration file is valid."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import kafkalite
from kafkalite.testing import Broker
from tests.architecture.source import ROOT
from tests.clients.client_libraries import kafkajs_program
from tests.clients.ghost_table import RELEASES
from tests.docs.schemas import validate
from tests.oracle.requirements import program, required
from tests.reference.known_bugs import read_example

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.endurance

EXAMPLES = ROOT / "examples"
KNOWN_BUGS = EXAMPLES / "known_bugs"
_MAX_LINES_OF_A_BUG = 20
_TIMEOUT_S = 280
_PLUGIN = "kafkalite.testing.plugin"
_NEEDS_SPARK = {"test_audit.py"}
_CONTAINERS = {f"testcontainers/{name}" for name in ("kafkalite_container.py", "test_orders.py")}
"""Tested by `test_testcontainers.py`."""
_JAVA = {
    "java/pom.xml", "java/src/test/java/shop/OrdersTest.java",
    "java/src/test/java/shop/ContainerTest.java",
}  # fmt: skip
"""Tested by `test_java.py`, and by `test_java_modules.py` of the container tests."""
_GO = {
    f"go/{name}"
    for name in (
        "go.mod", "go.sum", "orders_test.go", "kafkalite/kafkalite.go",
        "kafkalite/kafkalite_test.go",
    )
}  # fmt: skip
"""Tested by `test_go.py`."""
_NODE = {
    f"node/{name}"
    for name in (
        "package.json", "package-lock.json", "kafkalite.js", "kafkalite.test.js", "orders.test.js"
    )
}  # fmt: skip
"""Tested by `test_node.py`."""
_SWEEP = {
    f"sweep/{name}"
    for name in (
        "check_bills.py", "service_aiokafka.py", "service_librdkafka.py", "shop.yaml",
        "empty_shop.yaml", "java/pom.xml", "java/src/main/java/shop/BillingService.java",
        "java/src/main/java/shop/SpringBillingService.java", "go/go.mod", "go/go.sum",
        "go/main.go", "node/package.json", "node/package-lock.json", "node/service_kafkajs.js",
    )
}  # fmt: skip
"""Tested by `test_sweep.py`."""
_SCHEMAS = {
    "compose/compose.yaml": "compose-spec.json",
    "ci/github-actions.yaml": "github-workflows.json",
    "ci/gitlab-ci.yaml": "gitlab-ci.json",
    "ci/circleci.yaml": "circle-ci.json",
}


def run(command: list[str], directory: Path, **variables: str) -> str:
    """Run a program and return its output; AssertionError if it fails."""
    completed = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


def run_pytest(paths: list[Path], directory: Path, *options: str) -> None:
    """Run examples as a user does, without the settings of this project."""
    # Where kafkalite is installed, pytest loads its plugin by itself.
    is_installed = any(
        entry_point.value == _PLUGIN for entry_point in entry_points(group="pytest11")
    )
    load = [] if is_installed else ["-p", _PLUGIN]
    own_settings = ["-c", os.devnull, "--rootdir", str(directory), "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *load, *own_settings]
    output = run([*command, *options, *map(str, paths)], directory)
    assert re.search(r"\d+ passed", output), output


@pytest.mark.client
def test_python_examples_pass(tmp_path: Path) -> None:
    # One process for all of them: the start of pytest takes longer than an example.
    paths = [*sorted(EXAMPLES.glob("test_*.py")), KNOWN_BUGS]
    run_pytest([path for path in paths if path.name not in _NEEDS_SPARK], tmp_path)


@pytest.mark.client
@pytest.mark.endurance
def test_known_bugs_have_the_same_outcomes_with_an_earlier_release(tmp_path: Path) -> None:
    paths = sorted(KNOWN_BUGS.glob("test_*.py"))
    shown = [path for path in paths if RELEASES[0] in read_example(path)[1]]
    run_pytest(shown, tmp_path, "-p", "tests.examples.earlier_release")


def test_known_bugs_are_shown_in_few_lines() -> None:
    lengths = {
        f"{path.name}:{each.name}": each.end_lineno - each.lineno + 1
        for path in KNOWN_BUGS.glob("test_*.py")
        for each in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(each, ast.FunctionDef) and each.end_lineno is not None
    }
    assert lengths
    assert {name: each for name, each in lengths.items() if each > _MAX_LINES_OF_A_BUG} == {}


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(_NEEDS_SPARK))
def test_spark_example_passes(name: str, tmp_path: Path) -> None:
    run_pytest([EXAMPLES / name], tmp_path)


def test_control_script_uses_the_control_api(tmp_path: Path) -> None:
    command = tmp_path / "kafkalite"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafkalite "$@"\n')
    command.chmod(0o755)
    with Broker(topics={"orders": 3}, control=True) as broker:
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        script = str(EXAMPLES / "control.sh")
        output = run(["sh", script], tmp_path, PATH=path, KAFKALITE_CONTROL=broker.control_url)
    assert "(manual)" in output
    assert "f1: api=Produce topic=orders" in output


@pytest.mark.client
@pytest.mark.endurance
def test_kafkajs_example_consumes_its_record(tmp_path: Path) -> None:
    with required():
        _, installed = kafkajs_program("driver.js")
    modules = os.path.join(os.path.dirname(installed), "node_modules")  # noqa: PTH118, PTH120
    with Broker(topics={"orders": 1}) as broker:
        command = [program("node"), str(EXAMPLES / "kafkajs" / "orders.js")]
        output = run([*command, broker.bootstrap_servers], tmp_path, NODE_PATH=modules)
    assert "two apples\n" in output


@pytest.mark.parametrize(("name", "schema"), _SCHEMAS.items())
def test_configuration_file_matches_its_schema(name: str, schema: str) -> None:
    content: Any = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    if True in content:  # YAML 1.1 reads the key `on` as a boolean
        content["on"] = content.pop(True)
    validate(content, schema)


def test_configurations_of_ci_are_those_of_the_guide() -> None:
    guide = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
    for path in (EXAMPLES / "ci").iterdir():
        _, _, content = path.read_text(encoding="utf-8").partition("\n")
        assert f"\n{content}```" in guide, path.name


def test_the_modules_for_java_have_the_version_of_kafkalite() -> None:
    modules = ROOT / "integrations" / "java"
    paths = [modules / "pom.xml", *modules.glob("*/pom.xml"), EXAMPLES / "java" / "pom.xml"]
    paths.append(ROOT / "docs" / "how-to" / "java.md")
    versions = {
        version
        for path in paths
        for version in re.findall(
            r"<artifactId>kafkalite-[\w-]+</artifactId>\s*<version>([\d.]+)",
            path.read_text(encoding="utf-8"),
        )
    }
    assert versions == {kafkalite.__version__}


def test_every_example_is_in_the_index_and_in_a_test() -> None:
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\]\(([\w./-]+)\)", index))
    existing = {
        path.relative_to(EXAMPLES).as_posix()
        for path in EXAMPLES.rglob("*")
        if path.is_file()
        and path.name != "README.md"
        and not {"__pycache__", ".pytest_cache", "node_modules", "target"} & set(path.parts)
    }
    assert listed == existing
    tested = {path.name for path in EXAMPLES.glob("test_*.py")}
    tested |= {"control.sh", "ci/Jenkinsfile", "kafkajs/orders.js"}
    tested |= {f"known_bugs/{path.name}" for path in KNOWN_BUGS.glob("test_*.py")}
    tested |= {*_SCHEMAS, *_CONTAINERS, *_JAVA, *_GO, *_NODE, *_SWEEP}
    assert existing == tested
