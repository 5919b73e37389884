"""In what two captures differ: clients, APIs, versions, errors, fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkalite.replay.differing import Change, Kind, compared
from kafkalite.replay.sides import Side, add
from tests.unit.replay.made import exchange

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange


def side(*exchanges: Exchange) -> Side:
    made = Side("made")
    for each in exchanges:
        add(made, each)
    return made


def joins(member_id: str, timeout_ms: int = 10_000, version: int = 5) -> Exchange:
    return exchange(
        JoinGroupRequest(group_id="g", session_timeout_ms=timeout_ms, member_id=member_id),
        JoinGroupResponse(member_id=member_id, leader=member_id, protocol_name=""),
        version,
    )


def beats(error: int = 0, group: str = "g") -> Exchange:
    return exchange(HeartbeatRequest(group_id=group), HeartbeatResponse(error_code=error), 4)


def commits(metadata: str) -> Exchange:
    row = OffsetCommitRequest.OffsetCommitRequestPartition(committed_metadata=metadata)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[row])
    return exchange(OffsetCommitRequest(group_id="g", topics=[topic]), OffsetCommitResponse(), 8)


def changes(before: Side, after: Side) -> list[tuple[Any, ...]]:
    return [
        (change.kind, change.api, change.what, change.before, change.after)
        for change in compared(before, after).changes
    ]


def test_equal_captures_do_not_differ_and_ids_of_a_run_are_no_difference() -> None:
    assert changes(side(joins("a-1"), beats()), side(joins("b-2"), beats())) == []


def test_a_field_that_changed_is_told_once_with_how_often() -> None:
    before, after = side(joins("a"), joins("a")), side(joins("a", 7_000), joins("a", 7_000))
    (change,) = compared(before, after).of(Kind.FIELD)
    assert change == Change(
        Kind.FIELD, "JoinGroup", "app", "request.session_timeout_ms", "10000", "7000", 2
    )


def test_versions_and_apis_in_one_alone_are_told() -> None:
    assert changes(side(joins("a"), beats()), side(joins("a", version=9))) == [
        (Kind.VERSION, "JoinGroup", "", "v5", "v9"),
        (Kind.API, "Heartbeat", "", "1 requests", "0 requests"),
    ]


def test_fields_of_one_version_alone_are_not_compared() -> None:
    old = exchange(OffsetCommitRequest(group_id="g", retention_time_ms=5), None, 4)
    new = exchange(OffsetCommitRequest(group_id="g"), None, 8)
    found = compared(side(old), side(new))
    assert found.of(Kind.FIELD) == []
    assert [change.after for change in found.of(Kind.VERSION)] == ["v8"]


def test_errors_are_counted_by_name_and_polls_are_not_counted() -> None:
    found = changes(side(beats(), beats(27)), side(beats(27), beats(27), beats(27)))
    assert found == [
        (Kind.ERROR, "Heartbeat", "REBALANCE_IN_PROGRESS", "once", "3 times"),
        (Kind.FIELD, "Heartbeat", "response.error_code", "NONE", "(no other)"),
    ]


def test_where_numbers_differ_values_are_compared_as_sets() -> None:
    found = changes(side(commits("x")), side(commits("x"), commits("y")))
    assert found == [
        (Kind.COUNT, "OffsetCommit", "", "1", "2"),
        (
            Kind.FIELD,
            "OffsetCommit",
            "request.topics.partitions.committed_metadata",
            "(no other)",
            "y",
        ),
    ]


@pytest.mark.parametrize("name", ["", "librdkafka"])
def test_clients_are_told_by_what_they_call_themselves(name: str) -> None:
    def hello(version: str) -> Side:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        return side(exchange(request, ApiVersionsResponse(), 3))

    found = compared(hello("1.0"), hello("2.0")).of(Kind.CLIENT)
    told = [(change.client, change.before, change.after) for change in found]
    assert told == ([("app", "librdkafka 1.0", "librdkafka 2.0")] if name else [])


def test_a_report_is_json_as_well() -> None:
    shape = compared(side(beats()), side(beats(27))).to_json()
    assert shape["before"]["requests"] == 1
    assert {change["kind"] for change in shape["changes"]} == {"error", "field"}
