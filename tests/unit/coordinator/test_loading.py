"""Loading: what a log has is made true; what it should not have ends the loading."""

from __future__ import annotations

import pytest

from kafkalite.coordinator.contract import CoordinatorRecord, UnreadableLogError
from kafkalite.coordinator.loading import replay_log, replay_state
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.protocol.records.group_metadata import GroupMetadataKey
from kafkalite.testing.coordinator_log import Entry, MemoryCoordinatorLog

Record = CoordinatorRecord[object, object]

SERDE = CoordinatorSerde(lambda _: 0)
TOMBSTONE = SERDE.encode(CoordinatorRecord(GroupMetadataKey(group="g"), None))
FROM_A_LATER_VERSION: Entry = (b"\x7f\xff", b"")


def test_every_known_record_is_replayed_and_every_entry_counted() -> None:
    replayed: list[Record] = []
    log = MemoryCoordinatorLog([TOMBSTONE, FROM_A_LATER_VERSION, TOMBSTONE])
    assert replay_log(log, SERDE, replayed.append) == 3
    assert replayed == [CoordinatorRecord(GroupMetadataKey(group="g"), None)] * 2


@pytest.mark.parametrize(
    "damaged",
    [
        (b"\x00", b""),
        (b"\x00\x02\x00\x09g", b""),
        (TOMBSTONE[0], b""),
        (TOMBSTONE[0], b"\x7f\xff"),
        (TOMBSTONE[0], b"\x00\x00\x00"),
    ],
    ids=["no type", "key cut short", "empty value", "unknown value version", "value cut short"],
)
def test_an_entry_that_is_no_record_is_named(damaged: Entry) -> None:
    replayed: list[Record] = []
    with pytest.raises(UnreadableLogError, match="entry 1 is not a record") as failure:
        replay_log(MemoryCoordinatorLog([TOMBSTONE, damaged]), SERDE, replayed.append)
    assert failure.value.filename == "memory-0"
    assert len(replayed) == 1


def test_a_state_is_what_the_last_record_of_each_key_says() -> None:
    replayed: list[Record] = []
    entries = [TOMBSTONE, FROM_A_LATER_VERSION, TOMBSTONE, FROM_A_LATER_VERSION]
    replay_state(MemoryCoordinatorLog(entries), SERDE, replayed.append)
    assert replayed == [CoordinatorRecord(GroupMetadataKey(group="g"), None)]
