"""Time lines of the groups in a capture of real members."""

from __future__ import annotations

import re

from kafkalite.control.commands.explain import lines_of
from kafkalite.lab.checker.groups.requests import GroupRequests
from kafkalite.lab.checker.groups.timeline import timeline

_TIME_AND_IDS = re.compile(r"^\S+ +|@127\.0\.0\.1 \([^)]*\)")


def lines(requests: GroupRequests, group: str) -> list[str]:
    """Return the lines of a group without times, and with the client ids of members."""
    found = lines_of(timeline(requests, group), has_subjects=False)
    return [re.sub(r" {2,}", " ", _TIME_AND_IDS.sub("", line)) for line in found]


def test_a_classic_group_rebalances_when_a_member_joins(member_lives: GroupRequests) -> None:
    given = "need to re-join with the given member-id"
    assert lines(member_lives, "classic-works") == [
        f"joined: member classic-works-a joined group classic-works: {given}: classic-works-a",
        (
            f"rebalance: group classic-works rebalances: classic-works-a joined: {given}: "
            "classic-works-a"
        ),
        (
            "generation: generation 1 of group classic-works begins with 1 member, led by "
            "classic-works-a, protocol range"
        ),
        (
            "assigned: generation 1 of group classic-works has its assignment: classic-works-a: "
            "orders-0, orders-1, orders-2, orders-3"
        ),
        (
            "committed: member classic-works-a committed orders-0 at 0, orders-1 at 0, "
            "orders-2 at 0, "
            "orders-3 at 0 at generation 1, in 5 commits"
        ),
        f"joined: member classic-works-b joined group classic-works: {given}: classic-works-b",
        (
            "rebalance: group classic-works leaves generation 1 and rebalances: classic-works-b "
            f"joined: {given}: classic-works-b"
        ),
        (
            "generation: generation 2 of group classic-works begins with 2 members, led by "
            "classic-works-a, protocol range"
        ),
        (
            "assigned: generation 2 of group classic-works has its assignment: classic-works-a: "
            "orders-0, orders-1; classic-works-b: orders-2, orders-3"
        ),
        "committed: member classic-works-b committed orders-2 at 0, orders-3 at 0 at generation 2",
        "left: member classic-works-b left group classic-works: the consumer is being closed",
        "committed: member classic-works-a committed orders-0 at 0, orders-1 at 0 at generation 2",
        "left: member classic-works-a left group classic-works: the consumer is being closed",
    ]


def test_a_fenced_static_member_is_named(member_lives: GroupRequests) -> None:
    found = lines(member_lives, "fenced")
    assert "fenced: Heartbeat of fenced-a at generation 1 refused: FENCED_INSTANCE_ID" in found
    assert found[1] == "rebalance: group fenced rebalances: fenced-a joined"


def test_a_killed_member_of_a_consumer_group_expires(member_lives: GroupRequests) -> None:
    found = lines(member_lives, "consumer-killed")
    expired = next(line for line in found if line.startswith("expired: "))
    silence = re.search(r"sent no heartbeat for \d+ ms", expired)
    assert silence is not None
    assert f"rebalance: group epoch 3 → 4: member consumer-killed-b {silence[0]}" in found
    assert found[-1] == "left: member consumer-killed-a removed: it left"


def test_members_of_share_groups_have_entries(member_lives: GroupRequests) -> None:
    found = lines(member_lives, "shared")
    assert "rebalance: group epoch 4 → 5: member shared-c joined" in found
    assert (
        "assigned: member shared-b has orders-0, orders-1, orders-2, orders-3 at epoch 7" in found
    )


def test_an_unknown_group_has_no_entries(member_lives: GroupRequests) -> None:
    assert "classic-works" in member_lives.groups
    assert timeline(member_lives, "unknown") == []
    assert GroupRequests().groups == []
