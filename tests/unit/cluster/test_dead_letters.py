"""Dead letters reach the topic of their group, with retries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.dead_letters import Cause, DeadLetters
from kafkalite.shares.state import ShareKey
from kafkalite.storage.batch import split_batches
from tests.unit.apis.share_wire import FIRST, ShareWire

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.storage.record_format import Record

TOPIC_KEY = "errors.deadletterqueue.topic.name"
COPY_KEY = "errors.deadletterqueue.copy.record.enable"
ACCEPTS = {"errors.deadletterqueue.group.enable": "true"}
REJECT = 3


def new_wire(path: Path, **settings: str) -> ShareWire:
    """Return a cluster whose group `g` has settings."""
    wire = ShareWire(path, config={"errors.deadletterqueue.auto.create.topics.enable": "true"})
    changes = [ConfigChange(name, AlterOperation.SET, value) for name, value in settings.items()]
    resource = ConfigResource(ResourceType.GROUP, "g")
    errors = wire.cluster.metadata.alter_configs({resource: changes}, validate_only=False)
    assert not any(errors.values())
    return wire


def letters(wire: ShareWire, first: int = 0, last: int = 0) -> DeadLetters:
    return DeadLetters(ShareKey("g", wire.topic_id, 0), "t", first, last, 1, Cause.REJECTED)


def written(wire: ShareWire, topic: str = "dlq.a") -> list[Record]:
    hosted = wire.cluster.partitions.topic(topic)
    assert hosted is not None
    log = hosted.partitions[0]
    data = log.read(0, max_bytes=1 << 20, limit_offset=log.end_offset, at_least_one=True)
    return [record for batch in split_batches(data) for record in batch.records()]


def test_a_rejected_record_is_in_a_new_topic_and_then_archived(tmp_path: Path) -> None:
    wire = new_wire(tmp_path, **{TOPIC_KEY: "dlq.a", COPY_KEY: "true"})
    wire.produce(3)
    wire.fetch(FIRST)
    assert wire.ack(1, (0, 2, REJECT)) == (0, 0)
    records = written(wire)
    original = written(wire, "t")
    assert [(each.key, each.value) for each in records] == [
        (each.key, each.value) for each in original
    ]
    assert [dict(each.headers)["__dlq.errors.offset"] for each in records] == [b"0", b"1", b"2"]
    assert wire.cluster.shares.summary("g", wire.topic_id, 0).delivery_complete_count == 3
    config = wire.cluster.metadata.image.topic_config("dlq.a")
    assert config == {**ACCEPTS, "message.timestamp.type": "CreateTime"}


def test_groups_without_a_topic_or_a_level_have_no_dead_letters(tmp_path: Path) -> None:
    wire = new_wire(tmp_path / "a", **{TOPIC_KEY: "dlq.a"})
    queues = wire.cluster.nodes[1].dead_letter_queues
    assert queues.is_enabled_for("g")
    assert not queues.is_enabled_for("other")
    older = ShareWire(tmp_path / "b", config={"share.version": "1"})
    older.cluster.config.publish({}, {"g": {TOPIC_KEY: "dlq.a"}})
    assert not older.cluster.nodes[1].dead_letter_queues.is_enabled_for("g")


def test_an_invalid_topic_is_refused(tmp_path: Path) -> None:
    wire = new_wire(tmp_path, **{TOPIC_KEY: "dlq.a"})
    wire.cluster.metadata.create_topics([NewTopic("dlq.a", partitions=1, replication_factor=1)])
    with pytest.raises(KafkaError) as refused:
        wire.cluster.nodes[1].dead_letter_queues.write(letters(wire))
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("failures", [1, 5])
def test_failed_calls_are_retried_four_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    wire = new_wire(tmp_path, **{TOPIC_KEY: "dlq.a"})
    node = wire.cluster.nodes[1]
    deliver, calls = wire.cluster.deliver, []
    assert deliver is not None

    def fail_first(*call: object) -> object:
        calls.append(call)
        if len(calls) <= failures:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return deliver(*call)  # type: ignore[arg-type]

    monkeypatch.setattr(wire.cluster, "deliver", fail_first)
    outcome = node.dead_letter_queues.write(letters(wire))
    assert isinstance(outcome, Waiting)
    results: list[object] = []
    outcome.then(results.append)
    wire.clock.advance(60_000)
    (result,) = results
    assert isinstance(result, KafkaError) is (failures == 5)
    assert len(written(wire)) == (failures < 5)
