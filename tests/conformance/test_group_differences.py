"""Known differences of groups and transactions that depend on speed, or concern limits.

One real Kafka writes the state of share groups slowly, so its later answers are deterministic.
Other tests repeat a short race until Kafka's later answer is seen. kafkalite always gives the
documented answer. `test_known_differences.py` has the other differences.
"""

# ruff: noqa: ANN401 - responses of any API
from __future__ import annotations

import time
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.groups.streams.configured_topology import MAX_TASKS
from kafkalite.groups.streams.topology import MAX_MEMBER_ELEMENTS, MAX_TOPOLOGY_ELEMENTS
from kafkalite.metadata.creation import MAX_PARTITIONS_PER_REQUEST
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchRequest
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.shares.sessions import MAX_PARTITIONS
from kafkalite.shares.shard import MAX_BATCHES
from kafkalite.storage.batch import split_batches
from tests.conformance.raw import RawClient
from tests.conformance.scenarios import consumer_groups, streams_groups
from tests.conformance.scenarios.fetching import fetch_from, partition_at
from tests.conformance.scenarios.share_fetching import (
    ACCEPT,
    FIRST,
    LAST,
    REJECT,
    RELEASE,
    Shared,
    V,
    initialize,
    ready_share_coordinator,
    shared_topic,
    write_state,
)
from tests.conformance.setup import (
    LATEST,
    create_topic,
    list_offsets,
    wait_for_group_coordinator,
)
from tests.conformance.transactional_producer import COMMIT, NEW, end, start_producer, write
from tests.conformance.world import World
from tests.oracle.fixtures import broker_under_test, running_targets
from tests.oracle.real_kafka import RealKafka
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(180)]

_PATIENT: Final = {
    **COMMON_CONFIG,
    "add.partitions.to.txn.retry.backoff.max.ms": "20000",
    "share.coordinator.append.linger.ms": "500",
}
"""Kafka writes the state of share groups half a second later; kafkalite ignores this setting."""

_RACE_S: Final = 30.0
_PAUSE_S: Final = 0.02
_LONG_CALL_S: Final = 60.0
_HEARTBEAT: Final = 1
_LEAVE: Final = -1

_names = count()


def new_world(target: Target, title: str) -> World:
    """Return a world whose topics and groups have a new name."""
    return World(target.port, f"groups-{title}-{next(_names)}")


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Target]]:
    """Start a real Kafka and a broker under test with the settings above."""
    kafka = RealKafka(tmp_path_factory.mktemp("patient-kafka"), _PATIENT)
    emulator = broker_under_test(tmp_path_factory.mktemp("patient"), _PATIENT)
    with running_targets(kafka, emulator):
        yield kafka, emulator


# A member without a subscription


@pytest.mark.parametrize(
    ("first", "other", "real_target"),
    [("a", "c", {"a": [0], "c": [1]}), ("c", "a", {"a": [], "c": []})],
)
def test_a_join_with_an_empty_subscription(
    real_kafka: Target,
    emulator: Target,
    first: str,
    other: str,
    real_target: dict[str, list[int]],
) -> None:
    """A member has left, so the next heartbeat computes a target assignment.

    Kafka takes the subscription of the member whose id is first in a hash map for that of all.
    """

    def ask(target: Target) -> dict[str, list[int]]:
        """Return the target assignment of each member."""
        world = new_world(target, "empty")
        group = consumer_groups.new_group(world, 2)
        world.probe(group.join(first), _HEARTBEAT)
        world.probe(group.join("leaving"), _HEARTBEAT)
        world.probe(group.heartbeat("leaving", _LEAVE), _HEARTBEAT)
        joined = world.probe(group.join(other, subscribed_topic_names=[]), _HEARTBEAT)
        assert joined.error_code == ErrorCode.NONE
        answer = world.probe(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)
        world.close()
        return {
            member.member_id: [
                partition
                for topic in member.target_assignment.topic_partitions
                for partition in topic.partitions
            ]
            for member in answer.groups[0].members
        }

    assert ask(real_kafka) == real_target
    assert ask(emulator) == {first: [0, 1], other: []}


# Share groups


def acquired(answer: Any) -> list[tuple[int, int]]:
    """Return the first and last offsets of the acquired batches in a ShareFetch response."""
    return [
        (batch.first_offset, batch.last_offset)
        for topic in answer.responses
        for partition in topic.partitions
        for batch in partition.acquired_records
    ]


