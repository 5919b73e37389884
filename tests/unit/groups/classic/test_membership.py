"""Membership: selection of protocols, leaders and sizes, without a clock or a log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.groups.classic.member import ClassicMember
from kafkalite.groups.classic.membership import ClassicState, Membership, subscribed_topics
from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from kafkalite.protocol._generated.records.group_metadata import GroupMetadataValue


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


def test_the_first_member_is_leader_until_it_is_removed() -> None:
    group = Membership()
    for name in ("a", "b", "c"):
        group.add(member(name))
    assert group.leader_id == "a"
    group.remove("a")
    assert group.leader_id == "b"
    group.remove("b")
    group.remove("c")
    assert group.leader_id is None


def test_only_protocols_supported_by_all_members_can_be_selected() -> None:
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
def test_a_tie_is_broken_by_the_order_of_a_java_hash_map(
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
    assert group.supports_any_of("consumer", ["range"])
    group.update(group.members["a"], [("sticky", b""), ("sticky", b"")])
    assert not group.supports_any_of("consumer", ["range"])
    group.remove("a")
    group.add(member("b", "range"))
    assert group.selected_protocol() == "range"


def test_an_empty_group_accepts_any_non_empty_protocols() -> None:
    group = Membership()
    assert group.supports_any_of("anything", ["one"])
    assert not group.supports_any_of("", ["one"])
    assert not group.supports_any_of("anything", [])


def test_a_static_member_with_a_new_id_retains_its_role() -> None:
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
def test_an_invalid_state_change_is_refused(state: ClassicState) -> None:
    with pytest.raises(RuntimeError, match="went from"):
        Membership().move_to(state, 0)


def test_records_of_early_brokers_have_no_rebalance_timeout_and_no_timestamp() -> None:
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


@given(st.integers(0, 3), st.lists(st.text(max_size=5), max_size=3), st.binary(max_size=4))
def test_topics_are_parsed_from_every_version(version: int, topics: list[str], data: bytes) -> None:
    subscription = ConsumerProtocolSubscription(
        topics=topics, user_data=data, owned_partitions=[], generation_id=7, rack_id="r"
    )
    assert subscribed_topics(codec.encode_value(subscription, version)) == set(topics)


def test_a_newer_version_is_parsed_like_the_known_ones() -> None:
    known = codec.encode_value(ConsumerProtocolSubscription(topics=["t"]), 0)
    assert subscribed_topics(b"\0\x09" + known[2:] + b"more") == {"t"}


def test_a_negative_version_is_accepted() -> None:
    """As in Kafka, the version number is parsed but not checked."""
    known = codec.encode_value(ConsumerProtocolSubscription(topics=["t"]), 0)
    assert subscribed_topics(b"\xff\xff" + known[2:]) == {"t"}


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\0", b"\0\0\0\0\0\1", b"\xff\xff\0\0", b"\0\0\0\0\0\1\0\5abc"],
)
def test_other_bytes_raise_value_error(metadata: bytes) -> None:
    with pytest.raises(ValueError, match="subscription"):
        subscribed_topics(metadata)


@given(st.binary(max_size=40))
def test_random_bytes_raise_only_value_error(metadata: bytes) -> None:
    try:
        subscribed_topics(metadata)
    except ValueError as refusal:
        assert "subscription" in str(refusal)  # noqa: PT017


def test_long_subscriptions_are_not_cached() -> None:
    """Otherwise the cache would retain megabytes of removed members."""
    for count, is_remembered in ((10, True), (10_000, False)):
        subscription = ConsumerProtocolSubscription(topics=[f"t{n}" for n in range(count)])
        metadata = codec.encode_value(subscription, 0)
        first, again = subscribed_topics(metadata), subscribed_topics(metadata)
        assert first == again == set(subscription.topics)
        assert (first is again) is is_remembered
