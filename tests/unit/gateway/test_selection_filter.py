"""The filter of a match: it excludes requests of others, and never one that the match selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.gateway.fault_rules import Match
from kafkalite.gateway.fault_selection import Selection
from kafkalite.gateway.selection_filter import request_filter
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkalite.protocol.api_keys import ApiKey
from tests.unit.gateway.test_fault_selection import CALL, ORDERS

if TYPE_CHECKING:
    from kafkalite.protocol.message import Message

UNKNOWN = b"u" * 16


def commit(*topics: tuple[str | bytes, list[int]]) -> OffsetCommitRequest:
    """Return a commit of partitions, whose topics have names or ids."""
    kind = OffsetCommitRequest
    return kind(
        group_id="g",
        member_id="m",
        topics=[
            kind.OffsetCommitRequestTopic(
                **({"name": topic} if isinstance(topic, str) else {"topic_id": topic}),
                partitions=[
                    kind.OffsetCommitRequestPartition(partition_index=each) for each in partitions
                ],
            )
            for topic, partitions in topics
        ],
    )


def beat(topic_id: bytes | None = None, *names: str) -> ConsumerGroupHeartbeatRequest:
    """Return a heartbeat with a partition of a topic."""
    kind = ConsumerGroupHeartbeatRequest
    owned = topic_id and [kind.TopicPartitions(topic_id=topic_id, partitions=[0, 3])]
    return kind(
        group_id="g",
        member_id="m",
        subscribed_topic_names=list(names) or None,
        topic_partitions=owned or None,
    )


REQUESTS: list[tuple[ApiKey, Message]] = [
    (ApiKey.OFFSET_COMMIT, commit()),
    (ApiKey.OFFSET_COMMIT, commit(("orders", [0, 1]), ("audit", [3]))),
    (ApiKey.OFFSET_COMMIT, commit((ORDERS, [3]))),
    (ApiKey.OFFSET_COMMIT, commit((UNKNOWN, [0]))),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, beat()),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, beat(ORDERS, "audit")),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, beat(UNKNOWN)),
    (ApiKey.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest(group_id="g", member_id="m")),
]
MATCHES: list[dict[str, Any]] = [
    {},
    {"group": "g"},
    {"group": "h"},
    {"member": "m", "group": "h"},
    {"member": "n"},
    {"topic": "orders"},
    {"topic": "orders", "partition": 3},
    {"topic": "audit", "partition": 0},
    {"topic": "none"},
    {"partition": 3},
    {"partition": 9},
    {"client_id": "c", "topic": "orders"},
    {"client_id": "d"},
    {"software": "unknown"},
    {"node": 0, "listener": "OTHER"},
]


@pytest.mark.parametrize("match", MATCHES, ids=str)
def test_no_selected_request_is_excluded(match: dict[str, Any]) -> None:
    for key, request in REQUESTS:
        selection = Selection(key, Match(**match))
        assert selection.may_select(CALL, request) >= selection.selects(CALL, request), request


@pytest.mark.parametrize(
    ("match", "possible"),
    [
        ({"group": "h"}, [0] * 8),
        ({"member": "n"}, [0] * 8),
        ({"client_id": "d"}, [0] * 8),
        ({"topic": "none"}, [0, 0, 0, 1, 0, 0, 1, 0]),
        ({"topic": "orders", "partition": 3}, [0, 0, 1, 0, 0, 1, 1, 0]),
        ({"topic": "orders", "partition": 9}, [0, 0, 0, 0, 0, 0, 0, 0]),
        ({"partition": 9}, [0, 0, 0, 0, 0, 0, 0, 0]),
        ({"software": "unknown"}, [1] * 8),
    ],
    ids=str,
)
def test_requests_of_others_are_excluded(match: dict[str, Any], possible: list[int]) -> None:
    found = [Selection(key, Match(**match)).may_select(CALL, each) for key, each in REQUESTS]
    assert found == [bool(each) for each in possible]


def test_a_list_of_names_is_compared_with_the_topic() -> None:
    share = ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["a"])
    key = ApiKey.SHARE_GROUP_HEARTBEAT
    assert request_filter(key, Match(topic="a", partition=1))(CALL, share)
    assert not request_filter(key, Match(topic="b"))(CALL, share)


def test_places_that_are_not_compared_exclude_nothing() -> None:
    assert request_filter(ApiKey.OFFSET_FETCH, Match(topic="a"))(CALL, object())


@pytest.mark.parametrize("key", [ApiKey.FETCH, ApiKey.SHARE_FETCH])
def test_requests_that_do_not_name_their_partitions_are_not_excluded(key: ApiKey) -> None:
    assert request_filter(key, Match(topic="a", partition=1))(CALL, object())
