"""The Kafka module of Testcontainers for Go with the name of kafkalite's image."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.containers.modules import check_module
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import program, required

pytestmark = pytest.mark.container

GO = Path(__file__).parent / "go"


@pytest.fixture(scope="module")
def start_module() -> str:
    """Build the program with modules of the Go proxy, and return its path."""
    with required():
        go = program("go")

        def compile_program(directory: Path) -> None:
            run_build([go, "build", "-C", str(GO), "-o", str(directory / "start"), "."], directory)

        return str(build_once("testcontainers-go", GO.iterdir(), compile_program) / "start")


def test_module_starts_the_image(
    confluent_tag: str, docker_host: str, start_module: str, tmp_path: Path
) -> None:
    check_module([start_module, confluent_tag], docker_host, tmp_path)
