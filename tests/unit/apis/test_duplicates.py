"""Repeated entities in one request are answered a few times, and then refused.

A response can be ten thousand times as large as its request: a group with thousands of members is
named in a few bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.duplicates import MAX_DUPLICATES, DuplicateLimit, without_duplicates
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.groups import GroupCluster
from tests.cluster.share_groups import ShareGroupCluster

if TYPE_CHECKING:
    from pathlib import Path

TOO_MANY = MAX_DUPLICATES + 3
ANSWERED = MAX_DUPLICATES + 1
REFUSED = ErrorCode.INVALID_REQUEST


def test_duplicates_of_all_entities_are_counted() -> None:
    duplicate_limit = DuplicateLimit()
    assert all(duplicate_limit.allows(name) for name in range(1_000))
    assert all(duplicate_limit.allows(name) for name in range(MAX_DUPLICATES))
    assert not duplicate_limit.allows(0)
    with pytest.raises(KafkaError) as refused:
        duplicate_limit.check(1)
    assert refused.value.code is REFUSED
    duplicate_limit.check("new")


def test_duplicates_are_skipped() -> None:
    names = [f"group-{number % 500}" for number in range(2_000)]
    assert list(without_duplicates(names)) == names[:500]
    assert not list(without_duplicates([]))


def test_duplicates_of_one_group_are_limited(tmp_path: Path) -> None:
    wire = ShareGroupCluster(tmp_path)
    answer = wire.ask(ConsumerGroupDescribeRequest(group_ids=["no"] * TOO_MANY), 1)
    codes = [group.error_code for group in answer.groups]
    missing = ErrorCode.GROUP_ID_NOT_FOUND
    assert codes == [missing] * ANSWERED + [REFUSED] * (TOO_MANY - ANSWERED)


def test_repeated_offsets_of_one_share_group_are_limited(tmp_path: Path) -> None:
    wire = ShareGroupCluster(tmp_path)
    group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    asked = [group(group_id="g", topics=None) for _ in range(TOO_MANY)]
    answer = wire.ask(DescribeShareGroupOffsetsRequest(groups=asked), 1)
    codes = [group.error_code for group in answer.groups]
    assert codes == [ErrorCode.NONE] * ANSWERED + [REFUSED] * (TOO_MANY - ANSWERED)


class GroupWithOffset:
    """A group with an offset that has metadata."""

    def __init__(self) -> None:
        self.wire = GroupCluster()
        self.wire.ask(FindCoordinatorRequest(key="g"), 3)
        self.wire.create("t", 2)
        row = OffsetCommitRequest.OffsetCommitRequestPartition
        rows = [
            row(partition_index=0, committed_offset=5, committed_metadata="a word"),
            row(partition_index=1, committed_offset=6, committed_metadata=""),
        ]
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=rows)
        self.wire.ask(OffsetCommitRequest(group_id="g", topics=[topic]), 9)

    def fetch(self, *groups: OffsetFetchRequest.OffsetFetchRequestGroup) -> list[list[int]]:
        """Return the errors of each group, its own first."""
        answer = self.wire.ask(OffsetFetchRequest(groups=list(groups)), 9)
        return [
            [group.error_code, *(p.error_code for t in group.topics for p in t.partitions)]
            for group in answer.groups
        ]


def test_duplicates_of_all_offsets_of_one_group_are_limited() -> None:
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)
    codes = GroupWithOffset().fetch(*[asked] * TOO_MANY)
    assert codes == [[0, 0, 0]] * ANSWERED + [[REFUSED]] * (TOO_MANY - ANSWERED)


def test_duplicates_of_an_offset_with_metadata_are_limited() -> None:
    topic = OffsetFetchRequest.OffsetFetchRequestTopics
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id="g",
        topics=[topic(name="t", partition_indexes=[each]) for each in [0, 1] * TOO_MANY],
    )
    ((_, *codes),) = GroupWithOffset().fetch(asked)
    assert codes[0::2] == [0] * ANSWERED + [REFUSED] * (TOO_MANY - ANSWERED)
    assert codes[1::2] == [0] * TOO_MANY


def test_duplicates_of_one_classic_group_are_limited() -> None:
    wire = GroupWithOffset().wire
    answer = wire.ask(DescribeGroupsRequest(groups=["g"] * TOO_MANY), 6)
    codes = [group.error_code for group in answer.groups]
    assert codes == [0] * ANSWERED + [REFUSED] * (TOO_MANY - ANSWERED)
