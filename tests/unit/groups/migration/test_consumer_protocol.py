"""Encoding and parsing of subscriptions and assignments of classic consumers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.groups.migration.consumer_protocol import (
    by_topic_id,
    encode_assignment,
    parse_assignment,
    parse_subscription,
    parse_version,
)
from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from kafkalite.protocol._generated.records.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from tests.scenarios.group_coordinator import image_of, topic_image

TOPICS = image_of(topic_image("t", 4), topic_image("u", 4))
T, U = (TOPICS.topics[name].topic_id for name in "tu")


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_subscription_is_parsed_in_every_version(version: int) -> None:
    row = ConsumerProtocolSubscription.TopicPartition
    encoded = ConsumerProtocolSubscription(
        topics=["t", "u", "t"], owned_partitions=[row(topic="t", partitions=[2, 1])], rack_id="r"
    )
    found = parse_subscription(codec.encode_value(encoded, version))
    assert found.topics == {"t", "u"}
    assert found.owned == ({} if version < 1 else {"t": {1, 2}})
    assert found.rack_id == (None if version < 3 else "r")


def test_an_empty_rack_is_none() -> None:
    encoded = ConsumerProtocolSubscription(topics=["t"], rack_id="")
    assert parse_subscription(codec.encode_value(encoded, 3)).rack_id is None


def test_known_fields_of_a_newer_version_are_parsed() -> None:
    encoded = codec.encode_value(ConsumerProtocolSubscription(topics=["t"]), 3)
    assert parse_subscription(b"\x7f\xff" + encoded[2:] + b"more").topics == {"t"}
    assert parse_version(b"\x7f\xff") == 3


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\0", b"\0\1\0\0\0\1\0\1"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_subscription(data)


@given(st.binary(max_size=64))
def test_random_bytes_raise_only_the_expected_error(data: bytes) -> None:
    for read in (parse_subscription, parse_assignment):
        try:
            read(data)
        except ValueError:
            continue


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_assignment_is_encoded_and_parsed_unchanged(version: int) -> None:
    data = encode_assignment({U: {0}, T: {3, 1}}, TOPICS, version)
    assert parse_version(data) == version
    assert parse_assignment(data).partitions == {"t": {1, 3}, "u": {0}}
    assert not parse_assignment(data).has_user_data


def test_missing_topics_are_omitted() -> None:
    data = encode_assignment({b"?" * 16: {0}, T: {1}}, TOPICS, 3)
    assert parse_assignment(data).partitions == {"t": {1}}
    assert by_topic_id({"t": frozenset({1}), "u": frozenset(), "?": frozenset({1})}, TOPICS) == {
        T: {1}
    }


def test_user_data_of_an_assignor_is_detected() -> None:
    encoded = ConsumerProtocolAssignment(user_data=b"x")
    assert parse_assignment(codec.encode_value(encoded, 1)).has_user_data
