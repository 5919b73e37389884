"""Fixtures of the tests of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.testing import Broker
from tests.unit.docker.tools.tool import ToolRunner

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Return a broker with the topic `orders`."""
    with Broker(topics={"orders": 3}) as running:
        yield running


@pytest.fixture
def tools(
    broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> ToolRunner:
    """Return a runner of tools against `broker`."""
    return ToolRunner(broker, capsys, monkeypatch)


@pytest.fixture
def offline_tools(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> ToolRunner:
    """Return a runner of tools without a broker."""
    return ToolRunner(None, capsys, monkeypatch)
