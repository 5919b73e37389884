"""The Java module with the image: a container of Testcontainers, and `image` of `@Kafkalite`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.examples.java_modules import (
    EXAMPLE,
    TIMEOUT_S,
    check_build,
    copy_projects,
    maven_with_repository,
    passed_tests,
)
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from pathlib import Path

    from tests.containers.engine import Engine

pytestmark = pytest.mark.container


@pytest.mark.timeout(2 * TIMEOUT_S)
def test_java_tests_run_with_the_image(
    engine: Engine, image: str, docker_host: str, tmp_path: Path
) -> None:
    assert image
    with required():
        maven = maven_with_repository()
    command = [
        *maven, "test", "-pl", ":shop", "-am", "-Dtest=ContainerTest", "-DexcludedGroups=none",
        "-Dsurefire.failIfNoSpecifiedTests=false", f"-Dkafkalite.docker={engine.podman}",
    ]  # fmt: skip
    # The image of the cleaner would be pulled.
    variables = {"DOCKER_HOST": docker_host, "TESTCONTAINERS_RYUK_DISABLED": "true"}
    check_build(copy_projects(tmp_path), command, engine.environment | variables)
    assert passed_tests(tmp_path / EXAMPLE)["ContainerTest"] == 2
