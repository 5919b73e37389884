"""Fixtures of the tests of commands to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.testing import Broker
from tests.unit.cli.command import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    """Return a broker that the tests of a module share; each test has topics of its own."""
    with Broker() as running:
        yield running


@pytest.fixture
def shell(
    cluster: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """Return a runner of commands against `cluster`."""
    return Shell(cluster.bootstrap_servers, capsys, monkeypatch)
