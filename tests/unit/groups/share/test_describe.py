"""Descriptions of share groups, and their interface to offsets and deletion."""

from __future__ import annotations

from kafkalite.groups.group import CommitClaim, GroupType
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.groups.consumer.stage import G, refusal, topic_id
from tests.unit.groups.share.stage import ShareStage


def test_a_group_is_described_with_its_members() -> None:
    stage = ShareStage({"T": 1, "U": 1})
    stage.join("a", ["U", "T"], rack_id="r")
    stage.carry_out()
    stage.advance(1_001)
    stage.beat("a", 2)
    stage.directory.image = stage.directory.image._replace(
        topics_by_id={
            each: topic
            for each, topic in stage.directory.image.topics_by_id.items()
            if topic.name != "U"
        }
    )
    description = stage.groups.describe(G)
    assert (description.group_state, description.group_epoch, description.assignment_epoch) == (
        "Stable",
        3,
        3,
    )
    assert (description.assignor_name, description.error_code) == ("simple", 0)
    (member,) = description.members
    assert (member.member_id, member.member_epoch, member.rack_id) == ("a", 3, "r")
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert member.subscribed_topic_names == ["T", "U"]
    (part,) = member.assignment.topic_partitions
    assert (part.topic_id, part.topic_name, part.partitions) == (topic_id("T"), "T", [0])


def test_a_share_group_has_no_offsets() -> None:
    stage = ShareStage()
    stage.join("a")
    group = stage.group
    claim = CommitClaim(member_id="a", group_instance_id=None, generation_id_or_member_epoch=2)
    assert refusal(lambda: group.validate_offset_commit(claim)) is ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal(group.validate_offset_delete) is ErrorCode.GROUP_ID_NOT_FOUND
    group.validate_offset_fetch("a", 2)
    group.extend_session(claim, 0)
    group.offset_expiry()
    assert (group.group_type, group.protocol_type) == (GroupType.SHARE, "share")
    assert group.is_subscribed_to("T")
    assert not group.is_subscribed_to("U")
