"""Windows of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.records import NewRecordFields, ProduceRecords
from kafkalite.control.console import record_browser
from kafkalite.control.console.record_browser import partition_of, read_window
from kafkalite.control.console.source import RecordSearch
from kafkalite.control.topic_records import UnknownTopicError
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer, BatchView, build_batch
from kafkalite.storage.record_format import NewRecord
from kafkalite.storage.transaction_marker import TransactionMarker
from tests.unit.control.console.served_console import NOW_MS, ServedConsole, served_console
from tests.unit.control.group_members import TOPIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


async def produce(console: ServedConsole, *values: str, time_ms: int | None = None) -> None:
    records = tuple(NewRecordFields(each, key=f"k{each}", timestamp_ms=time_ms) for each in values)
    await ProduceRecords(TOPIC, records, 0).perform(console.broker)


async def offsets(console: ServedConsole, search: RecordSearch) -> list[int]:
    return [each.offset for each in (await read_window(console.broker, search)).records]


async def test_the_last_records_are_the_default(console: ServedConsole) -> None:
    await produce(console, *"abcdef")
    window = await read_window(console.broker, RecordSearch(TOPIC, 0, limit=4))
    assert [each.value for each in window.records] == [b"c", b"d", b"e", b"f"]
    assert window[1:] == (0, 6, 2, 6, 4)
    assert await offsets(console, RecordSearch(TOPIC, 0, 1, limit=2)) == [1, 2]
    assert await offsets(console, RecordSearch(TOPIC, 0, 99)) == []
    assert await offsets(console, RecordSearch(TOPIC, 1)) == []


async def test_records_are_found_by_key_text_and_time(console: ServedConsole) -> None:
    await produce(console, "Apple", "pear", time_ms=NOW_MS)
    await produce(console, "apple pie", time_ms=NOW_MS + 5_000)
    assert await offsets(console, RecordSearch(TOPIC, 0, text="APPLE")) == [0, 2]
    assert await offsets(console, RecordSearch(TOPIC, 0, text="kpear")) == [1]
    assert await offsets(console, RecordSearch(TOPIC, 0, key=b"kpear")) == [1]
    assert await offsets(console, RecordSearch(TOPIC, 0, key=b"pear")) == []
    assert await offsets(console, RecordSearch(TOPIC, 0, from_ms=NOW_MS + 1)) == [2]
    assert await offsets(console, RecordSearch(TOPIC, 0, from_ms=NOW_MS + 9_000)) == []


async def test_a_search_is_bounded_and_continues(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_browser, "MAX_EXAMINED", 4)
    for each in range(6):
        await produce(console, f"a{each}", f"b{each}")
    search = RecordSearch(TOPIC, 0, text="b5")
    window = await read_window(console.broker, search)
    assert (list(window.records), window.examined, window.next_offset) == ([], 4, 4)
    monkeypatch.setattr(record_browser, "MAX_EXAMINED", 100)
    assert await offsets(console, search._replace(start=window.next_offset)) == [11]
    monkeypatch.setattr(record_browser, "MAX_EXAMINED_BYTES", 1)
    assert (await read_window(console.broker, search)).examined == 2


async def test_transactions_have_their_states(console: ServedConsole) -> None:
    partition = partition_of(console.broker, TOPIC, 0)

    def append(producer_id: int, value: bytes, sequence: int = 0) -> None:
        batch = build_batch(
            [NewRecord(None, value, NOW_MS)],
            attributes=TRANSACTIONAL,
            producer=BatchProducer(producer_id, 0, sequence),
        )
        partition.append(BatchView(batch), NOW_MS, is_verified=True)

    def end(producer_id: int, *, is_commit: bool) -> None:
        partition.append_marker(TransactionMarker(producer_id, 0, 0, is_commit), NOW_MS)

    append(1, b"a")
    append(2, b"b")
    end(1, is_commit=True)
    end(2, is_commit=False)
    append(1, b"c", 1)
    append(3, b"d")
    end(3, is_commit=True)
    window = await read_window(console.broker, RecordSearch(TOPIC, 0))
    assert [each.state for each in window.records] == [
        "committed", "aborted", "commit marker", "abort marker", "open", "committed",
        "commit marker",
    ]  # fmt: skip


async def test_a_batch_that_cannot_be_decoded_is_marked(console: ServedConsole) -> None:
    await produce(console, "a")
    log = partition_of(console.broker, TOPIC, 0).log
    batch = bytearray(build_batch([NewRecord(None, b"x", NOW_MS)], base_offset=1))
    batch[-3:] = b"\x7f\x7f\x7f"
    log.append([BatchView(bytes(batch))], leader_epoch=0, now_ms=NOW_MS)
    await produce(console, "b")
    window = await read_window(console.broker, RecordSearch(TOPIC, 0, 0))
    assert [each.state for each in window.records] == ["", "unreadable", ""]


async def test_an_unknown_partition_is_named(console: ServedConsole) -> None:
    with pytest.raises(UnknownTopicError, match="there is no topic 'x'"):
        await read_window(console.broker, RecordSearch("x", 0))
    with pytest.raises(CommandError, match="has the partitions 0 to 1, but not 2"):
        await read_window(console.broker, RecordSearch(TOPIC, 2))
