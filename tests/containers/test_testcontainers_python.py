"""The Kafka module of Testcontainers for Python with the name of kafkalite's image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.containers.clients import consume, produce

if TYPE_CHECKING:
    from testcontainers.community.kafka import KafkaContainer

pytestmark = [pytest.mark.container, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

VARIABLES = {
    # The image of the cleaner would be pulled.
    "TESTCONTAINERS_RYUK_DISABLED": "true",
    "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
}


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
