"""Offsets that librdkafka producers send in transactions while the broker is killed repeatedly.

With its default metadata.recovery.strategy, librdkafka drops a broker that it lost, but still uses
it as the coordinator of groups; send_offsets_to_transaction then waits for it without sending
anything (issues 5511 and 5456 of librdkafka). KAFKALITE_TARGET=kafka shows the same with Apache
Kafka.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.clients.sending_offsets import Rounds
from tests.oracle.fixtures import broker_under_test
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.oracle.target import Target

pytestmark = [pytest.mark.client, pytest.mark.endurance, pytest.mark.timeout(600)]

_SEED = 15


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    with required():
        target = broker_under_test(tmp_path / "broker")
        target.start()
    yield target
    target.kill()


def test_no_sender_hangs_and_no_offset_is_lost(target: Target, tmp_path: Path) -> None:
    rounds = Rounds(target, tmp_path, random.Random(_SEED), recovery="none")  # noqa: S311 - a run that can be repeated
    assert rounds.run(20) == []
    rounds.check_offsets()


@pytest.mark.xfail(
    strict=True, reason="librdkafka issue 5511: it waits for a broker that it dropped"
)
def test_no_sender_hangs_with_metadata_rebootstrap(target: Target, tmp_path: Path) -> None:
    generator = random.Random(_SEED)  # noqa: S311 - a run that can be repeated
    rounds = Rounds(target, tmp_path, generator, recovery="rebootstrap", patience_s=20)
    assert rounds.run(1) == []
