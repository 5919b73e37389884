"""Differences of two captures in clients, APIs, versions, errors and fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.lab.replay.diff.captures import Change, ChangeKind, compare
from kafkalite.lab.replay.diff.usage import ClusterUsage, add_exchange
from kafkalite.protocol._generated.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from tests.unit.lab.replay.capture_builder import exchange

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange


def usage(*exchanges: Exchange) -> ClusterUsage:
    counted = ClusterUsage("built")
    for captured in exchanges:
        add_exchange(counted, captured)
    return counted


def join_group(member_id: str, timeout_ms: int = 10_000, version: int = 5) -> Exchange:
    return exchange(
        JoinGroupRequest(group_id="g", session_timeout_ms=timeout_ms, member_id=member_id),
        JoinGroupResponse(member_id=member_id, leader=member_id, protocol_name=""),
        version,
    )


def heartbeat(error: int = 0, group: str = "g") -> Exchange:
    return exchange(HeartbeatRequest(group_id=group), HeartbeatResponse(error_code=error), 4)


def commit(metadata: str) -> Exchange:
    row = OffsetCommitRequest.OffsetCommitRequestPartition(committed_metadata=metadata)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[row])
    return exchange(OffsetCommitRequest(group_id="g", topics=[topic]), OffsetCommitResponse(), 8)


def changes(before: ClusterUsage, after: ClusterUsage) -> list[tuple[Any, ...]]:
    return [
        (change.kind, change.api, change.field_or_error, change.before, change.after)
        for change in compare(before, after).changes
    ]


def test_captures_that_differ_only_in_generated_ids_are_equal() -> None:
    assert (
        changes(usage(join_group("a-1"), heartbeat()), usage(join_group("b-2"), heartbeat())) == []
    )


def test_changed_field_is_reported_once_with_its_count() -> None:
    before, after = (
        usage(join_group("a"), join_group("a")),
        usage(join_group("a", 7_000), join_group("a", 7_000)),
    )
    (change,) = compare(before, after).changes_of(ChangeKind.FIELD)
    assert change == Change(
        ChangeKind.FIELD, "JoinGroup", "app", "request.session_timeout_ms", "10000", "7000", 2
    )


def test_versions_and_apis_in_only_one_capture_are_reported() -> None:
    assert changes(usage(join_group("a"), heartbeat()), usage(join_group("a", version=9))) == [
        (ChangeKind.VERSION, "JoinGroup", "", "v5", "v9"),
        (ChangeKind.API, "Heartbeat", "", "1 requests", "0 requests"),
    ]


def test_fields_of_only_one_version_are_not_compared() -> None:
    old = exchange(OffsetCommitRequest(group_id="g", retention_time_ms=5), None, 4)
    new = exchange(OffsetCommitRequest(group_id="g"), None, 8)
    found = compare(usage(old), usage(new))
    assert found.changes_of(ChangeKind.FIELD) == []
    assert [change.after for change in found.changes_of(ChangeKind.VERSION)] == ["v8"]


def test_errors_are_counted_by_name_and_polling_requests_are_not() -> None:
    found = changes(
        usage(heartbeat(), heartbeat(27)), usage(heartbeat(27), heartbeat(27), heartbeat(27))
    )
    assert found == [
        (ChangeKind.ERROR, "Heartbeat", "REBALANCE_IN_PROGRESS", "once", "3 times"),
        (ChangeKind.FIELD, "Heartbeat", "response.error_code", "NONE", "(no other)"),
    ]


def test_values_are_compared_as_sets_if_counts_differ() -> None:
    found = changes(usage(commit("x")), usage(commit("x"), commit("y")))
    assert found == [
        (ChangeKind.COUNT, "OffsetCommit", "", "1", "2"),
        (
            ChangeKind.FIELD,
            "OffsetCommit",
            "request.topics.partitions.committed_metadata",
            "(no other)",
            "y",
        ),
    ]


@pytest.mark.parametrize("name", ["", "librdkafka"])
def test_change_of_client_software_is_reported(name: str) -> None:
    def api_versions(version: str) -> ClusterUsage:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        return usage(exchange(request, ApiVersionsResponse(), 3))

    found = compare(api_versions("1.0"), api_versions("2.0")).changes_of(ChangeKind.CLIENT)
    found_changes = [(change.client, change.before, change.after) for change in found]
    assert found_changes == ([("app", "librdkafka 1.0", "librdkafka 2.0")] if name else [])


def test_json_report_has_counts_and_changes() -> None:
    shape = compare(usage(heartbeat()), usage(heartbeat(27))).to_json()
    assert shape["before"]["requests"] == 1
    assert {change["kind"] for change in shape["changes"]} == {"error", "field"}
