"""The two brokers of every comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.oracle.fixtures import broker_under_test, real_kafka, running_broker, running_targets
from tests.oracle.real_kafka import RealKafka

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.oracle.target import Target

__all__ = ["real_kafka"]


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Start the broker under test; with KAFKALITE_TARGET=kafka, this is a second real Kafka."""
    with running_broker(tmp_path_factory.mktemp("emulator")) as target:
        yield target


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[tuple[Target, Target]]:
    """Start a real Kafka and a broker under test that no other test uses.

    A restart would affect later tests on the same broker, such as by the leader epochs of internal
    topics.
    """
    kafka, emulator = RealKafka(tmp_path / "kafka"), broker_under_test(tmp_path / "emulator")
    with running_targets(kafka, emulator):
        yield kafka, emulator
