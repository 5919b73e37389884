"""How far groups had read, and who coordinates them, told in whichever way it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkalite.replay.known_groups import KnownGroups
from tests.unit.replay.recorded import Recording

if TYPE_CHECKING:
    from kafkalite.protocol.message import Message

ORDERS = bytes(range(16))
NAMES = {ORDERS: "orders"}
OF_ONE, OF_SEVERAL, BY_ID = 7, 9, 10
"""Versions of OffsetFetch."""


def fetch_one(group: str, partitions: list[int] | None) -> OffsetFetchRequest:
    row = OffsetFetchRequest.OffsetFetchRequestTopic
    topics = None if partitions is None else [row(name="orders", partition_indexes=partitions)]
    return OffsetFetchRequest(group_id=group, topics=topics)


def fetch_several(*groups: str, topic_id: bytes = bytes(16)) -> OffsetFetchRequest:
    row = OffsetFetchRequest.OffsetFetchRequestTopics
    name = "" if any(topic_id) else "orders"
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id=group, topics=[row(name=name, topic_id=topic_id, partition_indexes=[0, 1])]
            )
            for group in groups
        ]
    )


def read_to(offsets: dict[int, int], refused: frozenset[int] = frozenset()) -> OffsetFetchResponse:
    rows = [
        OffsetFetchResponse.OffsetFetchResponsePartition(
            partition_index=partition,
            committed_offset=offset,
            error_code=3 * (partition in refused),
        )
        for partition, offset in offsets.items()
    ]
    topic = OffsetFetchResponse.OffsetFetchResponseTopic(name="orders", partitions=rows)
    return OffsetFetchResponse(topics=[topic])


def known(recording: Recording) -> KnownGroups:
    groups = KnownGroups()
    for exchange in recording.exchanges:
        groups.take(exchange, NAMES.get)
    return groups


def told(topics: Any) -> dict[int, int]:  # noqa: ANN401 - of either shape
    return {row.partition_index: row.committed_offset for each in topics for row in each.partitions}


def offsets(groups: KnownGroups, request: OffsetFetchRequest, version: int) -> Any:  # noqa: ANN401
    return groups.offsets(request, version, NAMES.get)


def shop() -> Recording:
    recording = Recording()
    recording.say(fetch_one("shop", [0, 1]), read_to({0: 7, 1: -1}), OF_ONE)
    return recording


def test_offsets_are_told_whichever_partitions_are_asked_for() -> None:
    groups = known(shop())

    assert told(offsets(groups, fetch_one("shop", [0]), OF_ONE).topics) == {0: 7}
    assert told(offsets(groups, fetch_one("shop", [1, 2]), OF_ONE).topics) == {1: -1, 2: -1}
    assert told(offsets(groups, fetch_one("shop", None), OF_ONE).topics) == {0: 7}


def test_offsets_are_told_in_the_words_of_the_version() -> None:
    groups = known(shop())

    for version, topic_id in ((OF_SEVERAL, bytes(16)), (BY_ID, ORDERS)):
        (group,) = offsets(groups, fetch_several("shop", topic_id=topic_id), version).groups
        assert group.group_id == "shop"
        assert told(group.topics) == {0: 7, 1: -1}


def test_what_nobody_told_of_is_not_made_up() -> None:
    groups = known(shop())

    assert offsets(groups, fetch_one("other", [0]), OF_ONE) is None
    assert offsets(groups, fetch_several("shop", "other"), OF_SEVERAL) is None
    assert offsets(groups, fetch_several("shop", topic_id=b"?" * 16), BY_ID) is None
    assert groups.coordinators(FindCoordinatorRequest(key="shop"), 1) is None


def test_a_group_begins_where_it_was_first_and_goes_on_from_its_commits() -> None:
    recording = shop()
    recording.say(fetch_one("shop", [0, 1]), read_to({0: 9, 1: 5}), OF_ONE)
    groups = known(recording)
    assert told(offsets(groups, fetch_one("shop", [0, 1]), OF_ONE).topics) == {0: 7, 1: -1}

    row, answer = OffsetCommitRequest, OffsetCommitResponse
    rows = [row.OffsetCommitRequestPartition(partition_index=n, committed_offset=8) for n in (0, 1)]
    commit = row(
        group_id="shop", topics=[row.OffsetCommitRequestTopic(name="orders", partitions=rows)]
    )
    codes = [answer.OffsetCommitResponsePartition(partition_index=n, error_code=n) for n in (0, 1)]
    done = answer(topics=[answer.OffsetCommitResponseTopic(name="orders", partitions=codes)])
    groups.commit(commit, done, NAMES.get)

    assert told(offsets(groups, fetch_one("shop", [0, 1]), OF_ONE).topics) == {0: 8, 1: -1}


def test_a_commit_succeeds_whichever_partitions_it_is_of() -> None:
    groups = known(shop())
    row = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=1, committed_offset=8)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", partitions=[row])

    def accepted(group: str) -> Any:  # noqa: ANN401
        return groups.accept(OffsetCommitRequest(group_id=group, topics=[topic]), NAMES.get)

    (answer,) = accepted("shop").topics
    assert answer.name == "orders"
    assert [(each.partition_index, each.error_code) for each in answer.partitions] == [(1, 0)]
    assert accepted("other") is None
    topic.name = ""
    assert accepted("shop") is None


def test_what_was_refused_or_not_answered_tells_nothing() -> None:
    recording = Recording()
    recording.say(fetch_one("shop", [0]), None, OF_ONE)
    recording.say(fetch_one("shop", [0]), read_to({0: -1}, frozenset((0,))), OF_ONE)
    recording.say(fetch_one("shop", [0]), read_to({0: 4}), OF_ONE)
    refused = FindCoordinatorResponse(error_code=15)
    recording.say(FindCoordinatorRequest(key="shop"), refused, 1)
    groups = known(recording)

    assert told(offsets(groups, fetch_one("shop", [0]), OF_ONE).topics) == {0: 4}
    assert groups.coordinators(FindCoordinatorRequest(key="shop"), 1) is None


def test_coordinators_are_told_for_one_key_and_for_several() -> None:
    one, several = 1, 4
    recording = Recording()
    at = FindCoordinatorResponse(node_id=10, host="far", port=1)
    recording.say(FindCoordinatorRequest(key="a"), at, one)
    found: list[FindCoordinatorResponse.Coordinator] = [
        FindCoordinatorResponse.Coordinator(key="b", node_id=20, host="far", port=2)
    ]
    recording.say(
        FindCoordinatorRequest(coordinator_keys=["b"]),
        FindCoordinatorResponse(coordinators=found),
        several,
    )
    groups = known(recording)

    def node(request: FindCoordinatorRequest, version: int) -> Any:  # noqa: ANN401
        answer: Message | None = groups.coordinators(request, version)
        return answer

    assert node(FindCoordinatorRequest(key="b"), one).node_id == 20
    both = node(FindCoordinatorRequest(coordinator_keys=["a", "b"]), several)
    assert [(each.key, each.node_id) for each in both.coordinators] == [("a", 10), ("b", 20)]
    assert node(FindCoordinatorRequest(key="a", key_type=1), one) is None
