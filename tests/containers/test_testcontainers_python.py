"""The Kafka module of Testcontainers for Python with the name of kafkalite's image."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import ROOT
from tests.containers.clients import consume, produce
from tests.docs.blocks import Kind, blocks_of

if TYPE_CHECKING:
    from pathlib import Path

    from testcontainers.community.kafka import KafkaContainer

pytestmark = [pytest.mark.container, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

VARIABLES = {
    # The image of the cleaner would be pulled.
    "TESTCONTAINERS_RYUK_DISABLED": "true",
    "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
}
TEST_OF_A_READER = """

from tests.containers.clients import consume, produce


def test_broker(bootstrap_servers):
    produce(bootstrap_servers, "orders", [b"a"])
    assert consume(bootstrap_servers, "orders", 1) == [b"a"]
"""


@pytest.fixture
def kafka_container(
    image: str, docker_host: str, monkeypatch: pytest.MonkeyPatch
) -> type[KafkaContainer]:
    """Return the class of the module, with the engine of the tests as its Docker."""
    assert image
    monkeypatch.setenv("DOCKER_HOST", docker_host)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    pytest.importorskip("testcontainers")
    from testcontainers.community.kafka import KafkaContainer  # noqa: PLC0415 - reads the variables

    return KafkaContainer


def test_module_starts_the_image(kafka_container: type[KafkaContainer]) -> None:
    with kafka_container("kafkalite") as kafka:
        bootstrap = kafka.get_bootstrap_server()
        produce(bootstrap, "orders", [b"a", b"b"])
        assert sorted(consume(bootstrap, "orders", 2)) == [b"a", b"b"]


def test_module_starts_the_image_without_zookeeper(
    confluent_tag: str, kafka_container: type[KafkaContainer]
) -> None:
    with kafka_container(confluent_tag).with_kraft() as kafka:
        bootstrap = kafka.get_bootstrap_server()
        produce(bootstrap, "orders", [b"a"])
        assert consume(bootstrap, "orders", 1) == [b"a"]


def test_fixture_of_the_page_starts_the_image(image: str, docker_host: str, tmp_path: Path) -> None:
    assert image
    (block,) = (each for each in blocks_of(Kind.COMPILE) if "DockerContainer(" in each.text)
    module = tmp_path / "test_page.py"
    module.write_text(block.text + TEST_OF_A_READER, encoding="utf-8")
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:kafkalite", str(module)],
        cwd=tmp_path,
        env={**os.environ, **VARIABLES, "DOCKER_HOST": docker_host, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
