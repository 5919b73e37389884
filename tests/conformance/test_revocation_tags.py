"""A real Kafka ignores the tagged fields that kafkalite adds to member assignments in its log.

Its tool prints the records, and its coordinator loads the group unchanged.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.groups.consumer.consumer_group_records import (
    current_assignment_of,
    current_assignment_record,
)
from kafkalite.groups.consumer.member import CurrentAssignment
from kafkalite.groups.modern.offset_commit_fencing import Revocation
from kafkalite.ports.files import OsFiles
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from kafkalite.protocol.codec import decode_key, decode_value, encode_key, encode_value
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage import batch as batches
from kafkalite.storage.batch import BatchView
from kafkalite.storage.log import Log
from kafkalite.storage.record_format import NewRecord
from tests.conformance.raw import RawClient
from tests.conformance.test_log_on_disk import dump, files_of
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

G, MEMBER = "tagged", "member"
TAGGED = Revocation(1, is_under_way=True)
_TIMEOUT_S = 20.0


def repeat_until_success(ask: Callable[[], Any]) -> Any:  # noqa: ANN401 - any response
    """Repeat a request until it succeeds; a broker is not ready immediately after its start."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        response = ask()
        if response.error_code == ErrorCode.NONE:
            return response
        assert time.monotonic() < deadline, response
        time.sleep(0.05)


def beat(client: RawClient, epoch: int) -> Any:  # noqa: ANN401 - a response
    is_joining = epoch == 0
    return repeat_until_success(
        lambda: client.call(
            ConsumerGroupHeartbeatRequest(
                group_id=G,
                member_id=MEMBER,
                member_epoch=epoch,
                rebalance_timeout_ms=60_000 if is_joining else -1,
                subscribed_topic_names=["t"] if is_joining else None,
                topic_partitions=[] if is_joining else None,
            ),
            1,
        )
    )


def commit(client: RawClient, epoch: int, topic_id: bytes) -> ErrorCode:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7
    )
    request = OffsetCommitRequest(
        group_id=G,
        generation_id_or_member_epoch=epoch,
        member_id=MEMBER,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition])
        ],
    )
    (topic,) = client.call(request, 10).topics
    return ErrorCode(topic.partitions[0].error_code)


def last_assignment(log: Log) -> CurrentAssignment:
    """Return the member's assignment in the last record of the groups' log."""
    assignment = None
    for view in log.batches():
        for record in view.records():
            key = None if record.key is None else decode_key(record.key)
            if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey) and record.value:
                assignment = current_assignment_of(decode_value(key.RECORD_TYPE, record.value))
    assert assignment is not None
    return assignment


def append_tagged(log: Log, topic_id: bytes) -> None:
    """Write the member's assignment again, with the next epoch and our tagged fields."""
    before = last_assignment(log)
    assert before.assigned == {topic_id: {0: before.member_epoch, 1: before.member_epoch}}
    current = CurrentAssignment(
        member_epoch=before.member_epoch,
        previous_member_epoch=before.member_epoch,
        assigned={topic_id: {0: 1, 1: before.member_epoch}},
        revocation=TAGGED,
        is_join_confirmed=True,
    )
    record = current_assignment_record(G, MEMBER, current)
    now_ms = int(time.time() * 1000)
    row = NewRecord(encode_key(record.key), encode_value(record.value, 0), now_ms)
    data = batches.build_batch([row])
    log.append([BatchView(data)], leader_epoch=log.epochs.entries[-1][0], now_ms=now_ms)


def test_kafka_ignores_kafkalites_tags_and_loads_the_group(tmp_path: Path) -> None:
    config = {
        "offsets.topic.num.partitions": "1",
        "group.consumer.session.timeout.ms": "60000",
        "group.consumer.max.session.timeout.ms": "60000",
    }
    with required():
        kafka = RealKafka(tmp_path / "kafka", config)
        kafka.start()
    try:
        client = RawClient(kafka.port)
        topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
        (created,) = client.call(CreateTopicsRequest(topics=[topic]), 7).topics
        repeat_until_success(
            lambda: client.call(FindCoordinatorRequest(coordinator_keys=[G]), 4).coordinators[0]
        )
        epoch = beat(client, 0).member_epoch
        client.close()
        kafka.stop()

        directory = tmp_path / "kafka" / "data" / "__consumer_offsets-0"
        log = Log.open(OsFiles(), str(directory), LogConfig(), now_ms=0, clean_shutdown=True)
        append_tagged(log, created.topic_id)
        assert last_assignment(log).revocation == TAGGED
        assert last_assignment(log).is_join_confirmed
        log.close()
        printed_log = dump("--offsets-decoder", "--files", ",".join(files_of(directory, ".log")))
        (printed,) = [line for line in printed_log.splitlines() if '"assignmentEpochs":[1,' in line]
        assert '"type":"8"' in printed
        assert "isvalid: true" in printed_log

        kafka.start()
        client = RawClient(kafka.port)
        # The member's state is the same, and the coordinator knows the assignment epochs.
        assert beat(client, epoch).member_epoch == epoch
        assert commit(client, epoch, created.topic_id) is ErrorCode.NONE
        assert commit(client, 1, created.topic_id) is ErrorCode.NONE
        assert commit(client, epoch + 1, created.topic_id) is ErrorCode.STALE_MEMBER_EPOCH
        client.close()
    finally:
        kafka.kill()