def test_a_fetch_that_releases_records(patient: tuple[Target, Target]) -> None:
    """A ShareFetch releases records and does not wait; the next one waits."""

    def ask(target: Target) -> list[list[tuple[int, int]]]:
        world = new_world(target, "release")
        shared = shared_topic(world, 3)
        assert acquired(world.probe(shared.fetch("a", FIRST, 0), V)) == [(0, 2)]
        releasing = shared.fetch("a", 1, acks={0: [(0, 2, [RELEASE])]})
        answers = [acquired(world.probe(releasing, V))]
        if not answers[0]:
            answers.append(acquired(world.probe(shared.fetch("a", 2, max_wait_ms=5000), V)))
        world.close()
        return answers

    real, emulated = patient
    assert ask(real) == [[], [(0, 2)]]
    assert ask(emulated) == [[(0, 2)]]


def test_a_waiting_fetch_of_another_member(patient: tuple[Target, Target]) -> None:
    """A member releases records while another member's ShareFetch waits for them."""

    def is_early(target: Target, max_wait_ms: int) -> bool:
        """Return whether the ShareFetch is answered before its longest wait ends."""
        world = new_world(target, "waiting")
        shared = shared_topic(world, 3)
        assert acquired(world.probe(shared.fetch("a", FIRST, 0), V)) == [(0, 2)]
        begin = time.monotonic()
        world.send(shared.fetch("b", FIRST, 0, max_wait_ms=max_wait_ms), V, on="waiting")
        world.probe(shared.ack("a", 1, (0, 2, [RELEASE])), V)
        assert acquired(world.receive("waiting")) == [(0, 2)]
        world.close()
        return time.monotonic() - begin < max_wait_ms / 1000

    real, emulated = patient
    deadline = time.monotonic() + _RACE_S
    # The release must be written after the beginning of the wait, which is likely.
    while is_early(real, 2_000):
        assert time.monotonic() < deadline
    assert is_early(emulated, 60_000)


_LETTERS: Final = 8
"""The number of batches of dead letters that kafkalite writes before it answers."""


def rejected_records(world: World) -> tuple[int, int]:
    """Reject every second record of a batch.

    Return how many dead letters there are right after the answer, and the final number of batches.
    """
    topic = f"dlq.{world.name}"
    create_topic(world, topic, configs={"errors.deadletterqueue.group.enable": "true"})
    config = {"errors.deadletterqueue.topic.name": topic}
    shared = shared_topic(world, 2 * _LETTERS, config=config)
    world.probe(shared.fetch("a", FIRST, 0), V)
    words = [ACCEPT, REJECT] * _LETTERS
    world.send(shared.ack("a", 1, (0, 2 * _LETTERS - 1, words)), V, on="member")
    world.send(list_offsets(topic, timestamp=LATEST), 7, on="member")
    acknowledged, ends = world.receive("member"), world.receive("member")
    assert acknowledged.responses[0].partitions[0].error_code == ErrorCode.NONE
    fetch = fetch_from(topic, partition_at(0))
    response = world.call_until(fetch, 12, lambda found: len(letters(found)) == _LETTERS)
    data = bytes(response.responses[0].partitions[0].records)
    return ends.topics[0].partitions[0].offset, len(split_batches(data))


def letters(response: Any) -> list[Any]:
    """Return the records in a Fetch response."""
    (row,) = response.responses[0].partitions
    return [each for batch in split_batches(bytes(row.records or b"")) for each in batch.records()]


def test_dead_letters_and_the_acknowledgement(real_kafka: Target, emulator: Target) -> None:
    """Kafka writes them later, and joins those that it has collected; each race ends so or not."""

    def ask(target: Target) -> tuple[int, int]:
        world = new_world(target, "letters")
        result = rejected_records(world)
        world.close()
        return result

    deadline = time.monotonic() + _RACE_S
    is_later = is_joined = False
    while not (is_later and is_joined) and time.monotonic() < deadline:
        present, batches = ask(real_kafka)
        is_later |= present < _LETTERS
        is_joined |= batches < _LETTERS
    assert (is_later, is_joined) == (True, True)
    assert ask(emulator) == (_LETTERS, _LETTERS)


