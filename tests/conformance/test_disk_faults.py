"""Files that are lost while a broker is stopped, and invalid settings of topics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import Batch
from tests.conformance.raw import RawClient
from tests.conformance.test_damaged_log import ALL, fetch
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from pathlib import Path

    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

TOPIC = "lost-segment"
BATCHES = 10
LARGE = b"x" * 400_000  # two batches fill a segment of one megabyte
TOO_SMALL = "1048575"
REASON = "Value must be at least 1048576"
REASON_TIMEOUT_S = 30.0
HIGH_WATERMARK_TIMEOUT_S = 30.0
COORDINATORS = {
    "offsets.topic.segment.bytes": (0, "g"),
    "transaction.state.log.segment.bytes": (1, "t"),
    "share.coordinator.state.topic.segment.bytes": (2, "g:AAAAAAAAAAAAAAAAAAAAAg:0"),
}


def fetch_around_a_lost_segment(target: Target) -> list[tuple[ErrorCode, bool]]:
    """Remove a segment from the middle of a log; return the result of a fetch at each offset."""
    client = RawClient(target.port)
    topic_row = CreateTopicsRequest.CreatableTopic(
        name=TOPIC,
        num_partitions=1,
        replication_factor=1,
        configs=[CreateTopicsRequest.CreatableTopicConfig(name="segment.bytes", value="1048576")],
    )
    answer = client.call(CreateTopicsRequest(topics=[topic_row], timeout_ms=10_000), 5)
    assert answer.topics[0].error_code == ErrorCode.NONE
    for _ in range(BATCHES):
        records = Batch(values=(LARGE,)).encode()
        data = ProduceRequest.PartitionProduceData(index=0, records=records)
        topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
        client.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]), 9)
    client.close()
    target.stop()
    segments = sorted((target.data / f"{TOPIC}-0").glob("*.log"))
    assert [int(segment.stem) for segment in segments] == [0, 2, 4, 6, 8]
    for path in segments[2].parent.glob(f"{segments[2].stem}.*"):
        path.unlink()
    target.start()
    client = RawClient(target.port)
    try:
        # After a restart, Kafka raises the high watermark to the end of the log a moment later.
        deadline = time.monotonic() + HIGH_WATERMARK_TIMEOUT_S
        while fetch(client, TOPIC, BATCHES - 1, ALL) != (ErrorCode.NONE, True):
            assert time.monotonic() < deadline, "the last batch is not readable"
        return [fetch(client, TOPIC, offset, ALL) for offset in range(BATCHES + 1)]
    finally:
        client.close()


def test_a_lost_segment_is_skipped(tmp_path: Path) -> None:
    with required():
        kafka = RealKafka(tmp_path / "kafka")
        kafka.start()
    emulator = broker_under_test(tmp_path / "emulator")
    try:
        expected = fetch_around_a_lost_segment(kafka)
        emulator.start()
        assert fetch_around_a_lost_segment(emulator) == expected
    finally:
        kafka.kill()
        emulator.kill()
    assert expected == [(ErrorCode.NONE, True)] * BATCHES + [(ErrorCode.NONE, False)]
    if isinstance(emulator, ServedKafkalite):
        assert "the segment with the offsets 4 to 5 is missing" in emulator.log_tail()


def test_segments_too_small_for_a_topic_leave_kafka_without_coordinators(tmp_path: Path) -> None:
    with required():
        kafka = RealKafka(tmp_path, {**COMMON_CONFIG, **dict.fromkeys(COORDINATORS, TOO_SMALL)})
        kafka.start()
    client = RawClient(kafka.port)
    try:
        for key_type, key in COORDINATORS.values():
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            codes = {client.call(request, 6).coordinators[0].error_code for _ in range(3)}
            assert codes == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        # Kafka creates the topics after its responses, and logs why it cannot.
        deadline = time.monotonic() + REASON_TIMEOUT_S
        while REASON not in kafka.log_tail():
            assert time.monotonic() < deadline, kafka.log_tail()
            time.sleep(0.05)
    finally:
        client.close()
        kafka.kill()


@pytest.mark.parametrize("key", COORDINATORS)
def test_kafkalite_refuses_too_small_segments_at_start(tmp_path: Path, key: str) -> None:
    emulator = ServedKafkalite(tmp_path, {key: TOO_SMALL})
    with pytest.raises(AssertionError, match=f"{key} must be at least 1048576"):
        emulator.start()
