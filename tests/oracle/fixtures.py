"""Fixtures of comparisons: the broker under test and a real Kafka."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.default_overrides import KAFKALITE_DEFAULTS
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
    as_version: str | None = None,
) -> Target:
    """Return the broker under test: kafkalite, or Kafka to check the tests themselves.

    `control` enables kafkalite's control API, and `as_version` is the release that it emulates.
    Kafka has neither.
    """
    target = os.environ.get(TARGET, "kafkalite")
    if target == "kafka":
        return RealKafka(directory, config, features=features)
    assert target == "kafkalite", f"{TARGET}={target}"
    # Both brokers get kafkalite's defaults as settings, because DescribeConfigs reports whether a
    # value is a default.
    return ServedKafkalite(
        directory,
        {**KAFKALITE_DEFAULTS, **config, **features},
        control=control,
        options=("--defaults", "kafka", *(("--as-version", as_version) if as_version else ())),
    )


@contextmanager
def running_targets(*targets: Target) -> Iterator[None]:
    """Start brokers, and kill them when the block ends."""
    try:
        with required():
            for target in targets:
                target.start()
        yield
    finally:
        for target in targets:
            target.kill()


@contextmanager
def running_broker(directory: Path) -> Iterator[Target]:
    """Start the broker under test, and kill it when the block ends."""
    with required():
        target = broker_under_test(directory)
        target.start()
    try:
        yield target
    finally:
        target.kill()


@pytest.fixture(scope="session")
def real_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """Start a real Kafka for the whole run. Each scenario uses its own names."""
    with required():
        kafka = RealKafka(tmp_path_factory.mktemp("kafka"))
        kafka.start()
    yield kafka
    kafka.kill()
