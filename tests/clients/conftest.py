"""The broker that clients meet, one for each of them, and the driver of each client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.clients.process import DriverProcess, visiting
from tests.clients.roster import CLIENTS, Client
from tests.oracle.fixtures import broker_under_test
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracle.target import Target


@dataclass(frozen=True, slots=True)
class Seat:
    """A client at its broker."""

    client: Client
    driver: DriverProcess
    target: Target


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Start one broker for a module's tests; they use names of their own."""
    with required():
        target = broker_under_test(tmp_path_factory.mktemp("broker"))
        target.start()
    yield target
    target.kill()


@pytest.fixture(scope="package", params=CLIENTS, ids=lambda client: client.name)
def seat(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seat]:
    """Start a broker and one client's driver beside it."""
    client: Client = request.param
    directory = tmp_path_factory.mktemp(client.name)
    with required():
        client.command()  # what is lacking is found before a broker is started for it
        target = broker_under_test(directory)
        target.start()
    with visiting(client, target.bootstrap, directory) as driver:
        yield Seat(client, driver, target)
    target.kill()
