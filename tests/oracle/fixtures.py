"""Fixtures shared by the judges: the broker under test, and the real Kafka beside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG, NO_FEATURES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.oracle.target import Target

TARGET = "KAFKALITE_TARGET"


def broker_under_test(
    directory: Path,
    config: Mapping[str, str] = COMMON_CONFIG,
    features: Mapping[str, str] = NO_FEATURES,
    *,
    control: bool = False,
) -> Target:
    """Give the broker that the tests judge: kafkalite, or Kafka to judge the tests themselves.

    With `control`, kafkalite can be asked why; Kafka has no such place.
    """
    chosen = os.environ.get(TARGET, "kafkalite")
    if chosen == "kafka":
        return RealKafka(directory, config, features=features)
    assert chosen == "kafkalite", f"{TARGET}={chosen}"
    return ServedKafkalite(directory, {**config, **features}, control=control)


@pytest.fixture(scope="session")
def real_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """One real Kafka for the whole run; scenarios use names of their own."""
    with required():
        kafka = RealKafka(tmp_path_factory.mktemp("kafka"))
        kafka.start()
    yield kafka
    kafka.kill()
