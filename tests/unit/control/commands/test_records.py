"""Commands about records of topics, as JSON."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.typed_json import JsonError, read, to_json
from kafkalite.control.commands.records import ProduceRecords, ReadRecords
from kafkalite.control.topic_records import produce
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from kafkalite.storage.record_format import NewRecord
from tests.unit.control.ports import ANY_PORT
from tests.unit.control.test_turns import turns_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    running = Broker(Settings(listen=ANY_PORT, topics={"orders": 2}))
    await running.start()
    yield running
    await running.stop()


def records(*rows: dict[str, object], **fields: object) -> ProduceRecords:
    body = {"topic": "orders", "records": list(rows), **fields}
    return read(ProduceRecords, body, "records")


async def test_records_are_written_and_read(broker: Broker) -> None:
    command = records(
        {"key": "d", "value": "v", "headers": [{"key": "h", "value": "x"}], "timestamp_ms": 5},
        {"value_base64": "/w==", "headers": [{"key": "b", "value_base64": "/w=="}, {"key": "n"}]},
        {"key_base64": "ZA=="},
    )
    positions = (await command.perform(broker)).positions
    assert [(each.partition, each.offset) for each in positions] == [(1, 0), (0, 0), (1, 1)]
    first, second, third = (await ReadRecords("orders").perform(broker)).records
    assert (first.value, first.value_base64, first.key) == (None, "/w==", None)
    assert to_json(first.headers) == [
        {"key": "b", "value": None, "value_base64": "/w=="},
        {"key": "n", "value": None, "value_base64": None},
    ]
    assert (second.partition, second.key, second.value, second.timestamp_ms) == (1, "d", "v", 5)
    assert second.timestamp_iso == "1970-01-01T00:00:00.005Z"
    assert (third.key, third.value, third.offset) == ("d", None, 1)
    limited = await ReadRecords("orders", 1, start=1, limit=1).perform(broker)
    assert limited.records == (third,)
    pieces = [each async for each in ReadRecords("orders").json_pieces(broker)]
    assert json.loads("".join(pieces)) == to_json(await ReadRecords("orders").perform(broker))


async def test_other_tasks_run_while_many_records_are_read(broker: Broker) -> None:
    for _ in range(2):
        await produce(broker, "orders", [NewRecord(b"k", b"v", 0)] * 5_000, 0)
    assert await turns_of(ReadRecords("orders", limit=10_000).found(broker)) >= 20


async def test_a_read_waits_for_records(broker: Broker) -> None:
    waiting = asyncio.create_task(ReadRecords("orders", count=2, wait_ms=60_000).perform(broker))
    await records({"value": "a"}, partition=1).perform(broker)
    await asyncio.sleep(0)
    await records({"value": "b"}, partition=0).perform(broker)
    assert [each.value for each in (await waiting).records] == ["b", "a"]
    assert (await ReadRecords("orders", count=3, wait_ms=1, limit=3).perform(broker)).records


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"value": "v", "value_base64": "dg=="}, "takes one of value and value_base64"),
        ({"key": "k", "key_base64": "aw=="}, "takes one of key and key_base64"),
        ({"value_base64": "?"}, "value_base64 is not base64"),
        ({"value": 5}, "must be text, not 5"),
    ],
)
def test_an_invalid_record_is_rejected(row: dict[str, object], reason: str) -> None:
    with pytest.raises(JsonError, match=reason):
        records(row)
