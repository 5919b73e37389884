"""The example in Go: a client of the control API, and the tests that use it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import ROOT
from tests.docs.blocks import Kind, blocks_of
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import program, required

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.client, pytest.mark.endurance]

GO = ROOT / "examples" / "go"
_TIMEOUT_S = 280


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the tests of each package with modules of the Go proxy; return their directory."""
    module = tmp_path_factory.mktemp("module") / "shop"
    shutil.copytree(GO, module)
    for number, block in enumerate(blocks_of(Kind.GO_TEST)):
        (module / f"page{number}_test.go").write_text(block.text, encoding="utf-8")
    with required():
        go = program("go")

        def compile_tests(directory: Path) -> None:
            copied = ["test", "-C", str(module), "-c", "-o", f"{directory}/", "./..."]
            run_build([go, *copied], directory)

        return build_once("go-example", [*module.rglob("*.*")], compile_tests)


@pytest.mark.parametrize(("name", "count"), [("shop", 11), ("kafkalite", 1)])
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
