"""Dead letters reach the topic of their group, with retries."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kafkalite.gateway.fault_rules import parse_rule
from kafkalite.gateway.faults import Faults
from kafkalite.gateway.steps import StepOrder
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.dead_letters import Cause, DeadLetters
from kafkalite.shares.state import ShareKey
from kafkalite.storage.batch import NO_PRODUCER, BatchView, assemble, build_batch, split_batches
from kafkalite.storage.compression import CODEC_NUMBERS
from kafkalite.storage.record_format import NewRecord
from tests.cluster.shares import ACCEPT, FIRST, REJECT, ShareCluster

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.storage.record_format import Record

TOPIC_KEY = "errors.deadletterqueue.topic.name"
COPY_KEY = "errors.deadletterqueue.copy.record.enable"
ACCEPTS = {"errors.deadletterqueue.group.enable": "true"}


def new_cluster(path: Path, **settings: str) -> ShareCluster:
    """Return a cluster whose group `g` has settings."""
    wire = ShareCluster(path, config={"errors.deadletterqueue.auto.create.topics.enable": "true"})
    changes = [ConfigChange(name, AlterOperation.SET, value) for name, value in settings.items()]
    resource = ConfigResource(ResourceType.GROUP, "g")
    errors = wire.cluster.metadata.alter_configs({resource: changes}, validate_only=False)
    assert not any(errors.values())
    return wire


def letters(wire: ShareCluster, first: int = 0, last: int = 0) -> DeadLetters:
    return DeadLetters(ShareKey("g", wire.topic_id, 0), "t", first, last, 1, Cause.REJECTED)


def written(wire: ShareCluster, topic: str = "dlq.a") -> list[Record]:
    hosted = wire.cluster.partitions.topic(topic)
    assert hosted is not None
    log = hosted.partitions[0]
    data = log.read(0, max_bytes=1 << 20, limit_offset=log.end_offset, at_least_one=True)
    return [record for batch in split_batches(data) for record in batch.records()]


def test_a_rejected_record_is_in_a_new_topic_and_then_archived(tmp_path: Path) -> None:
    wire = new_cluster(tmp_path, **{TOPIC_KEY: "dlq.a", COPY_KEY: "true"})
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


def test_a_delayed_dead_letter_is_written_after_other_requests_between_the_nodes(
    tmp_path: Path,
) -> None:
    wire = new_cluster(tmp_path, **{TOPIC_KEY: "dlq.a", COPY_KEY: "true"})
    gateway = wire.gateway
    faults = Faults(
        (1,),
        {"PLAINTEXT": gateway},
        SeededEntropy(),
        report=lambda *_: None,
        report_bug=lambda *_: None,
        install=partial(gateway.set_step, StepOrder.FAULTS),
    )
    faults.add(parse_rule({"match": {"api": "Produce"}, "action": {"delay_ms": 500}}))
    wire.produce(2)
    wire.fetch(FIRST)
    assert wire.ack(1, (0, 0, REJECT)) == (0, 0)
    assert wire.ack(2, (1, 1, ACCEPT)) == (0, 0)
    assert written(wire) == []
    wire.clock.advance(500)
    assert [each.value for each in written(wire)] == [written(wire, "t")[0].value]
    assert wire.cluster.shares.summary("g", wire.topic_id, 0).delivery_complete_count == 2


def test_groups_without_a_topic_or_a_level_have_no_dead_letters(tmp_path: Path) -> None:
    wire = new_cluster(tmp_path / "a", **{TOPIC_KEY: "dlq.a"})
    queues = wire.cluster.nodes[1].dead_letter_queues
    assert queues.is_enabled_for("g")
    assert not queues.is_enabled_for("other")
    older = ShareCluster(tmp_path / "b", config={"share.version": "1"})
    older.cluster.config.publish({}, {"g": {TOPIC_KEY: "dlq.a"}})
    assert not older.cluster.nodes[1].dead_letter_queues.is_enabled_for("g")


def test_an_invalid_topic_is_refused(tmp_path: Path) -> None:
    wire = new_cluster(tmp_path, **{TOPIC_KEY: "dlq.a"})
    wire.cluster.metadata.create_topics([NewTopic("dlq.a", partitions=1, replication_factor=1)])
    with pytest.raises(KafkaError) as refused:
        wire.cluster.nodes[1].dead_letter_queues.write(letters(wire))
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("failures", [1, 5])
def test_failed_calls_are_retried_four_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    wire = new_cluster(tmp_path, **{TOPIC_KEY: "dlq.a"})
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


def test_retries_wait_longer_and_longer_with_jitter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = new_cluster(tmp_path, **{TOPIC_KEY: "dlq.a"})
    times_ms: list[int] = []

    def refuse(*_: object) -> object:
        times_ms.append(wire.clock.now_ms())
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    monkeypatch.setattr(wire.cluster, "deliver", refuse)
    outcome = wire.cluster.nodes[1].dead_letter_queues.write(letters(wire))
    assert isinstance(outcome, Waiting)
    wire.clock.advance(60_000)
    assert isinstance(outcome.value, KafkaError)
    delays_ms = [later - earlier for earlier, later in pairwise(times_ms)]
    assert len(delays_ms) == 4
    for delay_ms, middle_ms in zip(delays_ms, (2_000, 4_000, 8_000, 16_000), strict=True):
        assert 0.8 * middle_ms <= delay_ms <= 1.2 * middle_ms
        assert delay_ms != middle_ms


def test_records_that_are_rejected_one_by_one_are_written_in_turns(tmp_path: Path) -> None:
    wire = new_cluster(tmp_path, **{TOPIC_KEY: "dlq.a", COPY_KEY: "true"})
    wire.produce(100, 100)
    wire.fetch(FIRST)
    assert wire.ack(1, (0, 199, [REJECT, ACCEPT] * 100)) == (0, 0)
    counts = [len(written(wire))]
    wire.clock.call_at(wire.clock.now_ms(), lambda: counts.append(len(written(wire))))
    wire.clock.advance(100)
    assert counts == [8, 16]
    records = written(wire)
    offsets = [int(dict(each.headers)["__dlq.errors.offset"] or b"") for each in records]
    assert offsets == list(range(0, 200, 2))
    assert {each.value for each in records} == {b"v"}
    summary = wire.cluster.shares.summary("g", wire.topic_id, 0)
    assert summary.start_offset + summary.delivery_complete_count == 200


def test_many_records_of_one_cause_are_written_in_turns(tmp_path: Path) -> None:
    wire = new_cluster(tmp_path, **{TOPIC_KEY: "dlq.a", COPY_KEY: "true"})
    batch = build_batch(
        [NewRecord(key=None, value=bytes(100_000), timestamp=wire.clock.now_ms())] * 20,
        attributes=CODEC_NUMBERS["zstd"],
    )
    wire.log().append(BatchView(bytearray(batch)), wire.clock.now_ms())
    outcome = wire.cluster.nodes[1].dead_letter_queues.write(letters(wire, last=19))
    assert isinstance(outcome, Waiting)
    outcomes: list[bool] = []
    wire.clock.call_at(wire.clock.now_ms(), lambda: outcomes.append(outcome.is_resolved))
    wire.clock.advance(100)
    assert outcomes == [False]
    assert outcome.value is None
    topic = wire.cluster.partitions.topic("dlq.a")
    assert topic is not None
    assert topic.partitions[0].end_offset == 20


def test_queued_records_fail_when_the_node_stops(tmp_path: Path) -> None:
    wire = new_cluster(tmp_path, **{TOPIC_KEY: "dlq.a"})
    node = wire.cluster.nodes[1]
    outcomes = [node.dead_letter_queues.write(letters(wire)) for _ in range(10)]
    assert outcomes[:8] == [None] * 8
    node.stop()
    for outcome in outcomes[8:]:
        assert isinstance(outcome, Waiting)
        assert isinstance(outcome.value, KafkaError)


def test_the_copy_of_an_unreadable_record_has_headers_only(tmp_path: Path) -> None:
    wire = new_cluster(tmp_path, **{TOPIC_KEY: "dlq.a", COPY_KEY: "true"})
    batch = BatchView(
        bytearray(
            assemble(
                b"no zstd",
                base_offset=0,
                leader_epoch=0,
                attributes=CODEC_NUMBERS["zstd"],
                last_offset_delta=0,
                base_timestamp=wire.clock.now_ms(),
                max_timestamp=wire.clock.now_ms(),
                producer=NO_PRODUCER,
                record_count=1,
            )
        )
    )
    wire.log().append(batch, wire.clock.now_ms())
    assert wire.cluster.nodes[1].dead_letter_queues.write(letters(wire)) is None
    (record,) = written(wire)
    assert (record.key, record.value) == (None, None)
    assert dict(record.headers)["__dlq.errors.offset"] == b"0"
