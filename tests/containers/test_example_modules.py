"""The modules of Testcontainers in `examples/`, with the image."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import ROOT

if TYPE_CHECKING:
    from types import ModuleType

pytestmark = [pytest.mark.container, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def example(image: str, docker_host: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module, with the engine of the tests as its Docker."""
    assert image
    monkeypatch.setenv("DOCKER_HOST", docker_host)
    # The image of its cleaner would be pulled.
    monkeypatch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
    monkeypatch.setenv("TESTCONTAINERS_CONNECTION_MODE", "docker_host")
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "testcontainers"))
    return importlib.import_module("test_orders")


def test_python_module_starts_the_image(example: ModuleType) -> None:
    with example.KafkaliteContainer(topics={"orders": 3}) as kafka:
        example.test_an_order_is_written(kafka)
        example.test_the_clock_of_the_broker_moves(kafka)
