"""Share groups whose state is not stored, as with an empty `group.share.persister.class.name`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.config.broker import SHARE_PERSISTER
from tests.conformance.compare import differences
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios.share_fetching import (
    a_deleted_state_cannot_be_written,
    a_group_starts_at_the_configured_offset,
    a_group_without_share_state_reads_nothing,
    records_are_acquired_and_acknowledged,
)
from tests.oracle.fixtures import broker_under_test, running_targets
from tests.oracle.real_kafka import RealKafka
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]


def test_share_groups_without_stored_state_are_those_of_kafka(tmp_path: Path) -> None:
    config = {**COMMON_CONFIG, SHARE_PERSISTER: ""}
    real = RealKafka(tmp_path / "kafka", config)
    emulator = broker_under_test(tmp_path / "emulator", config)
    with running_targets(real, emulator):
        for scenario in (
            records_are_acquired_and_acknowledged,
            a_group_without_share_state_reads_nothing,
            a_group_starts_at_the_configured_offset,
            a_deleted_state_cannot_be_written,
        ):
            lines = differences(play(scenario, real), play(scenario, emulator))
            assert not lines, f"{scenario.__name__}:\n" + "\n".join(lines)
