"""Membership: votes, leaders and room, without a clock or a log."""

from __future__ import annotations

import pytest

from kafkalite.groups.classic.member import ClassicMember
from kafkalite.groups.classic.membership import Membership
from kafkalite.groups.classic.states import ClassicState
from kafkalite.protocol.records.group_metadata import GroupMetadataValue


def member(member_id: str, *protocols: str, instance: str | None = None) -> ClassicMember:
    return ClassicMember(
        member_id=member_id,
        group_instance_id=instance,
        client_id="client",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=1_000,
        session_timeout_ms=500,
        protocol_type="consumer",
        protocols=[(name, name.encode()) for name in protocols or ("range",)],
    )


def test_the_first_member_leads_and_another_follows_when_it_goes() -> None:
    group = Membership()
    for name in ("a", "b", "c"):
        group.add(member(name))
    assert group.leader_id == "a"
    group.remove("a")
    assert group.leader_id == "b"
    group.remove("b")
    group.remove("c")
    assert group.leader_id is None


def test_only_protocols_that_all_know_can_win() -> None:
    group = Membership()
    group.add(member("a", "sticky", "range", "own"))
    group.add(member("b", "range", "sticky"))
    group.add(member("c", "sticky", "range"))
    assert group.selected_protocol() == "sticky"
    group.remove("c")
    group.remove("a")
    group.update(group.members["b"], [("other", b"")])
    assert group.selected_protocol() == "other"
    assert group.members["b"].metadata("other") == b""
    assert group.members["b"].metadata("range") == b""


@pytest.mark.parametrize(
    ("names", "winner"),
    [
        (("range", "sticky"), "sticky"),
        (("range", "roundrobin"), "range"),
        (("cooperative-sticky", "range"), "range"),
        (tuple(f"protocol-{letter}" for letter in "abcdefghijklmno"), "protocol-b"),
    ],
)
def test_a_tie_goes_to_whom_a_java_hash_map_names_first(
    names: tuple[str, ...], winner: str
) -> None:
    group = Membership()
    for index, name in enumerate(names):
        group.add(member(str(index), name, *(other for other in names if other != name)))
    assert group.selected_protocol() == winner


def test_a_protocol_named_twice_counts_once() -> None:
    group = Membership()
    group.move_to(ClassicState.PREPARING_REBALANCE, 0)
    group.add(member("a", "range", "range"))
    assert group.selected_protocol() == "range"
    assert group.supports("consumer", ["range"])
    group.update(group.members["a"], [("sticky", b""), ("sticky", b"")])
    assert not group.supports("consumer", ["range"])
    group.remove("a")
    group.add(member("b", "range"))
    assert group.selected_protocol() == "range"


def test_an_empty_group_only_asks_that_there_are_protocols() -> None:
    group = Membership()
    assert group.supports("anything", ["one"])
    assert not group.supports("", ["one"])
    assert not group.supports("anything", [])


def test_a_new_id_of_a_static_member_keeps_its_place() -> None:
    group = Membership()
    group.add(member("old", instance="one"))
    group.members["old"].assignment = b"mine"
    group.pending_syncs.add("old")
    group.replace_static("old", "new")
    assert group.static_members == {"one": "new"}
    assert group.leader_id == "new"
    assert group.members["new"].assignment == b"mine"
    assert group.pending_syncs == {"old"}, "Kafka goes on to wait for it"


@pytest.mark.parametrize("state", [ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE])
def test_no_state_is_reached_by_a_way_there_is_not(state: ClassicState) -> None:
    with pytest.raises(RuntimeError, match="went from"):
        Membership().move_to(state, 0)


def test_records_of_old_brokers_lack_a_rebalance_timeout_and_a_time() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="a",
        current_state_timestamp=-1,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id="a", rebalance_timeout=-1, session_timeout=700, subscription=b"s"
            )
        ],
    )
    group = Membership.from_record(value)
    assert group.state is ClassicState.STABLE
    assert group.rebalance_timeout_ms() == 700
    assert group.state_timestamp_ms is None
    assert group.to_record({"a": b"x"}).current_state_timestamp == -1
