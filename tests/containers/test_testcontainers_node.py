"""The Kafka module of Testcontainers for Node.js with the name of kafkalite's image."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.containers.modules import check_module
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import program, required

pytestmark = pytest.mark.container

NODE = Path(__file__).parent / "node"
SCRIPT = "start-module.js"


@pytest.fixture(scope="module")
def packages() -> Path:
    """Install the packages of Testcontainers."""
    sources = [NODE / name for name in ("package.json", "package-lock.json", SCRIPT)]
    with required():
        program("node")
        npm = program("npm")

        def install(directory: Path) -> None:
            for source in sources:
                shutil.copy(source, directory)
            run_build([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], directory)

        return build_once("testcontainers-node", sources, install)


@pytest.mark.parametrize("mode", ["kraft", "zookeeper"])
def test_module_starts_the_image(
    confluent_tag: str, docker_host: str, packages: Path, tmp_path: Path, mode: str
) -> None:
    check_module(["node", str(packages / SCRIPT), confluent_tag, mode], docker_host, tmp_path)
