"""The known differences from Kafka: each shows the answer of a real Kafka and that of kafkalite.

`tests/docs/known_differences.py` lists every difference that the documentation has, with its test
or the reason why there is none. If Kafka begins to answer as kafkalite does, a test here fails, and
the difference can be removed from the documentation.
"""

# ruff: noqa: ANN401 - requests and responses of any API
from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.compare import differences
from tests.conformance.raw import ConnectionClosedError, RawClient
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios import consumer_groups, share_groups, streams_groups
from tests.conformance.scenarios.classic_groups import Classic
from tests.conformance.scenarios.share_fetching import (
    ACCEPT,
    FIRST,
    V,
    shared_topic,
)
from tests.conformance.setup import create_topic, wait_for_group_coordinator
from tests.conformance.transactional_producer import NEW, describe, start_producer
from tests.conformance.world import World

if TYPE_CHECKING:
    from tests.conformance.scenario_runs import Scenario
    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(120)]

NO_ANSWER: Final = "no answer"
_PATIENCE_S: Final = 4.0
"""The time after which a request counts as not answered; other requests take milliseconds."""
_HEARTBEAT: Final = 1
_JOIN: Final = 9
_SYNC: Final = 5
_LEAVE_FOR_A_WHILE: Final = -2
_MAX_FETCHES, _MORE_FETCHES, _FETCH_MS = 100, 4, 300

_names = count()


def new_world(target: Target, title: str) -> World:
    """Return a world whose topics and groups have a new name."""
    return World(target.port, f"known-{title}-{next(_names)}")


def answer_or_none(target: Target, request: Any, version: int) -> Any:
    """Return the response to a request; None if there is none for a while."""
    client = RawClient(target.port, _PATIENCE_S)
    try:
        return client.call(request, version)
    except TimeoutError:
        return None
    finally:
        client.close()


def test_offsets_of_a_missing_share_partition(real_kafka: Target, emulator: Target) -> None:
    row = DescribeShareGroupOffsetsRequest

    def ask(target: Target) -> object:
        world = new_world(target, "share-offsets")
        group = share_groups.new_share_group(world, 1)
        topic = row.DescribeShareGroupOffsetsRequestTopic(topic_name=group.topic, partitions=[7])
        request = row(
            groups=[row.DescribeShareGroupOffsetsRequestGroup(group_id=group.group, topics=[topic])]
        )
        answer = answer_or_none(target, request, 1)
        world.close()
        if answer is None:
            return NO_ANSWER
        (partition,) = answer.groups[0].topics[0].partitions
        return partition.start_offset

    assert ask(real_kafka) == NO_ANSWER
    assert ask(emulator) == -1


