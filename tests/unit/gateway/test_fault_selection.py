"""The rows of requests that a match selects: by names, ids, partitions and conditions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.gateway.fault_rules import FaultError, Match
from kafkalite.gateway.fault_selection import Selection, has_entity, may_select, name_pattern
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import BatchProducer, build_batch
from kafkalite.storage.record_format import NewRecord

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call

ORDERS = b"o" * 16
CALL = cast(
    "Call",
    SimpleNamespace(
        api_version=8,
        client_id="c",
        context=SimpleNamespace(client_software=("librdkafka", "2.16.0")),
        listener="PLAINTEXT",
        principal="User:alice",
        node=SimpleNamespace(id=0, image=SimpleNamespace(topic_name={ORDERS: "orders"}.get)),
    ),
)


def offsets_of(*groups: str) -> OffsetFetchRequest:
    """Return a request for two topics of each group, one of them by its id."""
    named = OffsetFetchRequest.OffsetFetchRequestTopics(name="audit", partition_indexes=[0, 1])
    by_id = OffsetFetchRequest.OffsetFetchRequestTopics(topic_id=ORDERS, partition_indexes=[1, 2])
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=[named, by_id])
            for group in groups
        ]
    )


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("shop", "shop", True),
        ("shop*", "shop", True),
        ("shop*", "a shop", False),
        ("*shop", "a shop", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("*a*b*", "xaxbx", True),
        ("*a*b*", "xbxax", False),
        ("a*bc*c", "abc", False),
        ("a*bc*c", "abcbcc", True),
        ("[a]?*", "[a]?", True),
        ("[a]?*", "ab", False),
        ("**", "", True),
    ],
)
def test_a_star_stands_for_any_characters(pattern: str, name: str, *, is_match: bool) -> None:
    assert name_pattern(pattern)(name) is is_match


def test_many_stars_take_linear_time() -> None:
    assert not name_pattern("*a" * 10_000 + "b")("a" * 20_000)


@pytest.mark.parametrize(
    ("match", "depth", "remaining"),
    [
        (Match(group="g"), 0, [("h", [("", [0, 1]), ("orders", [1, 2])])]),
        (
            Match(topic="orders"),
            1,
            [("g", [("", [0, 1])]), ("h", [("", [0, 1])])],
        ),
        (
            Match(group="h", topic="orders", partition=2),
            2,
            [("g", [("", [0, 1]), ("orders", [1, 2])]), ("h", [("", [0, 1]), ("orders", [1])])],
        ),
    ],
)
def test_rows_are_selected_at_their_depth(
    match: Match, depth: int, remaining: list[tuple[str, list[tuple[str, list[int]]]]]
) -> None:
    selection = Selection(ApiKey.OFFSET_FETCH, match)
    request = offsets_of("g", "h")
    assert selection.selects(CALL, request)
    assert (selection.depth, selection.has_rows) == (depth, True)
    split = selection.split(CALL, request, KafkaError(ErrorCode.NOT_COORDINATOR))
    names = {bytes(16): "", ORDERS: "orders"}
    assert [
        (group.group_id, [(names[each.topic_id], each.partition_indexes) for each in group.topics])
        for group in split.request.groups
    ] == remaining


@pytest.mark.parametrize(
    "match",
    [
        Match(group="x"),
        Match(topic="x"),
        Match(topic="audit", partition=2),
        Match(group="g", client_id="x"),
        Match(group="g", node=1),
        Match(group="g", listener="X"),
    ],
)
def test_a_request_without_a_matching_row_is_not_selected(match: Match) -> None:
    assert not Selection(ApiKey.OFFSET_FETCH, match).selects(CALL, offsets_of("g"))


def test_a_condition_of_the_request_or_of_the_row_applies() -> None:
    group = Selection(ApiKey.FIND_COORDINATOR, Match(group="g"))
    keys = ["f", "g"]
    assert group.selects(CALL, FindCoordinatorRequest(key_type=0, coordinator_keys=keys))
    assert not group.selects(CALL, FindCoordinatorRequest(key_type=1, coordinator_keys=keys))
    topic = Selection(ApiKey.DESCRIBE_CONFIGS, Match(topic="orders"))
    for kind, is_selected in ((2, True), (4, False)):
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=kind, resource_name="orders"
        )
        request = DescribeConfigsRequest(resources=[resource])
        assert topic.selects(CALL, request) is is_selected


def test_entities_outside_rows_select_whole_requests() -> None:
    topic = DescribeLogDirsRequest.DescribableLogDirTopic(topic="orders", partitions=[3])
    selection = Selection(ApiKey.DESCRIBE_LOG_DIRS, Match(topic="orders", partition=3))
    assert not selection.has_rows
    assert selection.selects(CALL, DescribeLogDirsRequest(topics=[topic]))
    other = Selection(ApiKey.DESCRIBE_LOG_DIRS, Match(topic="orders", partition=4))
    assert not other.selects(CALL, DescribeLogDirsRequest(topics=[topic]))
    # The answers of this API have partitions, but no errors for them.
    assert not Selection(ApiKey.LIST_PARTITION_REASSIGNMENTS, Match(topic="orders")).has_rows


def test_a_row_and_an_entity_outside_rows_must_both_match() -> None:
    assignment = CreateTopicsRequest.CreatableReplicaAssignment(partition_index=1, broker_ids=[0])
    topic = CreateTopicsRequest.CreatableTopic(name="orders", assignments=[assignment])
    request: Any = CreateTopicsRequest(topics=[topic])
    for partition, is_selected in ((1, True), (0, False)):
        selection = Selection(ApiKey.CREATE_TOPICS, Match(topic="orders", partition=partition))
        assert selection.has_rows
        assert selection.selects(CALL, request) is is_selected


def test_rows_have_a_text_and_subjects() -> None:
    selection = Selection(ApiKey.OFFSET_FETCH, Match(group="g", topic="orders", partition=2))
    assert selection.rows_text == "group g topic orders partition 2"
    assert selection.subjects == [(Entity.GROUP, "g"), (Entity.TOPIC, "orders")]
    row_fault = selection.row_fault(ErrorCode.NOT_COORDINATOR)
    assert row_fault("orders", 2) is ErrorCode.NOT_COORDINATOR
    assert row_fault("orders", 1) is row_fault("audit", 2) is None


def test_a_produce_is_selected_by_the_producer_id_in_its_records() -> None:
    batches = [
        build_batch([NewRecord(None, b"a", 0)], producer=BatchProducer(each, 0, 0))
        for each in (7, 8, -1)
    ]
    data = [
        ProduceRequest.PartitionProduceData(index=index, records=records)
        for index, records in enumerate((*batches, None))
    ]
    request = ProduceRequest(
        topic_data=[ProduceRequest.TopicProduceData(name="orders", partition_data=data)]
    )
    selection = Selection(ApiKey.PRODUCE, Match(producer_id=8))
    assert selection.selects(CALL, request)
    split = selection.split(CALL, request, KafkaError(ErrorCode.PRODUCER_FENCED))
    assert [each.index for each in split.request.topic_data[0].partition_data] == [0, 2, 3]
    assert not Selection(ApiKey.PRODUCE, Match(producer_id=9)).selects(CALL, request)
    end = Selection(ApiKey.END_TXN, Match(producer_id=8))
    assert [end.selects(CALL, EndTxnRequest(producer_id=each)) for each in (8, 9)] == [True, False]


def test_a_member_is_selected() -> None:
    selection = Selection(ApiKey.HEARTBEAT, Match(group="g", member="m"))
    for member, is_selected in (("m", True), ("n", False)):
        request = HeartbeatRequest(group_id="g", member_id=member)
        assert selection.selects(CALL, request) is is_selected


def test_an_api_is_selected_if_its_requests_have_the_entities() -> None:
    assert may_select(Match(), ApiKey.HEARTBEAT)
    assert not may_select(Match(api=ApiKey.PRODUCE), ApiKey.HEARTBEAT)
    assert not may_select(Match(partition=0), ApiKey.HEARTBEAT)
    assert has_entity(ApiKey.PRODUCE, "partition")


@pytest.mark.parametrize(
    ("match", "is_selected"),
    [
        ({"client_id": "c"}, True),
        ({"client_id": "d"}, False),
        ({"client_id": "*"}, True),
        ({"client_id": "c*"}, True),
        ({"client_id": "*d*"}, False),
        ({"client_id": "."}, False),
        ({"client_id": "?*"}, False),
        ({"client_id": "[c]*"}, False),
        ({"software": "librdkafka 2.16.0"}, True),
        ({"software": "librdkafka*"}, True),
        ({"software": "* 2.*"}, True),
        ({"software": "librdkafka"}, False),
        ({"principal": "User:alice"}, True),
        ({"principal": "User:*"}, True),
        ({"principal": "User:bob"}, False),
        ({"min_version": 8}, True),
        ({"min_version": 9}, False),
        ({"max_version": 8}, True),
        ({"max_version": 7}, False),
        ({"min_version": 8, "max_version": 8}, True),
        ({"node": 0, "listener": "plaintext"}, True),
        ({"node": 1}, False),
        ({"listener": "CONTROLLER"}, False),
        ({"client_id": "c*", "principal": "User:bob"}, False),
    ],
)
def test_requests_are_selected_by_their_clients_and_versions(
    match: dict[str, Any], *, is_selected: bool
) -> None:
    selection = Selection(ApiKey.OFFSET_FETCH, Match(**match))
    assert selection.selects(CALL, offsets_of("g")) is is_selected


def test_a_client_without_software_is_selected_by_no_name() -> None:
    unnamed = cast("Call", SimpleNamespace(context=SimpleNamespace(client_software=None)))
    selection = Selection(ApiKey.OFFSET_FETCH, Match(software="librdkafka*"))
    assert not selection.selects(unnamed, offsets_of("g"))


def test_a_range_of_versions_is_not_empty() -> None:
    with pytest.raises(FaultError, match="min_version must not be above"):
        Match(min_version=3, max_version=2)
