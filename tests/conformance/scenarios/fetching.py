"""Fetch in every version: limits, waits and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.fetch import FetchRequest
from tests.conformance.batches import batch
from tests.conformance.setup import UNKNOWN_ID, create_topic, fill, produce

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_BY_ID = 13
_MANY_BYTES = 1 << 20
_LONG_MS = 10_000


def partition_at(index: int = 0, offset: int = 0, **fields: int) -> FetchRequest.FetchPartition:
    """Ask for records of one partition from an offset on."""
    row = FetchRequest.FetchPartition(
        partition=index, fetch_offset=offset, partition_max_bytes=_MANY_BYTES
    )
    for name, value in fields.items():
        setattr(row, name, value)
    return row


def fetch_from(
    topic: str | bytes,
    *partitions: FetchRequest.FetchPartition,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = _MANY_BYTES,
    session_id: int = 0,
    session_epoch: int = -1,
) -> FetchRequest:
    """Ask for partitions of one topic, by name or (v13) by id."""
    named = FetchRequest.FetchTopic(partitions=list(partitions))
    if isinstance(topic, bytes):
        named.topic_id = topic
    else:
        named.topic = topic
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[named] if partitions else [],
    )


def records_are_fetched_in_every_version(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a", b"b")
    fill(cluster, cluster.name, b"c")
    for version in range(4, 19):
        topic: str | bytes = topic_id if version >= _BY_ID else cluster.name
        for offset in (0, 1, 2, 3):
            cluster.ask(fetch_from(topic, partition_at(offset=offset)), version)


def offsets_outside_the_log_are_refused(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a", b"b")
    for version in (4, 11, 12):
        for offset in (3, 99, -1, -2):
            cluster.ask(fetch_from(cluster.name, partition_at(offset=offset)), version)


def fetching_from_unknown_partitions_is_refused(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    for version in (4, 7, 12):
        cluster.ask(fetch_from(f"{cluster.name}-missing", partition_at()), version)
        cluster.ask(fetch_from(cluster.name, partition_at(7)), version)
    for version in (13, 17):
        cluster.ask(fetch_from(UNKNOWN_ID, partition_at()), version)
        cluster.ask(fetch_from(topic_id, partition_at(7)), version)
        cluster.ask(fetch_from(bytes(16), partition_at()), version)


def at_least_one_batch_is_returned(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    for partition in (0, 1):
        fill(cluster, cluster.name, b"x" * 1000, partition=partition)
        fill(cluster, cluster.name, b"y" * 1000, partition=partition)
    for version in (4, 12):
        cluster.ask(fetch_from(cluster.name, partition_at(), partition_at(1), max_bytes=1), version)
        small = [partition_at(index, partition_max_bytes=1) for index in (0, 1)]
        cluster.ask(fetch_from(cluster.name, *small), version)
        cluster.ask(fetch_from(cluster.name, *reversed(small)), version)
        exact = partition_at(partition_max_bytes=1080)
        cluster.ask(
            fetch_from(cluster.name, exact, partition_at(1, partition_max_bytes=0)), version
        )


def leader_epochs_are_checked(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a")
    for epoch in (-1, 0, 1, 9, -2):
        cluster.ask(fetch_from(cluster.name, partition_at(current_leader_epoch=epoch)), 12)
        cluster.ask(fetch_from(topic_id, partition_at(current_leader_epoch=epoch)), 16)
    for last_epoch in (-1, 0, 3):
        row = partition_at(offset=1, last_fetched_epoch=last_epoch)
        cluster.ask(fetch_from(cluster.name, row), 12)


def isolation_has_no_effect_without_transactions(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a")
    for level in (0, 1):
        for version in (4, 12):
            request = fetch_from(cluster.name, partition_at())
            request.isolation_level = level
            cluster.ask(request, version)


def a_fetch_waits_for_enough_bytes(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a")
    for version, topic in ((11, cluster.name), (16, topic_id)):
        end = 1 if version == 11 else 2  # each round appends one record
        waiting = fetch_from(topic, partition_at(offset=end), max_wait_ms=_LONG_MS, min_bytes=1)
        cluster.send(waiting, version, on="waiting")
        cluster.ask(produce(cluster.name, batch(b"b")), 9)
        # Kafka may read the high watermark shortly before it is raised for the new record.
        answer = cluster.connection("waiting").receive()
        row = answer.responses[0].partitions[0]
        cluster.record(f"v{version}", [int(row.error_code), len(row.records or b"")])


def a_fetch_ends_after_its_maximum_wait(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a")
    for version in (4, 12):
        patient = fetch_from(cluster.name, partition_at(offset=1), max_wait_ms=100, min_bytes=1)
        cluster.ask(patient, version)
        greedy = fetch_from(cluster.name, partition_at(), max_wait_ms=100, min_bytes=_MANY_BYTES)
        cluster.ask(greedy, version)


def an_unknown_partition_does_not_end_the_wait(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a")
    rows = [partition_at(offset=1), partition_at(7)]
    cluster.ask(fetch_from(cluster.name, *rows, max_wait_ms=200, min_bytes=1), 12)
    rows = [partition_at(offset=1), partition_at(1, offset=9)]
    cluster.ask(fetch_from(cluster.name, *rows, max_wait_ms=200, min_bytes=1), 12)


def a_fetch_session_returns_only_changes(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name, partitions=2)
    fill(cluster, cluster.name, b"a")
    rows = [partition_at(), partition_at(1)]
    for version, topic in ((12, cluster.name), (16, topic_id)):
        first = cluster.ask(fetch_from(topic, *rows, session_epoch=0), version)
        session = first.session_id
        cluster.record("has a session", session != 0)
        same = fetch_from(topic, session_id=session, session_epoch=1)
        cluster.ask(same, version)
        moved = fetch_from(topic, partition_at(offset=1), session_id=session, session_epoch=2)
        cluster.ask(moved, version)
        fill(cluster, cluster.name, b"b", partition=1)
        cluster.ask(fetch_from(topic, session_id=session, session_epoch=3), version)
        forget = fetch_from(topic, session_id=session, session_epoch=4)
        row = FetchRequest.ForgottenTopic(partitions=[1])
        if isinstance(topic, bytes):
            row.topic_id = topic
        else:
            row.topic = topic
        forget.forgotten_topics_data = [row]
        cluster.ask(forget, version)
        fill(cluster, cluster.name, b"c", partition=1)
        cluster.ask(fetch_from(topic, session_id=session, session_epoch=5), version)
        cluster.ask(fetch_from(topic, session_id=session, session_epoch=-1), version)
        cluster.ask(fetch_from(topic, session_id=session, session_epoch=6), version)


def sessions_are_checked(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a")
    for version in (7, 12):
        cluster.ask(fetch_from(cluster.name, session_id=987_654, session_epoch=1), version)
        first = cluster.ask(fetch_from(cluster.name, partition_at(), session_epoch=0), version)
        session = first.session_id
        cluster.ask(fetch_from(cluster.name, session_id=session, session_epoch=5), version)
        cluster.ask(fetch_from(cluster.name, session_id=session, session_epoch=1), version)
        cluster.ask(fetch_from(cluster.name, session_id=session, session_epoch=1), version)
        again = fetch_from(cluster.name, partition_at(), session_id=session, session_epoch=0)
        cluster.ask(again, version)
        cluster.ask(fetch_from(cluster.name, session_id=session, session_epoch=2), version)
        cluster.ask(fetch_from(cluster.name, session_id=0, session_epoch=3), version)


def a_session_remembers_unknown_topics(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a")
    first = cluster.ask(fetch_from(f"{cluster.name}-missing", partition_at(), session_epoch=0), 12)
    cluster.ask(fetch_from(cluster.name, session_id=first.session_id, session_epoch=1), 12)
    by_id = cluster.ask(fetch_from(UNKNOWN_ID, partition_at(), session_epoch=0), 16)
    cluster.ask(fetch_from(b"", session_id=by_id.session_id, session_epoch=1), 16)


def unknown_replicas_are_refused(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a")
    request = fetch_from(cluster.name, partition_at())
    request.replica_id = 9
    cluster.ask(request, 12)


SCENARIOS = (
    records_are_fetched_in_every_version,
    offsets_outside_the_log_are_refused,
    fetching_from_unknown_partitions_is_refused,
    at_least_one_batch_is_returned,
    leader_epochs_are_checked,
    isolation_has_no_effect_without_transactions,
    a_fetch_waits_for_enough_bytes,
    a_fetch_ends_after_its_maximum_wait,
    an_unknown_partition_does_not_end_the_wait,
    a_fetch_session_returns_only_changes,
    sessions_are_checked,
    a_session_remembers_unknown_topics,
    unknown_replicas_are_refused,
)
