"""Responses about committed offsets and coordinators, composed from recorded ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.lab.replay.standin.groups import RecordedGroups
from kafkalite.protocol._generated.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkalite.protocol._generated.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.unit.lab.replay.recording import Recording

if TYPE_CHECKING:
    from kafkalite.protocol.message import Message

ORDERS_ID = bytes(range(16))
TOPIC_NAMES = {ORDERS_ID: "orders"}
ONE_GROUP, SEVERAL_GROUPS, WITH_TOPIC_ID = 7, 9, 10
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


def offset_fetch_response(
    offsets: dict[int, int], refused: frozenset[int] = frozenset()
) -> OffsetFetchResponse:
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


def learn(recording: Recording) -> RecordedGroups:
    groups = RecordedGroups()
    for exchange in recording.exchanges:
        groups.learn(exchange, TOPIC_NAMES.get)
    return groups


def committed(topics: Any) -> dict[int, int]:  # noqa: ANN401 - of either shape
    return {
        row.partition_index: row.committed_offset for topic in topics for row in topic.partitions
    }


def offsets(groups: RecordedGroups, request: OffsetFetchRequest, version: int) -> Any:  # noqa: ANN401
    return groups.answer_offset_fetch(request, version, TOPIC_NAMES.get)


def shop_recording() -> Recording:
    recording = Recording()
    recording.add(
        fetch_one("shop", [0, 1]),
        offset_fetch_response({0: 7, 1: -1}),
        ONE_GROUP,
    )
    return recording


def test_offsets_of_any_partitions_are_returned() -> None:
    groups = learn(shop_recording())

    assert committed(offsets(groups, fetch_one("shop", [0]), ONE_GROUP).topics) == {0: 7}
    assert committed(offsets(groups, fetch_one("shop", [1, 2]), ONE_GROUP).topics) == {1: -1, 2: -1}
    assert committed(offsets(groups, fetch_one("shop", None), ONE_GROUP).topics) == {0: 7}


def test_response_has_the_form_of_the_version() -> None:
    groups = learn(shop_recording())

    for version, topic_id in ((SEVERAL_GROUPS, bytes(16)), (WITH_TOPIC_ID, ORDERS_ID)):
        (group,) = offsets(groups, fetch_several("shop", topic_id=topic_id), version).groups
        assert group.group_id == "shop"
        assert committed(group.topics) == {0: 7, 1: -1}


def test_unknown_group_topic_or_key_has_no_answer() -> None:
    groups = learn(shop_recording())

    assert offsets(groups, fetch_one("other", [0]), ONE_GROUP) is None
    assert offsets(groups, fetch_several("shop", "other"), SEVERAL_GROUPS) is None
    assert offsets(groups, fetch_several("shop", topic_id=b"?" * 16), WITH_TOPIC_ID) is None
    assert groups.answer_find_coordinator(FindCoordinatorRequest(key="shop"), 1) is None


def test_group_starts_with_its_first_offsets_and_continues_with_commits() -> None:
    recording = shop_recording()
    recording.add(
        fetch_one("shop", [0, 1]),
        offset_fetch_response({0: 9, 1: 5}),
        ONE_GROUP,
    )
    groups = learn(recording)
    assert committed(offsets(groups, fetch_one("shop", [0, 1]), ONE_GROUP).topics) == {0: 7, 1: -1}

    row, answer = OffsetCommitRequest, OffsetCommitResponse
    rows = [row.OffsetCommitRequestPartition(partition_index=n, committed_offset=8) for n in (0, 1)]
    commit = row(
        group_id="shop",
        topics=[row.OffsetCommitRequestTopic(name="orders", partitions=rows)],
    )
    codes = [answer.OffsetCommitResponsePartition(partition_index=n, error_code=n) for n in (0, 1)]
    done = answer(topics=[answer.OffsetCommitResponseTopic(name="orders", partitions=codes)])
    groups.store_commit(commit, done, TOPIC_NAMES.get)

    assert committed(offsets(groups, fetch_one("shop", [0, 1]), ONE_GROUP).topics) == {0: 8, 1: -1}


def test_commit_of_a_known_group_succeeds() -> None:
    groups = learn(shop_recording())
    row = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=1, committed_offset=8)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", partitions=[row])

    def accepted(group: str) -> Any:  # noqa: ANN401
        return groups.answer_offset_commit(
            OffsetCommitRequest(group_id=group, topics=[topic]), TOPIC_NAMES.get
        )

    (answer,) = accepted("shop").topics
    assert answer.name == "orders"
    assert [
        (partition.partition_index, partition.error_code) for partition in answer.partitions
    ] == [(1, 0)]
    assert accepted("other") is None
    topic.name = ""
    assert accepted("shop") is None


def test_errors_and_missing_responses_are_ignored() -> None:
    recording = Recording()
    recording.add(fetch_one("shop", [0]), None, ONE_GROUP)
    recording.add(
        fetch_one("shop", [0]),
        offset_fetch_response({0: -1}, frozenset((0,))),
        ONE_GROUP,
    )
    recording.add(fetch_one("shop", [0]), offset_fetch_response({0: 4}), ONE_GROUP)
    refused = FindCoordinatorResponse(error_code=15)
    recording.add(FindCoordinatorRequest(key="shop"), refused, 1)
    groups = learn(recording)

    assert committed(offsets(groups, fetch_one("shop", [0]), ONE_GROUP).topics) == {0: 4}
    assert groups.answer_find_coordinator(FindCoordinatorRequest(key="shop"), 1) is None


def test_coordinators_are_returned_for_one_or_several_keys() -> None:
    one, several = 1, 4
    recording = Recording()
    at = FindCoordinatorResponse(node_id=10, host="far", port=1)
    recording.add(FindCoordinatorRequest(key="a"), at, one)
    found: list[FindCoordinatorResponse.Coordinator] = [
        FindCoordinatorResponse.Coordinator(key="b", node_id=20, host="far", port=2)
    ]
    recording.add(
        FindCoordinatorRequest(coordinator_keys=["b"]),
        FindCoordinatorResponse(coordinators=found),
        several,
    )
    groups = learn(recording)

    def node(request: FindCoordinatorRequest, version: int) -> Any:  # noqa: ANN401
        answer: Message | None = groups.answer_find_coordinator(request, version)
        return answer

    assert node(FindCoordinatorRequest(key="b"), one).node_id == 20
    both = node(FindCoordinatorRequest(coordinator_keys=["a", "b"]), several)
    assert [(coordinator.key, coordinator.node_id) for coordinator in both.coordinators] == [
        ("a", 10),
        ("b", 20),
    ]
    assert node(FindCoordinatorRequest(key="a", key_type=1), one) is None
