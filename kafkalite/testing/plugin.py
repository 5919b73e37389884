"""The pytest plugin: a broker for a test, or one for the whole run.

It is loaded into every pytest run of an environment that has kafkalite, used or not, so it
imports nothing until a fixture is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.testing.broker import Broker


@pytest.fixture
def kafkalite() -> Iterator[Broker]:
    """Give a fresh broker, which no other test sees."""
    from kafkalite.testing.broker import Broker  # noqa: PLC0415 - see above

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def kafkalite_session() -> Iterator[Broker]:
    """Give the broker of the whole run: tests that share it keep to topics of their own."""
    from kafkalite.testing.broker import Broker  # noqa: PLC0415 - see above

    with Broker() as broker:
        yield broker
