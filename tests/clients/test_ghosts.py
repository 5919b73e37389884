"""Late requests do the same to each client with kafkalite as with a real Kafka behind a proxy.

`python -m tests.clients.record_ghosts` records all outcomes with Kafka, and compares kafkalite with
all of them. Other runs compare the clients that pip installs, and one of them with Kafka.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests.clients.client_libraries import (
    FRANZ_GO,
    client_named,
    driver_environment,
    java_classes,
)
from tests.clients.ghost_table import (
    CLASSIC,
    CLIENTS,
    CONSUMER,
    LOST_CONNECTION,
    RELEASES,
    TIMEOUT,
    record,
    recorded,
)
from tests.clients.ghosts import (
    emulated_broker,
    late_commit,
    late_end_of_transaction,
    proxied_kafka,
)
from tests.clients.process import DriverProcess
from tests.clients.release_clients import command_on_release
from tests.clients.transactional_producers import COMMANDS, TransactionalProducers
from tests.conformance.recordings import RENEW
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.clients.client_libraries import Command
    from tests.clients.ghost_table import Outcomes
    from tests.clients.ghosts import GhostBroker

_Driver = TypeVar("_Driver", bound=DriverProcess)

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_IS_RENEWED = bool(os.environ.get(RENEW))
_FROM_PIP = ("librdkafka", "aiokafka", "kafka-python")
_EMULATED_CLIENTS = CLIENTS if _IS_RENEWED else _FROM_PIP
_REAL_CLIENTS = CLIENTS if _IS_RENEWED else _FROM_PIP[:1]
_REAL_RELEASES = RELEASES if _IS_RENEWED else RELEASES[-1:]

_DRIVERS: Mapping[str, Command] = {
    "librdkafka": client_named("confluent-kafka").command,
    "aiokafka": client_named("aiokafka").command,
    "kafka-python": client_named("kafka-python").command,
    "Java 4.4": client_named("java").command,
    "Java 3.9": lambda: command_on_release("3.9", "ClientDriver", classes=java_classes()),
    "kafkajs": client_named("kafkajs").command,
    "franz-go": FRANZ_GO.command,
}
_PRODUCERS: Mapping[str, Command] = {
    client: COMMANDS[{"Java 4.4": "java", "Java 3.9": "java-3.9"}.get(client, client)]
    for client in CLIENTS
}
_WITH_CONSUMER_PROTOCOL = {
    ("librdkafka", "4.4"), ("Java 4.4", "3.9"), ("Java 4.4", "4.4"), ("Java 3.9", "3.9"),
    ("Java 3.9", "4.4"),
}  # fmt: skip
"""Clients and releases: librdkafka does not have the preview of the protocol."""


@pytest.fixture(scope="module", params=RELEASES)
def emulated(request: pytest.FixtureRequest) -> Iterator[tuple[str, GhostBroker]]:
    """Run kafkalite as a release."""
    with emulated_broker(request.param) as broker:
        yield request.param, broker


@pytest.fixture(scope="module", params=_REAL_RELEASES)
def real(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, GhostBroker]]:
    """Run a release of Kafka."""
    with ExitStack() as running:
        with required():
            kafka = proxied_kafka(request.param, tmp_path_factory.mktemp("kafka"))
            broker = running.enter_context(kafka)
        yield request.param, broker


@pytest.mark.oracle
@pytest.mark.parametrize("client", _REAL_CLIENTS)
def test_kafka_has_the_recorded_outcomes(
    client: str, real: tuple[str, GhostBroker], tmp_path: Path, attempt: int
) -> None:
    release, broker = real
    outcomes = _run(client, release, broker, tmp_path, attempt)
    if _IS_RENEWED:
        record(client, release, outcomes)
    assert outcomes == recorded(client, release)


@pytest.mark.parametrize("client", _EMULATED_CLIENTS)
def test_kafkalite_has_the_outcomes_of_kafka(
    client: str, emulated: tuple[str, GhostBroker], tmp_path: Path, attempt: int
) -> None:
    release, broker = emulated
    assert _run(client, release, broker, tmp_path, attempt) == recorded(client, release)


def _run(client: str, release: str, broker: GhostBroker, directory: Path, attempt: int) -> Outcomes:
    """Return what happens to a client by each late request that it can send."""
    outcomes: Outcomes = {}
    name = f"{client.replace(' ', '-')}-{attempt}"
    with _running(TransactionalProducers, _PRODUCERS[client], broker, directory) as producers:
        for ghost in (LOST_CONNECTION, TIMEOUT):
            disconnects = ghost == LOST_CONNECTION
            topic = f"end-{disconnects}-{name}".lower()
            outcomes[ghost] = late_end_of_transaction(
                broker, producers, topic, disconnects=disconnects
            )
    with _running(DriverProcess, _DRIVERS[client], broker, directory) as driver:
        outcomes[CLASSIC] = late_commit(broker, driver, f"classic-{name}", "classic")
        if (client, release) in _WITH_CONSUMER_PROTOCOL:
            outcomes[CONSUMER] = late_commit(broker, driver, f"consumer-{name}", "consumer")
    return outcomes


@contextmanager
def _running(
    kind: type[_Driver], command: Command, broker: GhostBroker, directory: Path
) -> Iterator[_Driver]:
    with required():
        program = command()
    log = directory / f"{kind.__name__}.log"
    driver = kind([*program, broker.bootstrap_servers], log, driver_environment())
    try:
        yield driver
    finally:
        driver.close()
