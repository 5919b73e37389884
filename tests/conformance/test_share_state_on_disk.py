"""The log of share groups' state is Kafka's: each coordinator continues the other's log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.ports.files import OsFiles
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.state import ShareKey
from kafkalite.storage.batch import BatchView, build_batch
from kafkalite.storage.log import Log
from kafkalite.storage.record_format import NewRecord
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.scenarios.share_fetching import (
    delete_state,
    initialize,
    read_state,
    ready_share_coordinator,
    summary,
    write_state,
)
from tests.conformance.setup import create_topic
from tests.conformance.test_log_on_disk import dump, files_of
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.unit.shares.share_coordinator import ManualShareCoordinator, change, topic_image

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.testing.coordinator_log import Entry

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

G, TOPIC = "stored", "t"
PARTITIONS: Final = 3
EPOCH, LEADER_EPOCH = 3, 7
CONFIG: Final = {
    "share.coordinator.state.topic.num.partitions": "1",
    # The log has snapshots, and updates after them.
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
}
State = tuple[int, int, int, list[tuple[int, ...]]]
"""State epoch, start offset, number of completed deliveries, and batches."""


def states_of_kafka(cluster: ScenarioCluster, topic_id: bytes) -> list[State | int]:
    """Return the state of each partition, or the error code."""
    return [_state_of_kafka(cluster, topic_id, index) for index in range(PARTITIONS)]


def _state_of_kafka(cluster: ScenarioCluster, topic_id: bytes, partition: int) -> State | int:
    def is_loaded(response: Any) -> bool:  # noqa: ANN401 - any response class
        code = response.results[0].partitions[0].error_code
        return code not in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)

    row = summary(G, topic_id, partition)
    summarized = cluster.call_until(row, 1, is_loaded).results[0].partitions[0]
    request = read_state(G, topic_id, partition, LEADER_EPOCH)
    read = cluster.call_until(request, 0, is_loaded).results[0].partitions[0]
    if read.error_code:
        return int(read.error_code)
    batches: list[tuple[int, ...]] = [
        (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in read.state_batches
    ]
    completed = summarized.delivery_complete_count
    return read.state_epoch, read.start_offset, completed, batches


def states_of_kafkalite(cluster: ManualShareCoordinator, topic_id: bytes) -> list[State | int]:
    """Return the state of each partition, or the error code."""
    return [
        _state_of_kafkalite(cluster, ShareKey(G, topic_id, index)) for index in range(PARTITIONS)
    ]


def _state_of_kafkalite(cluster: ManualShareCoordinator, key: ShareKey) -> State | int:
    try:
        state = cluster.coordinator.read_state(key, LEADER_EPOCH)
    except KafkaError as error:
        return int(error.code)
    batches = [tuple(batch) for batch in state.batches]
    return state.state_epoch, state.start_offset, state.delivery_complete_count, batches


def write_states(cluster: ScenarioCluster, topic_id: bytes) -> None:
    """Create states of all partitions, the first with snapshots; delete the last one."""
    ready_share_coordinator(cluster, G, topic_id)
    cluster.call_until(
        initialize(G, topic_id, PARTITIONS, epoch=EPOCH, start=5),
        0,
        lambda answer: all(row.error_code == 0 for row in answer.results[0].partitions),
    )
    for first in range(10, 60, 10):
        batches = [(first, first + 4, 2, 1), (first + 5, first + 9, 0, 2)]
        request = write_state(G, topic_id, 0, EPOCH, LEADER_EPOCH, first, 5, batches)
        assert cluster.probe(request, 1).results[0].partitions[0].error_code == ErrorCode.NONE
    request = write_state(G, topic_id, 1, EPOCH, LEADER_EPOCH, -1, 1, [(6, 6, 4, 5)])
    assert cluster.probe(request, 1).results[0].partitions[0].error_code == ErrorCode.NONE
    deleted = cluster.probe(delete_state(G, topic_id, 2), 0).results[0].partitions[0]
    assert deleted.error_code == ErrorCode.NONE


def open_log(kafka: RealKafka) -> Log:
    directory = str(kafka.data / "__share_group_state-0")
    return Log.open(OsFiles(), directory, LogConfig(), now_ms=0, clean_shutdown=True)


def entries_of(log: Log) -> list[Entry]:
    return [(record.key, record.value) for view in log.batches() for record in view.records()]


def append(log: Log, entries: list[Entry]) -> None:
    now_ms = int(time.time() * 1000)
    for key, value in entries:
        data = build_batch([NewRecord(key, value, now_ms)])
        log.append([BatchView(data)], leader_epoch=log.epochs.latest, now_ms=now_ms)


def continue_states(cluster: ManualShareCoordinator, topic_id: bytes) -> None:
    """Change each state, the first one often enough for a snapshot, and create the deleted one."""
    keys = [ShareKey(G, topic_id, index) for index in range(PARTITIONS)]
    epochs = {"state_epoch": EPOCH, "leader_epoch": LEADER_EPOCH}
    for first in range(60, 110, 10):
        batches = ((first, first + 7, 2, 1), (first + 8, first + 9, 4, 3))
        cluster.coordinator.write_state(
            keys[0], change(*batches, start=first, complete=9, **epochs)
        )
    cluster.coordinator.delete_state(*keys[1])
    cluster.initialize(keys[1], EPOCH + 1, 8)
    cluster.initialize(keys[2], EPOCH, 4)
    last = change((4, 9, 0, 1), complete=2, **epochs)
    cluster.coordinator.write_state(keys[2], last)


def test_each_coordinator_continues_the_others_log(tmp_path: Path) -> None:
    with required():
        kafka = RealKafka(tmp_path / "kafka", CONFIG)
        kafka.start()
    try:
        cluster = ScenarioCluster(kafka.port, TOPIC)
        topic_id = create_topic(cluster, TOPIC, PARTITIONS)
        write_states(cluster, topic_id)
        written = states_of_kafka(cluster, topic_id)
        cluster.close()
        kafka.stop()

        log = open_log(kafka)
        entries = entries_of(log)
        topic = topic_image(TOPIC, PARTITIONS)._replace(topic_id=topic_id)
        ours = ManualShareCoordinator(CONFIG, MemoryCoordinatorLog(entries), [topic])
        assert states_of_kafkalite(ours, topic_id) == written
        assert written[2] == ErrorCode.INVALID_REQUEST
        continue_states(ours, topic_id)
        continued = states_of_kafkalite(ours, topic_id)
        append(log, ours.log.entries[len(entries) :])
        log.close()
        files = files_of(kafka.data / "__share_group_state-0", ".log")
        assert "isvalid: false" not in dump("--files", ",".join(files))

        kafka.start()
        cluster = ScenarioCluster(kafka.port, TOPIC)
        ready_share_coordinator(cluster, G, topic_id)
        assert states_of_kafka(cluster, topic_id) == continued
        cluster.close()
    finally:
        kafka.kill()
