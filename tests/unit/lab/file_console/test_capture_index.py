"""The index of captures: the exchanges as other readers find them, names, filters and limits."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from kafkalite.capture.reading.captures import exchanges, ignore, read
from kafkalite.capture.reading.problems import Problems
from kafkalite.control.request_filter import RequestFilter
from kafkalite.lab.file_console import capture_index
from kafkalite.lab.file_console.capture_index import CaptureIndex, read_index
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from tests.captures.member_lives import CAPTURE
from tests.unit.lab.file_console.conftest import TRANSACTIONS

GROUP = "consumer-killed"


def test_the_exchanges_are_those_of_the_capture(member_lives: CaptureIndex) -> None:
    expected = list(exchanges(read([CAPTURE], ignore)))
    assert len(member_lives) == len(expected)
    assert [member_lives.exchange(each + 1) for each in range(len(expected))] == expected
    assert member_lives.size_bytes == sum(
        len(each.request) + len(each.response or b"") for each in expected
    )
    for number in (0, len(expected) + 1):
        with pytest.raises(LookupError):
            member_lives.exchange(number)


def test_times_that_are_no_dates_are_limited(member_lives: CaptureIndex) -> None:
    with closing(CaptureIndex()) as index:
        for number in range(1, len(member_lives) + 1):
            exchange = member_lives.exchange(number)
            index.add(replace(exchange, sent_ns=2**70, answered_ns=-(2**70)))
        index.end()
        found = index.exchange(1)
        assert GROUP in index.groups
    assert (found.sent_ns, found.answered_ns) == (2**63 - 1, -(2**63 - 1))


def test_filters_select_by_api_names_errors_and_clients(member_lives: CaptureIndex) -> None:
    def count(**conditions: object) -> int:
        is_selected = member_lives.matching(RequestFilter(**conditions))  # type: ignore[arg-type]
        return sum(is_selected(each + 1) for each in range(len(member_lives)))

    assert count() == len(member_lives)
    of_group = count(group=GROUP)
    assert 0 < of_group < len(member_lives)
    heartbeats = count(group=GROUP, api=ApiKey.CONSUMER_GROUP_HEARTBEAT)
    assert 0 < heartbeats <= of_group
    assert 0 < count(group=GROUP, client_id="consumer-killed-a") < of_group
    assert count(group="none") == count(client_id="none") == count(node=99) == 0
    fenced = count(error=ErrorCode.FENCED_INSTANCE_ID)
    assert fenced == member_lives.error_counts[ErrorCode.FENCED_INSTANCE_ID] > 0
    assert count(topic="orders") > 0


def test_names_beyond_the_limit_are_decoded(
    transactions: CaptureIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_index, "MAX_NAMES", 2)
    monkeypatch.setattr(capture_index, "MAX_GROUPS", 3)
    few = read_index([str(TRANSACTIONS)], Problems())
    assert len(few.groups) == 3
    numbers = range(1, len(few) + 1)
    for selected in (
        RequestFilter(api=ApiKey.END_TXN),
        RequestFilter(error=ErrorCode.NOT_COORDINATOR),
    ):
        found = [list(filter(each.matching(selected), numbers)) for each in (few, transactions)]
        assert found[0] == found[1]
    assert [few.names(each) for each in numbers] == [transactions.names(each) for each in numbers]
    few.close()


def test_topics_have_their_names_although_requests_have_ids(member_lives: CaptureIndex) -> None:
    is_fetch = member_lives.matching(RequestFilter(api=ApiKey.FETCH, topic="orders"))
    fetch = next(each for each in range(1, len(member_lives)) if is_fetch(each))
    assert member_lives.observation(fetch).request.topics[0].topic_id in member_lives.topic_names
    assert member_lives.names(fetch).topics == ("orders",)


def test_progress_names_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_index, "PROGRESS_STEP", 200)
    steps: list[tuple[int, str, int]] = []
    index = read_index([str(TRANSACTIONS)], Problems(), progress=lambda *step: steps.append(step))
    assert [each[0] for each in steps] == list(range(200, len(index) + 1, 200))
    assert {each[1] for each in steps} == {str(TRANSACTIONS)}
    index.close()
