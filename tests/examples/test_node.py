"""The example in Node.js: a client of the control API, and the tests that use it."""

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

NODE = ROOT / "examples" / "node"
_TIMEOUT_S = 280


def _packages() -> Path:
    """Install the packages of the example; return the directory `node_modules`."""
    sources = [NODE / name for name in ("package.json", "package-lock.json")]
    npm = program("npm")

    def install(directory: Path) -> None:
        for source in sources:
            shutil.copy(source, directory)
        run_build([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], directory)

    return build_once("node-example", sources, install) / "node_modules"


def test_tests_of_the_example_pass(tmp_path: Path) -> None:
    with required():
        node = program("node")
        packages = _packages()
    for source in NODE.glob("*.js*"):
        shutil.copy(source, tmp_path)
    for number, block in enumerate(blocks_of(Kind.NODE_TEST)):
        (tmp_path / f"page{number}.test.js").write_text(block.text, encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(packages)
    variables = {"PYTHONPATH": str(ROOT), "KAFKALITE_COMMAND": f"{sys.executable} -P -m kafkalite"}
    done = subprocess.run(
        [node, "--test", "--test-reporter=tap"],
        cwd=tmp_path,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^# pass 12$", done.stdout, re.MULTILINE), done.stdout
