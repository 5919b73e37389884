"""The two brokers of every comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.oracle.fixtures import broker_under_test, real_kafka
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracle.target import Target

__all__ = ["real_kafka"]


@pytest.fixture(scope="session")
def accused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Start the broker whose answers are judged; with KAFKALITE_TARGET=kafka, another Kafka."""
    with required():
        target = broker_under_test(tmp_path_factory.mktemp("accused"))
        target.start()
    yield target
    target.kill()
