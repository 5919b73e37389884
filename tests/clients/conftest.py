"""Fixtures: a broker for each test, and a client's driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.clients.chromium import Browser, Tab, chromium
from tests.clients.client_libraries import CLIENTS, Client
from tests.clients.process import DriverProcess, running_driver
from tests.oracle.fixtures import running_broker
from tests.oracle.requirements import program, required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.oracle.target import Target


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """A client with its driver and broker."""

    client: Client
    driver: DriverProcess
    target: Target


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Target]:
    """Start a broker for one attempt of a test."""
    with running_broker(tmp_path / "broker") as target:
        yield target


@pytest.fixture(
    params=[
        pytest.param(
            client, id=client.name, marks=() if client.is_from_pip else pytest.mark.endurance
        )
        for client in CLIENTS
    ],
)
def connected(
    request: pytest.FixtureRequest, broker: Target, tmp_path: Path
) -> Iterator[ConnectedClient]:
    """Start one client's driver; consumers of an earlier attempt ended with theirs."""
    client: Client = request.param
    with running_driver(client, broker.bootstrap, tmp_path) as driver:
        yield ConnectedClient(client, driver, broker)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return a headless Chromium."""
    with required():
        program("chromium")
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def tab(browser: Browser) -> Tab:
    """Return a new tab of the browser."""
    return browser.new_tab()
