"""A real Kafka ignores the incarnation epoch that kafkalite adds to committed offsets in its log.

Its tool prints the record, and its coordinator returns the offset.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.group import OffsetAndMetadata
from kafkalite.groups.offsets_topic_records import offset_commit_record, written_version
from kafkalite.ports.files import OsFiles
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.storage.batch import BatchView, build_batch
from kafkalite.storage.log import Log
from kafkalite.storage.record_format import NewRecord
from tests.conformance.raw import RawClient
from tests.conformance.test_log_on_disk import dump, files_of
from tests.conformance.test_revocation_tags import repeat_until_success
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

G = "tagged"


def find_coordinator(client: RawClient) -> None:
    """Wait until the group has a coordinator, which creates the topic of the offsets."""
    request = FindCoordinatorRequest(coordinator_keys=[G])
    repeat_until_success(lambda: client.call(request, 4).coordinators[0])


def append_tagged(directory: Path, topic_id: bytes) -> None:
    """Write a committed offset with an incarnation epoch to the log of the groups."""
    now_ms = int(time.time() * 1000)
    committed = OffsetAndMetadata(41, now_ms, 7, "note", topic_id=topic_id, incarnation_epoch=9)
    key, value = CoordinatorSerde(written_version).encode(
        offset_commit_record(G, "t", 0, committed)
    )
    log = Log.open(OsFiles(), str(directory), LogConfig(), now_ms=0, clean_shutdown=True)
    data = build_batch([NewRecord(key, value, now_ms)])
    log.append([BatchView(data)], leader_epoch=log.epochs.latest, now_ms=now_ms)
    log.close()


def fetched_offset(client: RawClient) -> Any:  # noqa: ANN401 - a row of the response
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=G, topics=[topic])
    request = OffsetFetchRequest(groups=[group])
    answer = repeat_until_success(lambda: client.call(request, 8).groups[0])
    return answer.topics[0].partitions[0]


def test_kafka_ignores_the_incarnation_epoch_of_an_offset(tmp_path: Path) -> None:
    with required():
        kafka = RealKafka(tmp_path / "kafka", {"offsets.topic.num.partitions": "1"})
        kafka.start()
    try:
        client = RawClient(kafka.port)
        topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        (created,) = client.call(CreateTopicsRequest(topics=[topic]), 7).topics
        find_coordinator(client)
        client.close()
        kafka.stop()

        directory = tmp_path / "kafka" / "data" / "__consumer_offsets-0"
        append_tagged(directory, created.topic_id)
        printed_log = dump("--offsets-decoder", "--files", ",".join(files_of(directory, ".log")))
        assert '"offset":41,"leaderEpoch":7,"metadata":"note"' in printed_log
        assert "isvalid: true" in printed_log

        kafka.start()
        client = RawClient(kafka.port)
        find_coordinator(client)
        row = fetched_offset(client)
        assert (row.committed_offset, row.committed_leader_epoch, row.metadata) == (41, 7, "note")
        assert row.incarnation_epoch == -1
        client.close()
    finally:
        kafka.kill()
