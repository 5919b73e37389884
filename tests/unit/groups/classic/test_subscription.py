"""Embedded subscriptions: their topics, whatever the version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.groups.classic.subscription import subscribed_topics
from kafkalite.protocol import codec
from kafkalite.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription


@given(st.integers(0, 3), st.lists(st.text(max_size=5), max_size=3), st.binary(max_size=4))
def test_topics_are_read_from_every_version(version: int, topics: list[str], data: bytes) -> None:
    subscription = ConsumerProtocolSubscription(
        topics=topics, user_data=data, owned_partitions=[], generation_id=7, rack_id="r"
    )
    assert subscribed_topics(codec.encode_value(subscription, version)) == set(topics)


def test_a_version_still_to_come_begins_as_the_others_do() -> None:
    known = codec.encode_value(ConsumerProtocolSubscription(topics=["t"]), 0)
    assert subscribed_topics(b"\0\x09" + known[2:] + b"more") == {"t"}


def test_not_even_a_negative_version_is_minded() -> None:
    """Kafka reads the number and passes on."""
    known = codec.encode_value(ConsumerProtocolSubscription(topics=["t"]), 0)
    assert subscribed_topics(b"\xff\xff" + known[2:]) == {"t"}


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\0", b"\0\0\0\0\0\1", b"\xff\xff\0\0", b"\0\0\0\0\0\1\0\5abc"],
)
def test_anything_else_is_refused(metadata: bytes) -> None:
    with pytest.raises(ValueError, match="subscription"):
        subscribed_topics(metadata)


@given(st.binary(max_size=40))
def test_no_bytes_do_worse_than_a_value_error(metadata: bytes) -> None:
    try:
        subscribed_topics(metadata)
    except ValueError as refusal:
        assert "subscription" in str(refusal)  # noqa: PT017


def test_what_is_said_at_length_is_not_remembered() -> None:
    """Members of groups long gone would else be remembered with megabytes each."""
    for count, is_remembered in ((10, True), (10_000, False)):
        subscription = ConsumerProtocolSubscription(topics=[f"t{n}" for n in range(count)])
        metadata = codec.encode_value(subscription, 0)
        first, again = subscribed_topics(metadata), subscribed_topics(metadata)
        assert first == again == set(subscription.topics)
        assert (first is again) is is_remembered
