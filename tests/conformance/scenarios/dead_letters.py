"""Dead-letter topics of share groups (KIP-1191): rejected records and those delivered too often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.storage.batch import build_batch, split_batches
from kafkalite.storage.record_format import NewRecord
from tests.conformance.scenarios.configs import BROKER, DELETE, GROUP, SET, alter, settled
from tests.conformance.scenarios.fetching import fetch_from, partition_at
from tests.conformance.scenarios.share_fetching import (
    ACCEPT,
    FIRST,
    REJECT,
    RELEASE,
    V,
    shared_topic,
)
from tests.conformance.setup import create_topic, fill, produce

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_ACCEPTS = {"errors.deadletterqueue.group.enable": "true"}
_GZIP = 1
_AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
_TOPIC = "errors.deadletterqueue.topic.name"
_COPY = "errors.deadletterqueue.copy.record.enable"


def _note_letters(cluster: ScenarioCluster, topic: str, count: int, partition: int = 0) -> None:
    """Wait until a dead-letter topic has records, and note them without their timestamps."""

    def records(response: Any) -> list[Any]:  # noqa: ANN401 - any response
        (row,) = response.responses[0].partitions
        batches = split_batches(bytes(row.records or b""))
        return [each for found in batches for each in found.records()]

    request = fetch_from(topic, partition_at(partition))
    response = cluster.call_until(
        request, 12, lambda found: len(records(found)) >= count, is_recorded=False
    )
    for record in records(response):
        headers = [[name, (value or b"").decode()] for name, value in record.headers]
        cluster.record(
            f"letter {record.offset}",
            [f"{record.key!r}", f"{record.value!r}", *(": ".join(each) for each in headers)],
        )


def rejected_records_are_written_to_a_dead_letter_topic(cluster: ScenarioCluster) -> None:
    topic = f"dlq.{cluster.name}"
    create_topic(cluster, topic, partitions=2, configs=_ACCEPTS)
    shared = shared_topic(cluster, 6, config={_TOPIC: topic})
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.ack("a", 1, (0, 1, [REJECT]), (2, 5, [ACCEPT, REJECT, ACCEPT, REJECT])), V)
    _note_letters(cluster, topic, 4)
    shared.final_state(6)


def dead_letters_can_be_copies_of_the_records(cluster: ScenarioCluster) -> None:
    topic = f"dlq.{cluster.name}"
    create_topic(cluster, topic, configs={**_ACCEPTS, "max.message.bytes": "2000"})
    shared = shared_topic(cluster, config={_TOPIC: topic, _COPY: "true"})
    fill(cluster, shared.topic, b"first", b"x" * 1500, b"y" * 1500, b"z" * 3000)
    records = [NewRecord(b"key", each * 100, 1) for each in (b"c", b"d")]
    compressed = build_batch(records, attributes=_GZIP)
    cluster.probe(produce(shared.topic, compressed), 9)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.ack("a", 1, (0, 2, [REJECT]), (3, 3, [ACCEPT]), (4, 5, [REJECT])), V)
    _note_letters(cluster, topic, 5)
    shared.final_state(6)


def records_delivered_too_often_are_dead_letters(cluster: ScenarioCluster) -> None:
    topic = f"dlq.{cluster.name}"
    create_topic(cluster, topic, configs=_ACCEPTS)
    shared = shared_topic(cluster, 1, config={_TOPIC: topic, "share.delivery.count.limit": "2"})
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.ack("a", 1, (0, 0, [RELEASE])), V)
    cluster.ask(shared.fetch("a", 2), V)
    cluster.ask(shared.ack("a", 3, (0, 0, [RELEASE])), V)
    _note_letters(cluster, topic, 1)
    shared.final_state(1)


def records_are_archived_without_a_valid_dead_letter_topic(cluster: ScenarioCluster) -> None:
    for suffix, configs in (("missing", None), ("other", {}), ("closed", {})):
        topic = f"dlq.{cluster.name}-{suffix}" if suffix != "other" else f"{cluster.name}-{suffix}"
        if configs is not None:
            create_topic(cluster, topic, configs=_ACCEPTS if suffix == "other" else {})
        shared = shared_topic(cluster, 2, config={_TOPIC: topic}, name=f"{cluster.name}-{suffix}")
        cluster.ask(shared.fetch("a", FIRST, 0), V)
        cluster.ask(shared.ack("a", 1, (0, 1, [REJECT])), V)
        shared.final_state(2)


def dead_letter_topics_are_created(cluster: ScenarioCluster) -> None:
    cluster.probe(alter(BROKER, "", (_AUTO_CREATE, SET, "true")), 1)
    settled(cluster, _AUTO_CREATE, "true", BROKER, "1")
    topic = f"dlq.{cluster.name}"
    shared = shared_topic(cluster, 1, config={_TOPIC: topic})
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.ack("a", 1, (0, 0, [REJECT])), V)
    shared.final_state(1)
    settled(cluster, "errors.deadletterqueue.group.enable", "true", name=topic)
    settled(cluster, "message.timestamp.type", "CreateTime", name=topic)
    _note_letters(cluster, topic, 1)
    cluster.probe(alter(BROKER, "", (_AUTO_CREATE, DELETE, None)), 1)
    settled(cluster, _AUTO_CREATE, "false", BROKER, "1")


def names_of_dead_letter_topics_are_checked(cluster: ScenarioCluster) -> None:
    for name in ("__letters", "", "letters", "dlq.a b"):
        cluster.ask(alter(GROUP, cluster.name, (_TOPIC, SET, name)), 1)
    cluster.ask(alter(GROUP, cluster.name, (_COPY, SET, "maybe")), 1)


SCENARIOS = (
    rejected_records_are_written_to_a_dead_letter_topic,
    dead_letters_can_be_copies_of_the_records,
    records_delivered_too_often_are_dead_letters,
    records_are_archived_without_a_valid_dead_letter_topic,
    dead_letter_topics_are_created,
    names_of_dead_letter_topics_are_checked,
)
