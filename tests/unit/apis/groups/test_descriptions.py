"""Descriptions of several groups: individual results, and a limit of reported refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.authorized_operations import GROUP_OPERATIONS
from kafkalite.gateway.refusals import MAX_REPORTED
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.share_group_describe import ShareGroupDescribeRequest
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.share_groups import ShareGroupCluster

if TYPE_CHECKING:
    from pathlib import Path

DESCRIBE = {
    "consumer": (ConsumerGroupDescribeRequest, 1),
    "share": (ShareGroupDescribeRequest, 1),
    "streams": (StreamsGroupDescribeRequest, 0),
}


@pytest.fixture
def wire(tmp_path: Path) -> ShareGroupCluster:
    return ShareGroupCluster(tmp_path)


@pytest.mark.parametrize("kind", DESCRIBE)
def test_refusals_of_one_request_are_reported_up_to_a_limit(
    wire: ShareGroupCluster, kind: str
) -> None:
    request, version = DESCRIBE[kind]
    names = [f"no-{index}" for index in range(MAX_REPORTED + 1)]
    answer = wire.ask(request(group_ids=["", *names]), version)
    codes = [group.error_code for group in answer.groups]
    assert codes == [ErrorCode.INVALID_GROUP_ID] + [ErrorCode.GROUP_ID_NOT_FOUND] * len(names)
    noted = [name for name in ("", *names) if wire.cluster.history.about(name)]
    assert noted == ["", *names[: MAX_REPORTED - 1]]


@pytest.mark.parametrize("is_asked", [True, False])
def test_authorized_operations_are_returned_for_existing_groups_only(
    wire: ShareGroupCluster, *, is_asked: bool
) -> None:
    wire.create("t")
    wire.beat("a", 0, ["t"])
    request = ShareGroupDescribeRequest(
        group_ids=["g", "no"], include_authorized_operations=is_asked
    )
    here, gone = wire.ask(request, 1).groups
    assert here.authorized_operations == (GROUP_OPERATIONS if is_asked else -(2**31))
    assert gone.authorized_operations == -(2**31)
