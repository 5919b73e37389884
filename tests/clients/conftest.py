"""Fixtures: one broker for each client, and the client's driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.clients.client_libraries import CLIENTS, Client
from tests.clients.process import DriverProcess, running_driver
from tests.oracle.fixtures import broker_under_test
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracle.target import Target


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """A client with its driver and broker."""

    client: Client
    driver: DriverProcess
    target: Target


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Start one broker for a module's tests, which use different names."""
    with required():
        target = broker_under_test(tmp_path_factory.mktemp("broker"))
        target.start()
    yield target
    target.kill()


@pytest.fixture(
    scope="package",
    params=[
        pytest.param(
            client, id=client.name, marks=() if client.is_from_pip else pytest.mark.endurance
        )
        for client in CLIENTS
    ],
)
def connected(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConnectedClient]:
    """Start a broker and one client's driver."""
    client: Client = request.param
    directory = tmp_path_factory.mktemp(client.name)
    with required():
        client.command()  # skip before a broker is started if the client is missing
        target = broker_under_test(directory)
        target.start()
    with running_driver(client, target.bootstrap, directory) as driver:
        yield ConnectedClient(client, driver, target)
    target.kill()
