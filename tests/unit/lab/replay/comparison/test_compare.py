"""Comparison of responses: differences, learned ids, pairs of rows."""

from __future__ import annotations

from typing import Any

from kafkalite.capture.model import Direction
from kafkalite.lab.replay.comparison.compare import ABSENT, Comparison, Difference
from kafkalite.lab.replay.comparison.findings import Circumstances, Severity, classify
from kafkalite.lab.replay.comparison.shapes import shape_of
from kafkalite.lab.replay.rewriting.id_mapping import IdMapping, Scope, ValueKind
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsResponse
from kafkalite.protocol._generated.messages.fetch import FetchResponse
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatResponse
from kafkalite.protocol._generated.messages.join_group import JoinGroupResponse
from kafkalite.protocol._generated.messages.metadata import MetadataResponse

GROUP = Scope(group="g")
Topic = MetadataResponse.MetadataResponseTopic
Member = JoinGroupResponse.JoinGroupResponseMember


def differences(
    recorded: Any,  # noqa: ANN401 - any response
    target: Any,  # noqa: ANN401 - any response
    version: int,
    mapping: IdMapping | None = None,
) -> list[Difference]:
    shape = shape_of(recorded.API_KEY, version, Direction.RESPONSE)
    comparison = Comparison(mapping or IdMapping(), lambda *_: None)
    return comparison.compare(shape, recorded, target, GROUP)


def join_group_response(
    member_id: str, leader: str, members: list[str], generation: int = 1
) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=generation,
        protocol_name="range",
        leader=leader,
        member_id=member_id,
        members=[Member(member_id=member, metadata=b"m") for member in members],
    )


def test_ignored_fields_do_not_differ() -> None:
    assert differences(HeartbeatResponse(throttle_time_ms=7), HeartbeatResponse(), 4) == []
    assert differences(HeartbeatResponse(error_code=27), HeartbeatResponse(), 4) == [
        Difference("error_code", 27, 0)
    ]


def test_learned_id_is_expected_in_later_responses() -> None:
    mapping = IdMapping()
    assert (
        differences(
            join_group_response("a-1", "a-1", ["a-1"]),
            join_group_response("x-9", "x-9", ["x-9"]),
            7,
            mapping,
        )
        == []
    )
    assert mapping.translate(ValueKind.MEMBER, GROUP, "a-1") == "x-9"
    second = differences(
        join_group_response("b-1", "a-1", []), join_group_response("y-9", "y-9", []), 7, mapping
    )
    assert second == [Difference("leader", "a-1", "y-9")]


def test_extra_generation_is_a_difference() -> None:
    mapping = IdMapping()
    assert (
        differences(
            join_group_response("a", "a", []), join_group_response("a", "a", []), 7, mapping
        )
        == []
    )
    second = differences(
        join_group_response("a", "a", [], 2), join_group_response("a", "a", [], 3), 7, mapping
    )
    assert second == [Difference("generation_id", 2, 3)]


def test_rows_of_unordered_lists_are_paired_by_key() -> None:
    recorded = MetadataResponse(topics=[Topic(name="a"), Topic(name="b", is_internal=True)])
    target = MetadataResponse(topics=[Topic(name="b"), Topic(name="a")])
    assert differences(recorded, target, 12) == [Difference("topics.is_internal", True, False, "b")]


def test_row_of_only_one_response_is_reported_by_its_key() -> None:
    recorded = MetadataResponse(topics=[Topic(name="a", topic_id=b"1" * 16)])
    (found,) = differences(recorded, MetadataResponse(), 12)
    assert (found.path, found.target) == ("topics", ABSENT)
    assert "name='a'" in str(found.recorded)


def describe_configs_response(*synonyms: tuple[str, str, int], name: str = "num.partitions") -> Any:  # noqa: ANN401 - nested classes
    config = DescribeConfigsResponse.DescribeConfigsResourceResult(
        name=name,
        value=synonyms[0][1],
        config_source=synonyms[0][2],
        synonyms=[
            DescribeConfigsResponse.DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in synonyms
        ],
    )
    result = DescribeConfigsResponse.DescribeConfigsResult(resource_name="1", configs=[config])
    return DescribeConfigsResponse(results=[result])


def test_row_without_keys_is_reported_by_its_fields() -> None:
    default = ("num.partitions", "1", 5)
    (found,) = differences(
        describe_configs_response(default, default), describe_configs_response(default), 4
    )
    assert found == Difference(
        "results.configs.synonyms",
        "name='num.partitions' value='1' source=5",
        ABSENT,
        "1 num.partitions",
    )


