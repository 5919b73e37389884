"""The Kafka module of Testcontainers for Java with the image of kafkalite as a substitute."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.containers.modules import check_module
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import program, required

pytestmark = pytest.mark.container

JAVA = Path(__file__).parent / "java"


@pytest.fixture(scope="module")
def jars() -> Path:
    """Fetch the jars of Testcontainers."""
    pom = JAVA / "pom.xml"
    with required():
        program("java")
        maven = [program("mvn"), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]

        def fetch(directory: Path) -> None:
            run_build([*maven, f"-DoutputDirectory={directory}"], directory)

        return build_once("testcontainers-jars", [pom], fetch)


@pytest.mark.parametrize(
    "substituted", ["apache/kafka", "apache/kafka-native", "confluentinc/cp-kafka"]
)
def test_module_starts_the_image_as_a_substitute(
    image: str, docker_host: str, jars: Path, tmp_path: Path, substituted: str
) -> None:
    assert image
    check_module(
        ["java", "-cp", f"{jars}/*", str(JAVA / "StartModule.java"), "kafkalite", substituted],
        docker_host,
        tmp_path,
    )
