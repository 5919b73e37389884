"""ShareGroupHeartbeat and ShareGroupDescribe, from bytes to bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.internal_topics import SHARE_STATE_TOPIC
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tests.unit.apis.share_group_wire import ShareGroupWire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[ShareGroupWire]:
    wire = ShareGroupWire(tmp_path)
    yield wire
    wire.end()


def test_a_member_comes_is_given_partitions_and_goes(wire: ShareGroupWire) -> None:
    topic_id = wire.create("t", 2)
    joined = wire.beat(topics=["t"])
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "m", 2)
    assert joined.assignment.topic_partitions == []
    assert SHARE_STATE_TOPIC in wire.cluster.metadata.image.topics
    told = wire.beat(epoch=2)
    (row,) = told.assignment.topic_partitions
    assert (told.member_epoch, row.topic_id, row.partitions) == (3, topic_id, [0, 1])
    for _ in range(3):
        steady = wire.beat(epoch=3)
        assert (steady.member_epoch, steady.assignment) == (3, None)
    assert wire.beat(epoch=-1).member_epoch == -1


def test_heartbeats_are_refused_with_an_error_and_nothing_else(wire: ShareGroupWire) -> None:
    wire.create("t")
    for sent, told in (
        ({"member": ""}, False),
        ({"member": "m" * 37}, False),
        ({"member": " "}, True),
        ({"group": ""}, True),
        ({"rack": " "}, True),
        ({"epoch": 0, "topics": None}, True),
        ({"epoch": 0, "topics": []}, True),
        ({"epoch": -2}, True),
    ):
        fields = {"topics": ["t"], **sent}
        refused = wire.beat(**fields)  # type: ignore[arg-type]
        assert refused.error_code == ErrorCode.INVALID_REQUEST, sent
        assert (refused.error_message is not None) == told, sent
        assert (refused.member_id, refused.assignment) == (None, None)
    assert wire.beat(epoch=1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert wire.beat("m" * 36, topics=["t"]).error_code == ErrorCode.NONE


def test_hostile_heartbeats_leave_the_group_as_it_was(wire: ShareGroupWire) -> None:
    many = [f"topic-{number:06}-{'x' * 30}" for number in range(100_000)]
    refused = wire.beat(topics=many)
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    (group,) = wire.ask(ShareGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert wire.beat("m" * 30_000, topics=["t"]).error_code == ErrorCode.INVALID_REQUEST


def test_groups_are_described_each_with_its_own_error(wire: ShareGroupWire) -> None:
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


def test_so_many_groups_leave_no_more_than_so_many_notes(wire: ShareGroupWire) -> None:
    many = [f"g{number}" for number in range(1_000)]
    told = wire.ask(ShareGroupDescribeRequest(group_ids=many), 1)
    assert {group.error_code for group in told.groups} == {ErrorCode.GROUP_ID_NOT_FOUND}
    assert len(wire.cluster.journal.latest(10_000)) == 100


def test_only_the_coordinator_answers(tmp_path: Path) -> None:
    wire = ShareGroupWire(tmp_path, nodes=2)
    codes = {wire.beat(topics=["t"], node=node).error_code for node in (1, 2)}
    assert codes == {ErrorCode.NONE, ErrorCode.NOT_COORDINATOR}
    wire.end()


def test_a_cluster_can_have_given_up_share_groups(wire: ShareGroupWire) -> None:
    metadata = wire.cluster.metadata
    features = {
        name: level for name, level in metadata.image.features.items() if "share" not in name
    }
    context = wire.contexts[1]
    context.services.metadata = _WithoutShares(features)  # type: ignore[assignment]
    assert wire.beat(topics=["t"]).error_code == ErrorCode.UNSUPPORTED_VERSION
    (group,) = wire.ask(ShareGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert group.error_code == ErrorCode.UNSUPPORTED_VERSION


class _WithoutShares:
    """Metadata of a cluster with other features."""

    def __init__(self, features: dict[str, int]) -> None:
        self.features = features

    @property
    def image(self) -> _WithoutShares:
        return self
