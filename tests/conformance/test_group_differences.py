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
from tests.conformance.scenario_cluster import ScenarioCluster
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


def new_cluster(target: Target, title: str) -> ScenarioCluster:
    """Return a cluster whose topics and groups have a new name."""
    return ScenarioCluster(target.port, f"groups-{title}-{next(_names)}")


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
        cluster = new_cluster(target, "empty")
        group = consumer_groups.new_group(cluster, 2)
        cluster.probe(group.join(first), _HEARTBEAT)
        cluster.probe(group.join("leaving"), _HEARTBEAT)
        cluster.probe(group.heartbeat("leaving", _LEAVE), _HEARTBEAT)
        joined = cluster.probe(group.join(other, subscribed_topic_names=[]), _HEARTBEAT)
        assert joined.error_code == ErrorCode.NONE
        answer = cluster.probe(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)
        cluster.close()
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
        cluster = new_cluster(target, "release")
        shared = shared_topic(cluster, 3)
        assert acquired(cluster.probe(shared.fetch("a", FIRST, 0), V)) == [(0, 2)]
        releasing = shared.fetch("a", 1, acks={0: [(0, 2, [RELEASE])]})
        answers = [acquired(cluster.probe(releasing, V))]
        if not answers[0]:
            answers.append(acquired(cluster.probe(shared.fetch("a", 2, max_wait_ms=5000), V)))
        cluster.close()
        return answers

    real, emulated = patient
    assert ask(real) == [[], [(0, 2)]]
    assert ask(emulated) == [[(0, 2)]]


def test_a_waiting_fetch_of_another_member(patient: tuple[Target, Target]) -> None:
    """A member releases records while another member's ShareFetch waits for them."""

    def is_early(target: Target, max_wait_ms: int) -> bool:
        """Return whether the ShareFetch is answered before its longest wait ends."""
        cluster = new_cluster(target, "waiting")
        shared = shared_topic(cluster, 3)
        assert acquired(cluster.probe(shared.fetch("a", FIRST, 0), V)) == [(0, 2)]
        begin = time.monotonic()
        cluster.send(shared.fetch("b", FIRST, 0, max_wait_ms=max_wait_ms), V, on="waiting")
        cluster.probe(shared.ack("a", 1, (0, 2, [RELEASE])), V)
        assert acquired(cluster.receive("waiting")) == [(0, 2)]
        cluster.close()
        return time.monotonic() - begin < max_wait_ms / 1000

    real, emulated = patient
    deadline = time.monotonic() + _RACE_S
    # The release must be written after the beginning of the wait, which is likely.
    while is_early(real, 2_000):
        assert time.monotonic() < deadline
    assert is_early(emulated, 60_000)


_LETTERS: Final = 8
"""The number of batches of dead letters that kafkalite writes before it answers."""


def rejected_records(cluster: ScenarioCluster) -> tuple[int, int]:
    """Reject every second record of a batch.

    Return how many dead letters there are right after the answer, and the final number of batches.
    """
    topic = f"dlq.{cluster.name}"
    create_topic(cluster, topic, configs={"errors.deadletterqueue.group.enable": "true"})
    config = {"errors.deadletterqueue.topic.name": topic}
    shared = shared_topic(cluster, 2 * _LETTERS, config=config)
    cluster.probe(shared.fetch("a", FIRST, 0), V)
    words = [ACCEPT, REJECT] * _LETTERS
    cluster.send(shared.ack("a", 1, (0, 2 * _LETTERS - 1, words)), V, on="member")
    cluster.send(list_offsets(topic, timestamp=LATEST), 7, on="member")
    acknowledged, ends = cluster.receive("member"), cluster.receive("member")
    assert acknowledged.responses[0].partitions[0].error_code == ErrorCode.NONE
    fetch = fetch_from(topic, partition_at(0))
    response = cluster.call_until(fetch, 12, lambda found: len(letters(found)) == _LETTERS)
    data = bytes(response.responses[0].partitions[0].records)
    return ends.topics[0].partitions[0].offset, len(split_batches(data))


def letters(response: Any) -> list[Any]:
    """Return the records in a Fetch response."""
    (row,) = response.responses[0].partitions
    return [each for batch in split_batches(bytes(row.records or b"")) for each in batch.records()]


def test_dead_letters_and_the_acknowledgement(real_kafka: Target, emulator: Target) -> None:
    """Kafka writes them later, and joins those that it has collected; each race ends so or not."""

    def ask(target: Target) -> tuple[int, int]:
        cluster = new_cluster(target, "letters")
        result = rejected_records(cluster)
        cluster.close()
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
        cluster = new_cluster(target, "sessions")
        shared = Shared(cluster, cluster.name, cluster.name, topic_ids[0])
        wait_for_group_coordinator(cluster, cluster.name)
        request = shared.fetch("a", FIRST, *range(partitions))
        rows = request.topics[0].partitions
        row = ShareFetchRequest.FetchTopic
        request.topics = [row(topic_id=each, partitions=rows) for each in topic_ids]
        client = RawClient(target.port, _LONG_CALL_S)
        answer = client.call(request, V)
        client.call(shared.fetch("a", LAST), V)
        client.close()
        cluster.close()
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
        cluster = new_cluster(target, f"batches-{title}")
        topic_id = create_topic(cluster, cluster.name)
        ready_share_coordinator(cluster, cluster.name, topic_id)
        cluster.call_until(
            initialize(cluster.name, topic_id, 1),
            0,
            lambda answer: answer.results[0].partitions[0].error_code == ErrorCode.NONE,
        )
        answer = cluster.probe(write_state(cluster.name, topic_id, 0, 0, 0, 0, 0, batches), 1)
        cluster.close()
        return ErrorCode(answer.results[0].partitions[0].error_code)

    assert ask(real_kafka) == real_code
    assert ask(emulator) == ErrorCode.INVALID_REQUEST


