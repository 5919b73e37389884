"""Every client with every mechanism, with and without TLS: it works, or reports the right error."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.security.certificates import CertificateAuthority
from tests.clients.client_libraries import (
    driver_environment,
    franz_go_worker,
    java_classes,
    kafkajs_program,
)
from tests.clients.process import ClientError, DriverProcess
from tests.clients.security_cells import Listener, connection_of, listener_of
from tests.clients.security_matrix import CELLS, CLIENTS, Cell, ClientRow, Fault, topic_of
from tests.oracle.jars import jar_directory, java_command
from tests.oracle.requirements import program, required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.testing import Broker

pytestmark = pytest.mark.client

VALUE: Final = "two apples" * 5_000
"""A value that needs several records of TLS."""
OLD_RELEASE: Final = "3.9"
"""The last release that accepts the nonce of an old librdkafka."""
FIXED_LIBRDKAFKA: Final = (2, 6, 1)


def command_of(client: str) -> list[str]:
    """Return the command of a client's driver; raises if a program is missing."""
    if client == "java":
        return java_command("SecurityDriver", classes=java_classes(), log_level="error")
    if client == "kafkajs":
        return kafkajs_program("secured.js")
    if client == "franz-go":
        return [*franz_go_worker(), "secured"]
    if client == "kcat":
        program("kcat")
    if client == "tools":
        jar_directory()
    return [sys.executable, "-m", "tests.clients.drivers.security_driver", client]


def has_old_scram(client: ClientRow, cell: Cell) -> bool:
    """Whether the client is a kcat whose nonce in SCRAM Kafka 4 refuses; see `Release`."""
    if client.name != "kcat" or not cell.mechanism.startswith("SCRAM"):
        return False
    printed = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", printed)
    assert found is not None, printed
    return tuple(map(int, found.groups())) < FIXED_LIBRDKAFKA


class Matrix:
    """The brokers and drivers of all cells; each starts when it is used first."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self._brokers: dict[Listener, Broker] = {}
        self._drivers: dict[str, DriverProcess] = {}
        self._other_authority = directory / "other.pem"
        self._other_authority.write_bytes(CertificateAuthority.create("other").pem)

    def exchange(self, client: ClientRow, cell: Cell, as_version: str | None = None) -> str:
        """Write a value and read it in a group; return what was read. Raises ClientError."""
        with required():
            driver = self._driver(client.name)
        broker = self._broker(listener_of(cell, as_version))
        connection = connection_of(cell, broker, self._other_authority)
        name = topic_of(client, cell)
        if client.name in ("java", "kafkajs", "franz-go"):
            return driver.exchange(name, name, VALUE, settings=connection.settings(client.name))
        return driver.exchange(name, name, VALUE, connection=connection.to_json())

    def _broker(self, listener: Listener) -> Broker:
        if listener not in self._brokers:
            self._brokers[listener] = self._stack.enter_context(listener.broker())
        return self._brokers[listener]

    def _driver(self, client: str) -> DriverProcess:
        if client not in self._drivers:
            log = self._directory / f"{client}.log"
            driver = DriverProcess(command_of(client), log, driver_environment())
            self._stack.callback(driver.close)
            self._drivers[client] = driver
        return self._drivers[client]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    with ExitStack() as stack:
        yield Matrix(tmp_path_factory.mktemp("matrix"), stack)


@pytest.mark.parametrize(
    ("client", "cell"),
    [
        pytest.param(
            client,
            cell,
            id=topic_of(client, cell),
            marks=() if client.is_from_pip else pytest.mark.endurance,
        )
        for client in CLIENTS
        for cell in CELLS
        if cell.fault not in client.impossible
    ],
)
def test_a_client_works_or_reports_its_error(matrix: Matrix, client: ClientRow, cell: Cell) -> None:
    if cell.fault is None:
        as_version = OLD_RELEASE if has_old_scram(client, cell) else None
        assert matrix.exchange(client, cell, as_version) == VALUE
        return
    with pytest.raises(ClientError) as refused:
        matrix.exchange(client, cell)
    text = str(refused.value)
    assert any(error in text for error in client.expected_errors(cell)), text


@pytest.mark.endurance
def test_kafka_4_refuses_scram_of_an_old_kcat(matrix: Matrix) -> None:
    (client,) = (each for each in CLIENTS if each.name == "kcat")
    cell = Cell("SASL_PLAINTEXT", "SCRAM-SHA-256")
    with required():
        command_of("kcat")
    if not has_old_scram(client, cell):
        pytest.skip("needs a kcat with librdkafka before 2.6.1")
    with pytest.raises(ClientError, match="due to invalid credentials"):
        matrix.exchange(client, cell)


def test_each_client_has_an_error_or_a_reason_for_each_fault() -> None:
    for client in CLIENTS:
        assert {*client.errors, *client.impossible} == set(Fault), client.name
        assert not client.errors.keys() & client.impossible.keys(), client.name
