"""The text of a group, for failed assertions."""

from __future__ import annotations

from kafkalite.control.group_status import GroupMember, GroupStatus, TopicPartitions, dead_group


def test_the_text_of_a_group_has_a_limited_length() -> None:
    assigned = (TopicPartitions("t", tuple(range(100))),)
    members = tuple(
        GroupMember(f"m{number}", None, "", "/10.0.0.1", "consumer", 1, (), assigned)
        for number in range(1_000)
    )
    text = repr(GroupStatus("g", "consumer", "consumer", "uniform", "Stable", 1, 1, 1, members, ()))
    assert text.endswith("(and 990 more), offsets: none>")
    assert "<member m0 at 10.0.0.1: t-0,1,2,3,4,5,6,7,8,9,(and 90 more)>" in text
    assert len(text) < 1_000


def test_a_dead_group_has_nothing() -> None:
    assert repr(dead_group("g")) == (
        "<unknown group 'g' Dead at epoch 0, members: none, offsets: none>"
    )
