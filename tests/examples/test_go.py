"""The example in Go: a client of the control API, and the tests that use it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import ROOT
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import program, required

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.client, pytest.mark.endurance]

GO = ROOT / "examples" / "go"
_TIMEOUT_S = 280


@pytest.fixture(scope="module")
def binaries() -> Path:
    """Compile the tests of each package with modules of the Go proxy; return their directory."""
    with required():
        go = program("go")

        def compile_tests(directory: Path) -> None:
            run_build([go, "test", "-C", str(GO), "-c", "-o", f"{directory}/", "./..."], directory)

        sources = [path for path in GO.rglob("*") if path.suffix in {".go", ".mod", ".sum"}]
        return build_once("go-example", sources, compile_tests)


@pytest.mark.parametrize(("name", "count"), [("shop", 10), ("kafkalite", 1)])
def test_tests_of_a_package_pass(name: str, count: int, binaries: Path, tmp_path: Path) -> None:
    variables = {"PYTHONPATH": str(ROOT), "KAFKALITE_COMMAND": f"{sys.executable} -P -m kafkalite"}
    done = subprocess.run(
        [str(binaries / f"{name}.test"), "-test.v"],
        cwd=tmp_path,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall("^--- PASS", done.stdout, re.MULTILINE)) == count
