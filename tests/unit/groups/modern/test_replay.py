"""Replay of records in the order of a compacted log."""

from __future__ import annotations

from kafkalite.groups.consumer import consumer_group_records as records
from kafkalite.groups.modern.group import FIRST_EPOCH, NEVER_ASSIGNED_MS
from tests.unit.groups.consumer.stage import G, Stage


def test_a_recreated_group_starts_fresh_after_compaction() -> None:
    stage = Stage({"T": 2})
    stage.join("A")
    assert stage.group.target_epoch == stage.group.epoch == FIRST_EPOCH + 1
    tombstone = records.TYPES.target_epoch_tombstone(G)
    stage.groups.replayers[type(tombstone.key)](tombstone.key, tombstone.value)
    assert stage.group.target_epoch == FIRST_EPOCH
    assert stage.group.target_timestamp_ms == NEVER_ASSIGNED_MS
