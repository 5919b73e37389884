"""Where groups stand after records that loading may show out of the company they came in."""

from __future__ import annotations

from kafkalite.groups.consumer import records
from kafkalite.groups.replaying import FIRST_EPOCH, NEVER_ASSIGNED_MS
from tests.unit.groups.consumer.stage import G, Stage


def test_a_second_life_begins_anew_where_the_end_of_the_first_was_folded_away() -> None:
    stage = Stage({"T": 2})
    stage.join("A")
    assert stage.group.target_epoch == stage.group.epoch == FIRST_EPOCH + 1
    tombstone = records.target_epoch_tombstone(G)
    stage.groups.replayers[type(tombstone.key)](tombstone.key, tombstone.value)
    assert stage.group.target_epoch == FIRST_EPOCH
    assert stage.group.target_timestamp_ms == NEVER_ASSIGNED_MS
