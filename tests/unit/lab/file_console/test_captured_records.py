"""Records in captured requests and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.control.request_filter import RequestFilter
from kafkalite.lab.file_console import captured_records
from kafkalite.lab.file_console.captured_records import records_in
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    import pytest

    from kafkalite.lab.file_console.capture_index import CaptureIndex
    from kafkalite.lab.file_console.captured_records import CapturedRecord


def records_of(index: CaptureIndex, api: ApiKey) -> list[CapturedRecord]:
    """Return the records of all exchanges of an API."""
    is_selected = index.matching(RequestFilter(api=api))
    return [
        record
        for number in range(1, len(index) + 1)
        if is_selected(number)
        for record in records_in(index.observation(number), index.topic_names)[0]
    ]


def test_what_is_read_was_written(transactions: CaptureIndex) -> None:
    written = records_of(transactions, ApiKey.PRODUCE)
    assert written
    assert {each.value.format for each in written} >= {"text"}
    places = {(each.topic, each.partition, each.offset): each.value.text for each in written}
    read = records_of(transactions, ApiKey.FETCH)
    common = [each for each in read if (each.topic, each.partition, each.offset) in places]
    assert common
    assert all(
        places[each.topic, each.partition, each.offset] == each.value.text for each in common
    )


def test_the_first_records_are_shown(
    transactions: CaptureIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captured_records, "MAX_RECORDS", 0)
    is_selected = transactions.matching(RequestFilter(api=ApiKey.PRODUCE))
    found = [
        records_in(transactions.observation(each), {})
        for each in range(1, len(transactions) + 1)
        if is_selected(each)
    ]
    assert ([], True) in found
