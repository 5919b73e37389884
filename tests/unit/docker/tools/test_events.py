"""Events of the verifiable tools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.records import ConsumerRecord
from kafkalite.docker.tools.events import by_partition, partition_row, write_record
from kafkalite.docker.tools.pacing import Pace

if TYPE_CHECKING:
    import pytest

PARTITION = TopicPartition("orders", 2)
RECORD = ConsumerRecord(PARTITION, 7, b"\xff", None, (), 0, 0)


def test_a_record_is_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    write_record(RECORD, Pace(0))
    event = json.loads(capsys.readouterr().out)
    del event["timestamp"]
    assert event == {
        "name": "record_data",
        "key": None,
        "value": "\ufffd",
        "topic": "orders",
        "partition": 2,
        "offset": 7,
    }


def test_records_are_grouped_by_partition() -> None:
    assert by_partition([RECORD, RECORD]) == {PARTITION: [RECORD, RECORD]}
    assert partition_row(PARTITION, count=2) == {"topic": "orders", "partition": 2, "count": 2}