# Streams groups


def changelogs_of(cluster: ScenarioCluster) -> list[int]:
    """Return the described numbers of partitions of a group's changelogs."""
    answer = cluster.probe(StreamsGroupDescribeRequest(group_ids=[cluster.name]), 1)
    (subtopology,) = answer.groups[0].topology.subtopologies
    return [topic.partitions for topic in subtopology.state_changelog_topics]


def join_with_changelogs(
    cluster: ScenarioCluster, partitions: int, changelogs: int
) -> tuple[streams_groups.Streams, Any]:
    """Let a member join whose tasks have changelogs; return its group and the response."""
    create_topic(cluster, f"{cluster.name}-topic", partitions)
    wait_for_group_coordinator(cluster, cluster.name)
    names = [f"{cluster.name}-changelog-{number}" for number in range(changelogs)]
    subtopology = streams_groups.reading(
        f"{cluster.name}-topic",
        state_changelog_topics=[streams_groups.internal(name) for name in names],
    )
    group = streams_groups.Streams(cluster.name, (subtopology,))
    return group, cluster.probe(group.join("a"), _HEARTBEAT)


def test_the_described_partitions_of_internal_topics(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target) -> tuple[list[int], list[int]]:
        """Return the partitions after the second heartbeat, and after enough heartbeats."""
        cluster = new_cluster(target, "described")
        group, answer = join_with_changelogs(cluster, 3, 1)
        answer = cluster.probe(group.heartbeat("a", answer.member_epoch), _HEARTBEAT)
        second = changelogs_of(cluster)
        last = second
        deadline = time.monotonic() + _RACE_S
        while last != [3] and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            answer = cluster.probe(group.heartbeat("a", answer.member_epoch), _HEARTBEAT)
            last = changelogs_of(cluster)
        cluster.close()
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
        cluster = new_cluster(target, "excessive")
        changelogs = MAX_PARTITIONS_PER_REQUEST // partitions + 1
        group, answer = join_with_changelogs(cluster, partitions, changelogs)
        deadline = time.monotonic() + _RACE_S
        while reason not in detail(answer) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            answer = cluster.probe(group.heartbeat("a", answer.member_epoch), _HEARTBEAT)
        assert set(changelogs_of(cluster)) == {0}
        cluster.close()
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
        cluster = new_cluster(target, f"large-{limit}")
        source = f"{cluster.name}-topic"
        subtopologies = [streams_groups.reading(*["a"] * MAX_TOPOLOGY_ELEMENTS)]
        if limit == "tasks":
            create_topic(cluster, source, partitions)
            subtopologies = [
                streams_groups.reading(source, name=f"{number}") for number in range(count)
            ]
        wait_for_group_coordinator(cluster, cluster.name)
        group = streams_groups.Streams(cluster.name, tuple(subtopologies))
        client = RawClient(target.port, _LONG_CALL_S)
        answer = client.call(group.join("a"), _HEARTBEAT)
        client.close()
        cluster.close()
        tasks = sum(len(row.partitions) for row in answer.active_tasks or ())
        return ErrorCode(answer.error_code), tasks

    accepted = (ErrorCode.NONE, count * partitions if limit == "tasks" else 0)
    assert ask(real_kafka) == accepted
    assert ask(emulator) == (refused, 0)


def test_a_large_heartbeat(real_kafka: Target, emulator: Target) -> None:
    def ask(target: Target, offsets: int, tags: int) -> ErrorCode:
        cluster = new_cluster(target, "heartbeat")
        group = streams_groups.new_group(cluster, 1)
        row = streams_groups.Request
        request = group.join(
            "a",
            task_offsets=[
                row.TaskOffset(subtopology_id="0", partition=index, offset=1)
                for index in range(offsets)
            ],
            client_tags=[row.KeyValue(key=f"{number}", value="") for number in range(tags)],
        )
        answer = cluster.probe(request, _HEARTBEAT)
        cluster.close()
        return ErrorCode(answer.error_code)

    for offsets, tags in ((MAX_MEMBER_ELEMENTS + 1, 0), (0, MAX_MEMBER_ELEMENTS // 4 + 1)):
        assert ask(real_kafka, offsets, tags) == ErrorCode.NONE
        assert ask(emulator, offsets, tags) == ErrorCode.UNKNOWN_SERVER_ERROR


# Transactions


def test_a_produce_during_the_end_of_a_transaction(patient: tuple[Target, Target]) -> None:
    """The markers of a large transaction are being written, and its producer begins another."""

    def ask(target: Target) -> tuple[ErrorCode, ErrorCode]:
        cluster = new_cluster(target, "ending")
        partitions = 210
        create_topic(cluster, cluster.name, partitions)
        producer = start_producer(cluster, NEW)
        name = producer.transactional_id
        request = write(name, producer.producer, cluster.name)
        (row,) = request.topic_data[0].partition_data
        request.topic_data[0].partition_data = [
            ProduceRequest.PartitionProduceData(index=index, records=row.records)
            for index in range(partitions)
        ]
        answer = cluster.probe(request, NEW.produce)
        assert {row.error_code for row in answer.responses[0].partition_responses} == {0}
        cluster.send(end(name, producer.producer, is_commit=COMMIT), NEW.end, on="producer")
        cluster.send(write(name, producer.newer, cluster.name), NEW.produce, on="producer")
        ended, produced = cluster.receive("producer"), cluster.receive("producer")
        cluster.close()
        (row,) = produced.responses[0].partition_responses
        return ErrorCode(ended.error_code), ErrorCode(row.error_code)

    assert [ask(target) for target in patient] == [(ErrorCode.NONE, ErrorCode.NONE)] * 2