def test_configuration_of_the_start_is_not_timing() -> None:
    static, default = ("num.partitions", "3", 4), ("num.partitions", "1", 5)
    circumstances = Circumstances(
        "DescribeConfigs", has_concurrent_writes=True, follows_metadata_change=True
    )

    def severities(recorded: object, target: object) -> set[Severity]:
        found = differences(recorded, target, 4)
        return {classify(row, circumstances).severity for row in found}

    configured = severities(
        describe_configs_response(static, default), describe_configs_response(default)
    )
    assert configured == {Severity.CONFIGURATION}
    assert severities(
        describe_configs_response(default), describe_configs_response(("num.partitions", "2", 5))
    ) == {Severity.CONFIGURATION}
    dynamic = ("num.partitions", "3", 2)
    assert severities(
        describe_configs_response(dynamic, default), describe_configs_response(default)
    ) == {Severity.TIMING}
    without = DescribeConfigsResponse.DescribeConfigsResult(resource_name="1")
    nothing = DescribeConfigsResponse(results=[without])
    assert severities(describe_configs_response(static), nothing) == {Severity.CONFIGURATION}
    assert severities(nothing, describe_configs_response(default)) == {Severity.DIFFERENCE}


def test_unmapped_members_are_paired_in_order() -> None:
    mapping = IdMapping()
    mapping.learn(ValueKind.MEMBER, "a-1", "x-1")
    recorded = join_group_response("a-1", "a-1", ["b-1", "a-1"])
    assert (
        differences(recorded, join_group_response("x-1", "x-1", ["x-1", "y-1"]), 7, mapping) == []
    )
    (found,) = differences(recorded, join_group_response("x-1", "x-1", ["x-1"]), 7, mapping)
    assert (found.path, found.target) == ("members", ABSENT)


def test_topic_ids_are_learned_with_their_names() -> None:
    mapping = IdMapping()
    recorded = MetadataResponse(topics=[Topic(name="a", topic_id=b"1" * 16)])
    target = MetadataResponse(topics=[Topic(name="a", topic_id=b"2" * 16)])
    assert differences(recorded, target, 12, mapping) == []
    assert mapping.translate(ValueKind.TOPIC_ID, GROUP, b"1" * 16) == b"2" * 16
    assert mapping.topic_names == {b"1" * 16: "a"}


def test_wrong_offset_is_reported_with_expected_offset_and_topic() -> None:
    mapping = IdMapping()
    topic_id = bytes(range(16))
    row = FetchResponse.FetchableTopicResponse(
        topic_id=topic_id,
        partitions=[FetchResponse.PartitionData(log_start_offset=0)],
    )
    mapping.match(ValueKind.OFFSET, Scope(topic=topic_id, partition=0), 0, 5, learn=True)
    (found,) = differences(
        FetchResponse(responses=[row]), FetchResponse(responses=[row]), 16, mapping
    )
    assert (found.recorded, found.target, found.expected) == (0, 0, 5)
    assert found.row == "AAECAwQFBgcICQoLDA0ODw 0"
    mapping.topic_names[topic_id] = "orders"
    mapping.match(ValueKind.OFFSET, Scope(topic="orders", partition=0), 0, 5, learn=True)
    (found,) = differences(
        FetchResponse(responses=[row]), FetchResponse(responses=[row]), 16, mapping
    )
    assert found.row == "orders 0"


def test_only_the_error_of_a_struct_is_reported_if_it_differs() -> None:
    refused = JoinGroupResponse(error_code=15)
    assert differences(refused, join_group_response("a", "a", ["a"]), 7) == [
        Difference("error_code", 15, 0)
    ]


def fetch_response(topic: str, error: int = 0, records: bytes = b"") -> FetchResponse:
    row = FetchResponse.PartitionData(partition_index=1, error_code=error, records=records)
    answer = FetchResponse.FetchableTopicResponse(topic=topic, partitions=[row])
    return FetchResponse(responses=[answer])


def test_fetch_may_omit_a_partition_without_error() -> None:
    assert differences(fetch_response("t"), FetchResponse(), 11) == []
    (found,) = differences(fetch_response("t", error=1), FetchResponse(), 11)
    assert found.path == "responses"


def test_records_are_passed_to_the_callback_with_their_partition() -> None:
    received: list[tuple[Scope, bytes | None, bytes | None]] = []
    comparison = Comparison(IdMapping(), lambda *each: received.append(each))
    shape = shape_of(1, 11, Direction.RESPONSE)
    one, other = fetch_response("t", records=b"1"), fetch_response("t", records=b"2")
    assert comparison.compare(shape, one, other, Scope()) == []
    assert received == [(Scope(topic="t", partition=1), b"1", b"2")]