def test_partitions_for_no_transaction(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> object:
        answer = answer_or_none(target, AddPartitionsToTxnRequest(transactions=[]), 5)
        return NO_ANSWER if answer is None else ErrorCode(answer.error_code)

    assert ask(real_kafka) == NO_ANSWER
    assert ask(emulator) == ErrorCode.NONE


def test_repeated_entries(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> list[int]:
        world = new_world(target, "repeated")
        wait_for_group_coordinator(world, world.name)
        answer = world.probe(DescribeGroupsRequest(groups=[world.name] * 13), 5)
        world.close()
        return [group.error_code for group in answer.groups]

    assert ask(real_kafka) == [ErrorCode.NONE] * 13
    assert ask(emulator) == [ErrorCode.NONE] * 11 + [ErrorCode.INVALID_REQUEST] * 2


def test_an_application_server_without_its_topics(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> tuple[int, list[int]]:
        world = new_world(target, "application-server")
        wait_for_group_coordinator(world, world.name)
        group = streams_groups.Streams(world.name, (streams_groups.reading(f"{world.name}-none"),))
        endpoint = StreamsGroupHeartbeatRequest.Endpoint(host="here", port=70)
        answer = world.probe(
            group.join("a", user_endpoint=endpoint, endpoint_information_epoch=-1), 0
        )
        world.close()
        return answer.error_code, [status.status_code for status in answer.status or []]

    missing_sources = 1
    assert ask(real_kafka)[0] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert ask(emulator) == (ErrorCode.NONE, [missing_sources])


def test_a_refused_owner_of_an_instance_id(real_kafka: Target, emulator: Target) -> None:
    """A streams group rebalances, and another member tries to use an instance id."""

    def ask(target: Target) -> tuple[ErrorCode, list[int]]:
        world = new_world(target, "instance-id")
        group = streams_groups.new_group(world)
        world.probe(group.join("a", instance_id="i"), 1)
        world.probe(group.join("b"), 1)
        refused = world.probe(group.join("c", instance_id="i"), 1)
        answer = world.probe(group.heartbeat("a", 2, instance_id="i"), 1)
        world.close()
        return ErrorCode(refused.error_code), [
            partition for tasks in answer.active_tasks for partition in tasks.partitions
        ]

    assert ask(real_kafka) == (ErrorCode.UNRELEASED_INSTANCE_ID, [])
    assert ask(emulator) == (ErrorCode.UNRELEASED_INSTANCE_ID, [0, 1])


def test_an_acknowledgement_below_the_start_offset(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> int:
        world = new_world(target, "below-start")
        shared = shared_topic(world, 5, 5)
        world.probe(shared.fetch("a", FIRST, 0, max_records=5), V)
        world.probe(shared.ack("a", 1, (0, 4, [ACCEPT])), V)
        answer = world.probe(shared.ack("a", 2, (3, 7, [ACCEPT])), V)
        world.close()
        if answer.error_code:
            return int(answer.error_code)
        return int(answer.responses[0].partitions[0].error_code)

    assert ask(real_kafka) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert ask(emulator) == ErrorCode.INVALID_RECORD_STATE


def test_a_batch_size_of_zero(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> list[tuple[int, int]]:
        world = new_world(target, "batch-size")
        shared = shared_topic(world, 3)
        answer = world.probe(shared.fetch("a", FIRST, 0, batch_size=0), V)
        world.close()
        return [
            (batch.first_offset, batch.last_offset)
            for topic in answer.responses
            for partition in topic.partitions
            for batch in partition.acquired_records
        ]

    batch_without_records = (0, -1)
    assert ask(real_kafka) == [batch_without_records, (0, 2)]
    assert ask(emulator) == [(0, 2)]


def test_share_sessions_of_one_connection(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> set[int]:
        world = new_world(target, "sessions")
        shared = shared_topic(world, 1, 1)
        for member in ("a", "b"):
            answer = world.ask(shared.fetch(member, FIRST, 0, max_records=1), V, on="both")
            assert len(answer.responses[0].partitions[0].acquired_records) == 1
        world.disconnect("both")
        released: set[int] = set()
        fetches_after_the_last = 0
        for epoch in range(_MAX_FETCHES):
            answer = world.probe(shared.fetch("c", epoch, 0, max_wait_ms=_FETCH_MS), V)
            released |= {
                batch.first_offset
                for topic in answer.responses
                for partition in topic.partitions
                for batch in partition.acquired_records
            }
            fetches_after_the_last += 1 in released
            if released == {0, 1} or fetches_after_the_last > _MORE_FETCHES:
                break
        world.close()
        return released

    assert ask(real_kafka) == {1}
    assert ask(emulator) == {0, 1}


def test_a_request_version_that_kafka_removed(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> object:
        world = new_world(target, "removed")
        wait_for_group_coordinator(world, world.name)
        try:
            answer = world.probe(OffsetFetchRequest(group_id=world.name, topics=[]), 0)
        except ConnectionClosedError:
            return "the connection was closed"
        finally:
            world.close()
        return answer.topics

    assert ask(real_kafka) == "the connection was closed"
    assert ask(emulator) == []


# Work that kafkalite has done when it answers, and that Kafka does then or later.


def test_a_transaction_after_its_end(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> str:
        world = new_world(target, "ended")
        create_topic(world, world.name, 3)
        producer = start_producer(world, NEW)
        producer.begin(0, 1, 2)
        assert producer.commit().error_code == ErrorCode.NONE
        answer = world.probe(describe(producer.transactional_id), 0)
        world.close()
        (state,) = answer.transaction_states
        return str(state.transaction_state)

    assert ask(real_kafka) in {"PrepareCommit", "CompleteCommit"}
    assert ask(emulator) == "CompleteCommit"


def test_partitions_of_a_share_member(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> int | None:
        world = new_world(target, "share-member")
        group = share_groups.new_share_group(world, 2)
        joined = world.probe(group.join("a"), share_groups.V1)
        answer = world.probe(group.beat("a", joined.member_epoch), share_groups.V1)
        world.close()
        if answer.assignment is None:
            return None
        return sum(len(row.partitions) for row in answer.assignment.topic_partitions)

    assert ask(real_kafka) in {None, 2}
    assert ask(emulator) == 2


def test_internal_topics_of_a_streams_group(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> list[int]:
        world = new_world(target, "internal-topics")
        create_topic(world, f"{world.name}-topic")
        wait_for_group_coordinator(world, world.name)
        changelog = streams_groups.internal(f"{world.name}-changelog")
        subtopology = streams_groups.reading(
            f"{world.name}-topic", state_changelog_topics=[changelog]
        )
        group = streams_groups.Streams(world.name, (subtopology,))
        joined = world.probe(group.join("a"), 0)
        answer = world.probe(group.heartbeat("a", joined.member_epoch), 0)
        world.close()
        return [status.status_code for status in answer.status or []]

    missing_internal_topics = 3
    assert ask(real_kafka) in ([missing_internal_topics], [])
    assert ask(emulator) == []


# Earlier differences, which this Kafka does not have.


def an_instance_id_is_given_up(world: World) -> None:
    group = consumer_groups.new_group(world)
    world.ask(group.join("a", instance_id="i-1"), _HEARTBEAT)
    world.ask(group.join("a", instance_id="i-2"), _HEARTBEAT)
    world.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)
    world.ask(group.join("b", instance_id="i-1"), _HEARTBEAT)
    world.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)


def a_dynamic_member_follows_a_static_one(world: World) -> None:
    group = consumer_groups.new_group(world, 2)
    world.ask(group.join("a", instance_id="i-1"), _HEARTBEAT)
    world.ask(group.heartbeat("a", _LEAVE_FOR_A_WHILE, instance_id="i-1"), _HEARTBEAT)
    world.ask(group.join("a"), _HEARTBEAT)
    world.ask(group.join("b"), _HEARTBEAT)
    world.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)


def subscriptions_have_invalid_lengths(world: World) -> None:
    garbage = (b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1", b"\0\0\0\0\0\1\x7f\xff", b"\xff" * 99)
    for index, metadata in enumerate(garbage):
        group = Classic(f"{world.name}-{index}")
        wait_for_group_coordinator(world, group.group)
        member_id = world.ask(group.join(), _JOIN).member_id
        joined = world.ask(group.join(member_id, metadata=metadata), _JOIN)
        world.ask(group.sync(member_id, joined.generation_id, member_id), _SYNC)


@pytest.mark.parametrize(
    "scenario",
    [
        subscriptions_have_invalid_lengths,
        an_instance_id_is_given_up,
        a_dynamic_member_follows_a_static_one,
    ],
    ids=lambda scenario: scenario.__name__,
)
def test_an_earlier_difference_is_gone(
    scenario: Scenario, real_kafka: Target, emulator: Target
) -> None:
    assert differences(play(scenario, real_kafka), play(scenario, emulator)) == []
