"""Admission to modern groups, and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.member import CurrentAssignment, MemberMetadata
from kafkalite.groups.directory import GroupDirectory
from kafkalite.groups.group import GroupType
from kafkalite.groups.modern.admission import (
    check_epoch,
    check_fetch_epoch,
    find_group,
    find_group_of_heartbeat,
    find_member,
    group_full_error,
)
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.metadata.image import MetadataImage
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.group import Group

KINDS = (ConsumerGroup, ShareGroup, StreamsGroup)
CURRENT = CurrentAssignment(member_epoch=5, previous_member_epoch=3)


def directory_of(groups: dict[str, Group]) -> GroupDirectory:
    config = BrokerConfig.from_text({})
    directory = GroupDirectory(config=config, entropy=SeededEntropy(1), image=MetadataImage())
    directory.groups.update(groups)
    return directory


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_is_found_by_its_type(
    kind: type[ConsumerGroup | ShareGroup | StreamsGroup],
) -> None:
    own, other = kind("own"), ClassicGroup("other")
    groups: dict[str, Group] = {"own": own, "other": other}
    directory = directory_of(groups)
    assert find_group(groups, "own", kind) is own
    assert find_group_of_heartbeat(directory, "own", kind) is own
    name = kind.group_type.value
    with pytest.raises(KafkaError, match=f"is not a {name} group") as wrong:
        find_group_of_heartbeat(directory, "other", kind)
    assert wrong.value.facts == {"rule": "group-type", "group_type": "classic"}
    with pytest.raises(KafkaError, match="Group none not found") as missing:
        find_group(groups, "none", kind)
    assert missing.value.facts == {"rule": "group-exists"}
    with pytest.raises(KafkaError, match=f"{name.capitalize()} group none not found"):
        find_group_of_heartbeat(directory, "none", kind)


def test_members_of_a_group_that_was_reset_are_unknown_until_it_exists_again() -> None:
    directory = directory_of({})
    for number in range(10_002):
        directory.record_reset(f"g{number}")
    assert len(directory.reset_groups) == 10_000
    with pytest.raises(KafkaError, match="group g2 were removed: the broker was reset") as removed:
        find_group_of_heartbeat(directory, "g2", ShareGroup)
    assert removed.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaError, match="group g1 not found"):
        find_group_of_heartbeat(directory, "g1", ShareGroup)
    directory.groups["g2"] = created = ShareGroup("g2")
    assert find_group_of_heartbeat(directory, "g2", ShareGroup) is created


@pytest.mark.parametrize("kind", GroupType)
@pytest.mark.parametrize(
    ("received", "owns_no_more", "admitted"),
    [(5, False, True), (3, True, True), (3, False, False), (4, True, False), (6, True, False)],
)
def test_only_the_last_two_epochs_are_admitted(
    kind: GroupType, received: int, *, owns_no_more: bool, admitted: bool
) -> None:
    if kind is GroupType.CLASSIC:
        return
    if admitted:
        check_epoch(kind, "m", received, CURRENT, lambda: owns_no_more)
        return
    with pytest.raises(KafkaError) as refused:
        check_epoch(kind, "m", received, CURRENT, lambda: owns_no_more)
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert refused.value.facts == {
        "rule": "member-epoch",
        "member_id": "m",
        "received_epoch": received,
        "member_epoch": 5,
        "previous_member_epoch": 3,
    }
    assert ("greater" if received > 5 else "smaller") in str(refused.value)


def test_an_unknown_member_is_refused() -> None:
    group = ConsumerGroup("g")
    group.replay_member_metadata("m", MemberMetadata(client_id="c"))
    assert find_member(group, "m").client_id == "c"
    with pytest.raises(KafkaError) as refused:
        find_member(group, "x")
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.value.facts == {"rule": "known-member", "member_id": "x", "group_epoch": 1}


def test_offset_fetch_at_another_epoch_is_refused() -> None:
    group = ConsumerGroup("g")
    group.replay_current("m", CURRENT)
    check_fetch_epoch(group, "m", 5)
    with pytest.raises(KafkaError) as refused:
        check_fetch_epoch(group, "m", 3)
    assert refused.value.code is ErrorCode.STALE_MEMBER_EPOCH
    assert (refused.value.facts or {})["received_epoch"] == 3


def test_the_error_of_a_full_group_has_the_maximum_size() -> None:
    refused = group_full_error(StreamsGroup("g"), "m", 2)
    assert refused.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.message == "The streams group has reached its maximum capacity of 2 members."
