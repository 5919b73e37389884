"""Records of coordinators' logs as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.console.coordinator_values import decoded_records, log_of_key
from kafkalite.control.console.source import BrowsedRecord, RecordSearch
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from tests.unit.control.console.served_console import ServedConsole, served_console

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


def browsed(key: bytes | None, value: bytes | None) -> BrowsedRecord:
    return BrowsedRecord(0, 0, key, value, (), -1, -1, 0, "", 0)


async def test_a_commit_is_shown_with_its_fields(console: ServedConsole) -> None:
    await console.members.commit("shop", 5)
    log = await log_of_key(console.source, OFFSETS_TOPIC, "shop")
    assert log == {"log_topic": OFFSETS_TOPIC, "log_partition": 0}
    window = await console.source.records(RecordSearch(OFFSETS_TOPIC, 0))
    record = window.records[-1]
    found = decoded_records(OFFSETS_TOPIC, window.records)
    assert json.loads(found[record.key].text)["group"] == "shop"
    assert json.loads(found[record.value].text)["offset"] == 5
    assert found[record.value].about.startswith("OffsetCommit, version ")
    assert decoded_records("orders", window.records) == {}
    text = await console.get("/records", topic=OFFSETS_TOPIC, partition=0)
    assert "&#34;offset&#34;: 5" in text


async def test_a_state_of_a_transaction_is_shown(console: ServedConsole) -> None:
    before = await log_of_key(console.source, TRANSACTION_STATE_TOPIC, "pay")
    assert before["log_partition"] is None
    await console.begin_transaction("pay")
    partition = (await log_of_key(console.source, TRANSACTION_STATE_TOPIC, "pay"))["log_partition"]
    assert isinstance(partition, int)
    window = await console.source.records(RecordSearch(TRANSACTION_STATE_TOPIC, partition))
    found = decoded_records(TRANSACTION_STATE_TOPIC, window.records)
    assert "pay" in found[window.records[-1].key].text
    assert "transactionTimeoutMs" in found[window.records[-1].value].text


def test_other_bytes_remain_bytes() -> None:
    commit = b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"
    assert decoded_records(OFFSETS_TOPIC, [browsed(b"\x00\x63x", None)]) == {}
    assert decoded_records(OFFSETS_TOPIC, [browsed(b"", b"x"), browsed(None, b"x")]) == {}
    assert commit in decoded_records(OFFSETS_TOPIC, [browsed(commit, None)])
    for value in (b"", b"\x00\x63", b"\x00\x01\x00"):
        assert value not in decoded_records(OFFSETS_TOPIC, [browsed(commit, value)])
