"""The Kafka module of Testcontainers for Java with the image of kafkalite as a substitute."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.containers.clients import consume, produce
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import program, required

pytestmark = pytest.mark.container

JAVA = Path(__file__).parent / "java"
SERVERS = "servers="


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
    # The image of the cleaner would be pulled.
    environment = {
        **os.environ, "DOCKER_HOST": docker_host, "TESTCONTAINERS_RYUK_DISABLED": "true",
    }  # fmt: skip
    command = ["java", "-cp", f"{jars}/*", JAVA / "StartModule.java", "kafkalite", substituted]
    log = tmp_path / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            list(map(str, command)),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line.startswith(SERVERS), log.read_text()
        bootstrap = line.removeprefix(SERVERS).rpartition("/")[2]
        produce(bootstrap, "orders", [b"a", b"b"])
        assert sorted(consume(bootstrap, "orders", 2)) == [b"a", b"b"]
        process.communicate("\n")
    assert process.returncode == 0