def test_partitions_in_share_sessions(real_kafka: Target, emulator: Target) -> None:
    """One session has more partitions than all sessions of a node of kafkalite may have."""
    partitions = 100
    # With consecutive ids, collisions in Kafka's hash tables would take minutes.
    topic_ids = [sha256(b"%d" % n).digest()[:16] for n in range(MAX_PARTITIONS // partitions + 1)]

    def ask(target: Target) -> tuple[ErrorCode, int]:
        world = new_world(target, "sessions")
        shared = Shared(world, world.name, world.name, topic_ids[0])
        wait_for_group_coordinator(world, world.name)
        request = shared.fetch("a", FIRST, *range(partitions))
        rows = request.topics[0].partitions
        row = ShareFetchRequest.FetchTopic
        request.topics = [row(topic_id=each, partitions=rows) for each in topic_ids]
        client = RawClient(target.port, _LONG_CALL_S)
        answer = client.call(request, V)
        client.call(shared.fetch("a", LAST), V)
        client.close()
        world.close()
        codes = [each.error_code for topic in answer.responses for each in topic.partitions]
        assert set(codes) <= {ErrorCode.UNKNOWN_TOPIC_ID}
        return ErrorCode(answer.error_code), len(codes)

    assert ask(real_kafka) == (ErrorCode.NONE, len(topic_ids) * partitions)
    assert ask(emulator) == (ErrorCode.SHARE_SESSION_LIMIT_REACHED, 0)


@pytest.mark.parametrize(
    ("title", "batches", "real_code"),
    [
        ("many", [(2 * n, 2 * n, 0, 1) for n in range(MAX_BATCHES + 1)], ErrorCode.NONE),
        ("negative", [(0, 1, 0, 1), (3, 2, 0, 1)], ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_batches_of_a_share_partition(
    real_kafka: Target,
    emulator: Target,
    title: str,
    batches: list[tuple[int, int, int, int]],
    real_code: ErrorCode,
) -> None:
    def ask(target: Target) -> ErrorCode:
        world = new_world(target, f"batches-{title}")
        topic_id = create_topic(world, world.name)
        ready_share_coordinator(world, world.name, topic_id)
        world.call_until(
            initialize(world.name, topic_id, 1),
            0,
            lambda answer: answer.results[0].partitions[0].error_code == ErrorCode.NONE,
        )
        answer = world.probe(write_state(world.name, topic_id, 0, 0, 0, 0, 0, batches), 1)
        world.close()
        return ErrorCode(answer.results[0].partitions[0].error_code)

    assert ask(real_kafka) == real_code
    assert ask(emulator) == ErrorCode.INVALID_REQUEST


# Streams groups


def changelogs_of(world: World) -> list[int]:
    """Return the described numbers of partitions of a group's changelogs."""
    answer = world.probe(StreamsGroupDescribeRequest(group_ids=[world.name]), 1)
    (subtopology,) = answer.groups[0].topology.subtopologies
    return [topic.partitions for topic in subtopology.state_changelog_topics]


def join_with_changelogs(
    world: World, partitions: int, changelogs: int
) -> tuple[streams_groups.Streams, Any]:
    """Let a member join whose tasks have changelogs; return its group and the response."""
    create_topic(world, f"{world.name}-topic", partitions)
    wait_for_group_coordinator(world, world.name)
    names = [f"{world.name}-changelog-{number}" for number in range(changelogs)]
    subtopology = streams_groups.reading(
        f"{world.name}-topic",
        state_changelog_topics=[streams_groups.internal(name) for name in names],
    )
    group = streams_groups.Streams(world.name, (subtopology,))
    return group, world.probe(group.join("a"), _HEARTBEAT)


def test_the_described_partitions_of_internal_topics(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> tuple[list[int], list[int]]:
        """Return the partitions after the second heartbeat, and after enough heartbeats."""
        world = new_world(target, "described")
        group, answer = join_with_changelogs(world, 3, 1)
        answer = world.probe(group.heartbeat("a", answer.member_epoch), _HEARTBEAT)
        second = changelogs_of(world)
        last = second
        deadline = time.monotonic() + _RACE_S
        while last != [3] and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            answer = world.probe(group.heartbeat("a", answer.member_epoch), _HEARTBEAT)
            last = changelogs_of(world)
        world.close()
        return second, last

    deadline = time.monotonic() + _RACE_S
    real = ask(real_kafka)
    while real != ([0], [3]) and time.monotonic() < deadline:
        real = ask(real_kafka)
    assert real == ([0], [3])
    assert ask(emulator) == ([3], [3])


def test_too_many_internal_topics(real_kafka: Target, emulator: Target) -> None:
    """Both brokers create none, and report the reason; Kafka does at a later heartbeat."""
    reason = "(Excessively large number of partitions per request.)"
    partitions = 100

    def ask(target: Target) -> bool:
        """Return whether a heartbeat reports the reason."""
        world = new_world(target, "excessive")
        changelogs = MAX_PARTITIONS_PER_REQUEST // partitions + 1
        group, answer = join_with_changelogs(world, partitions, changelogs)
        deadline = time.monotonic() + _RACE_S
        while reason not in detail(answer) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            answer = world.probe(group.heartbeat("a", answer.member_epoch), _HEARTBEAT)
        assert set(changelogs_of(world)) == {0}
        world.close()
        return reason in detail(answer)

    def detail(answer: Any) -> str:
        return "".join(status.status_detail for status in answer.status or ())

    assert [ask(target) for target in (real_kafka, emulator)] == [True, True]


@pytest.mark.parametrize(
    ("limit", "refused"),
    [("tasks", ErrorCode.STREAMS_INVALID_TOPOLOGY), ("names", ErrorCode.UNKNOWN_SERVER_ERROR)],
)
def test_a_large_topology(
    real_kafka: Target, emulator: Target, limit: str, refused: ErrorCode
) -> None:
    partitions = 100
    count = MAX_TASKS // partitions + 1

    def ask(target: Target) -> tuple[ErrorCode, int]:
        world = new_world(target, f"large-{limit}")
        source = f"{world.name}-topic"
        subtopologies = [streams_groups.reading(*["a"] * MAX_TOPOLOGY_ELEMENTS)]
        if limit == "tasks":
            create_topic(world, source, partitions)
            subtopologies = [
                streams_groups.reading(source, name=f"{number}") for number in range(count)
            ]
        wait_for_group_coordinator(world, world.name)
        group = streams_groups.Streams(world.name, tuple(subtopologies))
        client = RawClient(target.port, _LONG_CALL_S)
        answer = client.call(group.join("a"), _HEARTBEAT)
        client.close()
        world.close()
        tasks = sum(len(row.partitions) for row in answer.active_tasks or ())
        return ErrorCode(answer.error_code), tasks

    accepted = (ErrorCode.NONE, count * partitions if limit == "tasks" else 0)
    assert ask(real_kafka) == accepted
    assert ask(emulator) == (refused, 0)


def test_a_large_heartbeat(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target, offsets: int, tags: int) -> ErrorCode:
        world = new_world(target, "heartbeat")
        group = streams_groups.new_group(world, 1)
        row = streams_groups.Request
        request = group.join(
            "a",
            task_offsets=[
                row.TaskOffset(subtopology_id="0", partition=index, offset=1)
                for index in range(offsets)
            ],
            client_tags=[row.KeyValue(key=f"{number}", value="") for number in range(tags)],
        )
        answer = world.probe(request, _HEARTBEAT)
        world.close()
        return ErrorCode(answer.error_code)

    for offsets, tags in ((MAX_MEMBER_ELEMENTS + 1, 0), (0, MAX_MEMBER_ELEMENTS // 4 + 1)):
        assert ask(real_kafka, offsets, tags) == ErrorCode.NONE
        assert ask(emulator, offsets, tags) == ErrorCode.UNKNOWN_SERVER_ERROR


# Transactions


def test_a_produce_during_the_end_of_a_transaction(patient: tuple[Target, Target]) -> None:
    """The markers of a large transaction are being written, and its producer begins another."""

    def ask(target: Target) -> tuple[ErrorCode, ErrorCode]:
        world = new_world(target, "ending")
        partitions = 210
        create_topic(world, world.name, partitions)
        producer = start_producer(world, NEW)
        name = producer.transactional_id
        request = write(name, producer.producer, world.name)
        (row,) = request.topic_data[0].partition_data
        request.topic_data[0].partition_data = [
            ProduceRequest.PartitionProduceData(index=index, records=row.records)
            for index in range(partitions)
        ]
        answer = world.probe(request, NEW.produce)
        assert {row.error_code for row in answer.responses[0].partition_responses} == {0}
        world.send(end(name, producer.producer, is_commit=COMMIT), NEW.end, on="producer")
        world.send(write(name, producer.newer, world.name), NEW.produce, on="producer")
        ended, produced = world.receive("producer"), world.receive("producer")
        world.close()
        (row,) = produced.responses[0].partition_responses
        return ErrorCode(ended.error_code), ErrorCode(row.error_code)

    assert [ask(target) for target in patient] == [(ErrorCode.NONE, ErrorCode.NONE)] * 2
