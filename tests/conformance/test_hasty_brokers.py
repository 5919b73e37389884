"""Brokers in haste: groups that expire or are full, transactions that take too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.playing import play_together, transcript_of
from tests.conformance.scenarios import hasty_groups, hasty_transactions
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.playing import Transcript

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

WAITING = (*hasty_groups.WAITING, *hasty_transactions.WAITING)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], Transcript]:
    """Start both brokers, play everything at once, and end them."""
    config = {**COMMON_CONFIG, **hasty_groups.HASTE, **hasty_transactions.HASTE}
    with required():
        real = RealKafka(tmp_path_factory.mktemp("hasty-kafka"), config)
        real.start()
    try:
        ours = broker_under_test(tmp_path_factory.mktemp("hasty-accused"), config)
        ours.start()
        try:
            # One after the other: with all at once two processors would not keep the times.
            targets = {"real": real, "ours": ours}
            return {
                **play_together(hasty_groups.WAITING, targets),
                **play_together(hasty_transactions.WAITING, targets),
            }
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
