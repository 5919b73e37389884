"""Expiry, sizes and the first delay of groups, on a real Kafka and a kafkalite in haste."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.playing import play_together, transcript_of
from tests.conformance.scenarios.hasty_groups import HASTE, WAITING
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.playing import Transcript

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], Transcript]:
    """Start both brokers, play everything at once, and end them."""
    config = {**COMMON_CONFIG, **HASTE}
    with required():
        real = RealKafka(tmp_path_factory.mktemp("hasty-kafka"), config)
        real.start()
    try:
        ours = broker_under_test(tmp_path_factory.mktemp("hasty-accused"), config)
        ours.start()
        try:
            return play_together(WAITING, {"real": real, "ours": ours})
        finally:
            ours.kill()
    finally:
        real.kill()


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in WAITING])
def test_kafkalite_in_haste_answers_as_kafka_does(
    scenario: str, played: Mapping[tuple[str, str], Transcript]
) -> None:
    found = differences(
        transcript_of(played[scenario, "real"]), transcript_of(played[scenario, "ours"])
    )
    assert not found, "\n".join(found)
