"""ShareGroupHeartbeat and ShareGroupDescribe as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.internal_topics import SHARE_STATE_TOPIC
from kafkalite.protocol._generated.messages.share_group_describe import ShareGroupDescribeRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.share_groups import ShareGroupCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[ShareGroupCluster]:
    wire = ShareGroupCluster(tmp_path)
    yield wire
    wire.end()


def test_a_member_joins_gets_partitions_and_leaves(wire: ShareGroupCluster) -> None:
    topic_id = wire.create("t", 2)
    joined = wire.beat(topics=["t"])
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "m", 2)
    assert joined.assignment.topic_partitions == []
    assert SHARE_STATE_TOPIC in wire.cluster.metadata.image.topics
    response = wire.beat(epoch=2)
    (row,) = response.assignment.topic_partitions
    assert (response.member_epoch, row.topic_id, row.partitions) == (3, topic_id, [0, 1])
    for _ in range(3):
        steady = wire.beat(epoch=3)
        assert (steady.member_epoch, steady.assignment) == (3, None)
    assert wire.beat(epoch=-1).member_epoch == -1


def test_a_group_id_of_control_characters_is_blank(wire: ShareGroupCluster) -> None:
    refused = wire.beat(group="\0\t", topics=["t"])
    assert (refused.error_code, refused.member_id) == (ErrorCode.INVALID_REQUEST, None)
    assert refused.error_message


def test_hostile_heartbeats_do_not_change_the_group(wire: ShareGroupCluster) -> None:
    many = [f"topic-{number:06}-{'x' * 30}" for number in range(100_000)]
    refused = wire.beat(topics=many)
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    (group,) = wire.ask(ShareGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert wire.beat("m" * 30_000, topics=["t"]).error_code == ErrorCode.INVALID_REQUEST


def test_groups_are_described_each_with_its_own_error(wire: ShareGroupCluster) -> None:
    wire.create("t")
    wire.beat(topics=["t"])
    wire.beat(epoch=2)
    asked = ShareGroupDescribeRequest(
        group_ids=["g", "", "missing"], include_authorized_operations=True
    )
    found, nameless, missing = wire.ask(asked, 1).groups
    assert (found.group_state, found.group_epoch, len(found.members)) == ("Stable", 3, 1)
    assert found.authorized_operations == 0b1101_0100_1000
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert missing.error_message


def test_the_history_entries_of_one_request_are_limited(wire: ShareGroupCluster) -> None:
    many = [f"g{number}" for number in range(1_000)]
    response = wire.ask(ShareGroupDescribeRequest(group_ids=many), 1)
    assert {group.error_code for group in response.groups} == {ErrorCode.GROUP_ID_NOT_FOUND}
    assert len(wire.cluster.history.latest(10_000)) == 100


def test_only_the_coordinator_answers(tmp_path: Path) -> None:
    wire = ShareGroupCluster(tmp_path, nodes=2)
    codes = {wire.beat(topics=["t"], node=node).error_code for node in (1, 2)}
    assert codes == {ErrorCode.NONE, ErrorCode.NOT_COORDINATOR}
    wire.end()


def test_share_groups_can_be_disabled_in_a_cluster(wire: ShareGroupCluster) -> None:
    node = wire.contexts[1].node
    features = {name: level for name, level in node.image.features.items() if "share" not in name}
    node.image = node.image._replace(features=features)
    assert wire.beat(topics=["t"]).error_code == ErrorCode.UNSUPPORTED_VERSION
    (group,) = wire.ask(ShareGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert group.error_code == ErrorCode.UNSUPPORTED_VERSION
