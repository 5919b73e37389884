"""DeleteRecords moves the start of a log, durably and within its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.data.delete_records import APIS
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.rows import refusal
from tests.unit.data_plane import DataPlane

if TYPE_CHECKING:
    from pathlib import Path

(API,) = APIS


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    plane = DataPlane(tmp_path)
    plane.create(partitions=2)
    for number in range(5):
        plane.append(b"%d" % number)
    return plane


def request_of(offset: int, name: str = "t", index: int = 0) -> DeleteRecordsRequest:
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=offset)
    return DeleteRecordsRequest(
        topics=[DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[partition])]
    )


def delete(
    plane: DataPlane, offset: int, name: str = "t", *, index: int = 0, node_id: int = 0
) -> tuple[int, ErrorCode]:
    response = plane.ask(API, request_of(offset, name, index), node_id=node_id)
    answer = response.topics[0].partitions[0]
    return answer.low_watermark, ErrorCode(answer.error_code)


def test_the_last_of_several_offsets_counts(plane: DataPlane) -> None:
    request = request_of(2)
    request.topics += request_of(4).topics
    (topic,) = plane.ask(API, request).topics
    assert [answer.low_watermark for answer in topic.partitions] == [4]


@pytest.mark.parametrize("cleanly", [True, False])
def test_deleted_records_are_not_there_after_a_restart(plane: DataPlane, *, cleanly: bool) -> None:
    delete(plane, 3)
    plane.restart(cleanly=cleanly)
    assert plane.partition().log_start_offset == 3
    assert plane.append(b"next") == 5


def test_a_deletion_without_a_checkpoint_is_a_storage_error(plane: DataPlane) -> None:
    # A directory at this path prevents the checkpoint from being written.
    taken = plane.directory / "log-start-offset-checkpoint"
    taken.mkdir()
    request = request_of(3)
    request.topics += request_of(0, "missing").topics
    response = plane.ask(API, request)
    answers = [answer for topic in response.topics for answer in topic.partitions]
    assert [(answer.low_watermark, answer.error_code) for answer in answers] == [
        (-1, ErrorCode.KAFKA_STORAGE_ERROR),
        (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    taken.rmdir()
    assert delete(plane, 3) == (3, ErrorCode.NONE)
    plane.restart(cleanly=False)
    assert plane.partition().log_start_offset == 3


def test_only_the_leader_deletes_records(plane: DataPlane) -> None:
    assert delete(plane, 0, node_id=1) == (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_records_of_an_offline_log_are_not_deleted(plane: DataPlane) -> None:
    plane.create_offline("offline")
    assert delete(plane, 0, "offline") == (-1, ErrorCode.KAFKA_STORAGE_ERROR)
    assert delete(plane, 0, "offline", index=1) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_refusal_lists_every_partition() -> None:
    response = refusal(
        ApiKey.DELETE_RECORDS, request_of(1), ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None
    )
    answer = response.topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (31, -1)
