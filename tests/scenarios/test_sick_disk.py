"""A disk that refuses, loses or damages files: responses to clients and log lines."""

from __future__ import annotations

import io
import json
from pathlib import Path
from shutil import copytree, rmtree
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.server.broker import Broker
from kafkalite.server.broker_directory import BrokerDirectoryError
from kafkalite.server.logging import Level, Log
from kafkalite.server.reports import Reports
from kafkalite.server.settings import Settings
from kafkalite.testing.files import FaultyFiles, MemoryFiles
from tests.cluster.transactions import TransactionCluster
from tests.conformance.batches import BASE_TIMESTAMP, Batch
from tests.unit.open_files import new_files
from tests.unit.storage.logs import batch

if TYPE_CHECKING:
    from kafkalite.coordinator.runtime import CoordinatorRuntime
    from kafkalite.ports.files import Files

DIRECTORY = Path("/data")
FIRST_LOG = f"{0:020d}.log"
MANY = 20
SETTINGS = Settings(
    listen=("127.0.0.1:0",),
    topics={"t": 1},
    config={
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "share.coordinator.state.topic.num.partitions": "2",
    },
)


class SickDiskCluster(TransactionCluster):
    """A cluster on a disk whose failures are logged."""

    def __init__(self, path: Path, files: Files | None = None) -> None:
        super().__init__(path, files=new_files(self) if files is None else files)
        self.words = io.StringIO()
        self._directory.health.subscribe(Reports(Log(Level.WARNING, "json", self.words)))

    @property
    def lines(self) -> list[tuple[str, str, str]]:
        """The logged lines: event, path and reason."""
        lines = [json.loads(line) for line in self.words.getvalue().splitlines()]
        return [(line["event"], line["path"], line["reason"]) for line in lines]

    def produce(self, index: int = 0) -> ErrorCode:
        data = ProduceRequest.PartitionProduceData(index=index, records=Batch().encode())
        topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[data])
        answer = self.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 9)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def commit_offset(self) -> ErrorCode:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=5
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", partitions=[partition])
        request = OffsetCommitRequest(
            group_id="g", generation_id_or_member_epoch=-1, topics=[topic]
        )
        return ErrorCode(self.ask(request, 8).topics[0].partitions[0].error_code)

    def fetch(self, offset: int) -> Any:  # noqa: ANN401 - any response class
        partition = FetchRequest.FetchPartition(
            partition=0,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
            current_leader_epoch=-1,
            last_fetched_epoch=-1,
            log_start_offset=-1,
        )
        topic = FetchRequest.FetchTopic(topic="orders", partitions=[partition])
        request = FetchRequest(
            replica_id=-1, max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=[topic]
        )
        return self.ask(request, 12).responses[0].partitions[0]

    def offset_at(self, timestamp: int) -> ErrorCode:
        partition = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=0, timestamp=timestamp, current_leader_epoch=-1
        )
        topic = ListOffsetsRequest.ListOffsetsTopic(name="orders", partitions=[partition])
        answer = self.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 5)
        return ErrorCode(answer.topics[0].partitions[0].error_code)


def flip(path: Path, at: int, bit: int = 1) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= bit
    path.write_bytes(data)


def test_a_full_disk_has_one_warning_at_its_beginning_and_one_at_its_end() -> None:
    files = FaultyFiles(MemoryFiles(), crash=False)
    wire = SickDiskCluster(DIRECTORY, files)
    wire.find("g", kind=0)
    assert wire.produce() == ErrorCode.NONE
    files.fail_from(files.steps, failing_steps=10**6)
    for _ in range(MANY):
        assert wire.produce(0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert wire.produce(1) == ErrorCode.KAFKA_STORAGE_ERROR
        assert wire.commit_offset() == ErrorCode.NOT_COORDINATOR
    failure = ("/data/orders-0", "no space left on device")
    assert wire.lines == [("the disk refuses to read or write", *failure)]
    paths = [failure.path for failure in wire.cluster.partitions.disk_health.failures]
    assert paths[:2] == ["/data/orders-0", "/data/orders-1"]
    assert paths[2].startswith("/data/__consumer_offsets-")
    files.fail_from(None)
    assert wire.produce(0) == ErrorCode.NONE
    assert wire.commit_offset() == ErrorCode.NONE
    assert len(wire.lines) == 1
    assert wire.produce(1) == ErrorCode.NONE
    assert wire.lines[1:] == [("the disk reads and writes again", *failure)]
    assert wire.fetch(0).high_watermark == 2


def test_free_space_on_a_full_disk_is_detected_without_writes() -> None:
    files = FaultyFiles(MemoryFiles(), crash=False)
    wire = SickDiskCluster(DIRECTORY, files)
    assert wire.produce() == ErrorCode.NONE
    files.fail_from(files.steps, failing_steps=10**6)
    assert wire.produce() == ErrorCode.KAFKA_STORAGE_ERROR
    health = wire.cluster.partitions.disk_health
    health.retry_all()
    assert health.failures
    files.fail_from(None)
    health.retry_all()
    assert not health.failures
    assert len(wire.lines) == 2


def test_a_deleted_directory_accepts_no_records(tmp_path: Path) -> None:
    wire = SickDiskCluster(tmp_path)
    assert wire.produce(0) == wire.produce(1) == ErrorCode.NONE
    rmtree(tmp_path / "orders-0")
    wire.partition().log.check_in_place()
    for _ in range(MANY):
        assert wire.produce(0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert wire.produce(1) == ErrorCode.NONE
    ((_, path, reason),) = wire.lines
    assert path == str(tmp_path / "orders-0")
    assert reason == "the file was deleted or moved away while in use"


@pytest.mark.parametrize("length", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xf9", bytes(4)])
def test_a_damaged_length_is_a_corrupt_message_with_one_warning(
    tmp_path: Path, length: bytes
) -> None:
    wire = SickDiskCluster(tmp_path)
    for _ in range(10):
        assert wire.produce() == ErrorCode.NONE
    path = tmp_path / "orders-0" / FIRST_LOG
    whole = path.read_bytes()
    size = len(whole) // 10
    at = 3 * size
    path.write_bytes(whole[: at + 8] + length + whole[at + 12 :])
    for _ in range(MANY):
        answer = wire.fetch(3)
        assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
        assert not answer.records
    assert wire.fetch(2).error_code == ErrorCode.NONE
    assert wire.offset_at(BASE_TIMESTAMP + 5) == ErrorCode.NONE
    reason = f"the batch at position {at} (offset 3) is damaged"
    assert wire.lines == [("a file is damaged", str(path), reason)]
    path.write_bytes(whole)
    wire.cluster.partitions.disk_health.retry_all()
    assert wire.lines[1:] == [("a file is not damaged any more", str(path), reason)]
    assert wire.fetch(3).records


@pytest.mark.parametrize("length", [b"\x7f\xff\xff\xff", bytes(4)])
def test_flushed_records_are_not_truncated_after_a_clean_stop(
    tmp_path: Path, length: bytes
) -> None:
    wire = SickDiskCluster(tmp_path)
    for _ in range(10):
        assert wire.produce() == ErrorCode.NONE
    wire.end()
    path = tmp_path / "orders-0" / FIRST_LOG
    whole = path.read_bytes()
    at = 3 * len(whole) // 10
    path.write_bytes(whole[: at + 8] + length + whole[at + 12 :])
    for _ in range(2):
        wire = SickDiskCluster(tmp_path)
        assert wire.lines == [
            ("a file is damaged", str(path), f"the batch at position {at} (offset 3) is damaged")
        ]
        assert wire.fetch(0).high_watermark == 10
        for offset in (3, 4, 9):
            assert wire.fetch(offset).error_code == ErrorCode.CORRUPT_MESSAGE
        assert wire.fetch(10).error_code == ErrorCode.NONE
        assert wire.produce() == ErrorCode.KAFKA_STORAGE_ERROR
        assert wire.produce(1) == ErrorCode.NONE
        wire.end()
    path.write_bytes(whole)
    wire = SickDiskCluster(tmp_path)
    assert wire.lines == []
    assert wire.produce() == ErrorCode.NONE
    assert wire.fetch(3).records


def names_under(path: Path) -> list[Path]:
    return sorted(path.rglob("*"))


async def started(path: Path, words: io.StringIO | None = None) -> tuple[Broker, io.StringIO]:
    words = words or io.StringIO()
    settings = SETTINGS._replace(data_directory=str(path))
    broker = Broker(settings, Log(Level.WARNING, "json", words))
    await broker.start()
    return broker, words


async def end(broker: Broker, path: Path, how: str) -> None:
    """Stop a broker, or leave its directory as after a kill -9."""
    copy = path.with_name("copy")
    copytree(path, copy)
    await broker.stop()
    if how == "killed":
        rmtree(path)
        copy.rename(path)
    else:
        rmtree(copy)


each_end = pytest.mark.parametrize("how", ["stopped", "killed"])


@each_end
async def test_a_damaged_metadata_log_prevents_every_start(tmp_path: Path, how: str) -> None:
    tmp_path /= "data"
    broker, _ = await started(tmp_path)
    assert broker.cluster is not None
    log = broker.cluster.partitions.logs()["t", 0]
    log.append([batch(b"value")], leader_epoch=0, now_ms=0)
    await end(broker, tmp_path, how)
    path = tmp_path / "__cluster_metadata-0" / FIRST_LOG
    at = path.read_bytes().index(b"\x02t")  # the name after its length
    flip(path, at + 1)
    before = names_under(tmp_path)
    words = io.StringIO()
    for _ in range(3):
        with pytest.raises(BrokerDirectoryError) as refused:
            await started(tmp_path, words)
        line = str(refused.value)
        assert line.startswith(f"cannot use {path}: the batch at position ")
        assert "(offset " in line
        assert "restore the file from a copy, or delete .kafka_cleanshutdown" in line
        assert "\n" not in line
        assert words.getvalue() == ""
        assert names_under(tmp_path) == before
    flip(path, at + 1)
    broker, words = await started(tmp_path)
    assert broker.cluster is not None
    assert broker.cluster.partitions.logs()["t", 0].end_offset == 1
    assert broker.disk_failures == []
    await broker.stop()
    assert words.getvalue() == ""


@each_end
async def test_a_damaged_end_of_the_metadata_log_can_be_dropped(tmp_path: Path, how: str) -> None:
    tmp_path /= "data"
    broker, _ = await started(tmp_path)
    await end(broker, tmp_path, how)
    path = tmp_path / "__cluster_metadata-0" / FIRST_LOG
    flip(path, path.read_bytes().index(b"\x02t") + 1)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", ".kafkalite_boot"):
        (tmp_path / name).unlink(missing_ok=True)
    broker, words = await started(tmp_path)
    await broker.stop()
    assert "truncated" in words.getvalue()


@each_end
async def test_an_incomplete_write_to_the_metadata_log_is_truncated(
    tmp_path: Path, how: str
) -> None:
    tmp_path /= "data"
    broker, _ = await started(tmp_path)
    await end(broker, tmp_path, how)
    with (tmp_path / "__cluster_metadata-0" / FIRST_LOG).open("ab") as file:
        file.write(bytes(7) + b"\x63\0\0\1\0")
    broker, words = await started(tmp_path)
    assert broker.cluster is not None
    assert broker.cluster.partitions.logs().keys() >= {("t", 0)}
    await broker.stop()
    (line,) = [json.loads(line) for line in words.getvalue().splitlines()]
    assert line["event"] == "the unreadable end of a log was truncated"
    assert line["cut_bytes"] == 12


@each_end
@pytest.mark.parametrize("lost", ["__cluster_metadata-0", f"__cluster_metadata-0/{FIRST_LOG}"])
async def test_a_missing_metadata_log_prevents_the_start(
    tmp_path: Path, how: str, lost: str
) -> None:
    tmp_path /= "data"
    broker, _ = await started(tmp_path)
    assert broker.cluster is not None
    log = broker.cluster.partitions.logs()["t", 0]
    log.append([batch(b"value")], leader_epoch=0, now_ms=0)
    await end(broker, tmp_path, how)
    moved = tmp_path.with_name("moved")
    (tmp_path / lost).rename(moved)
    for _ in range(2):
        with pytest.raises(BrokerDirectoryError, match=r"missing.*restore .* copy, or delete "):
            await started(tmp_path)
        assert (tmp_path / "t-0" / FIRST_LOG).exists()
    moved.rename(tmp_path / lost)
    broker, words = await started(tmp_path)
    assert broker.cluster is not None
    assert broker.cluster.partitions.logs()["t", 0].end_offset == 1
    await broker.stop()
    assert words.getvalue() == ""


async def test_a_new_cluster_can_begin_without_the_metadata_log(tmp_path: Path) -> None:
    broker, _ = await started(tmp_path)
    assert broker.cluster is not None
    log = broker.cluster.partitions.logs()["t", 0]
    log.append([batch(b"value")], leader_epoch=0, now_ms=0)
    await broker.stop()
    rmtree(tmp_path / "__cluster_metadata-0")
    (tmp_path / "meta.properties").unlink()
    broker, words = await started(tmp_path)
    await broker.stop()
    assert "a directory was renamed because it belongs to no topic" in words.getvalue()


async def test_a_missing_directory_is_logged_with_the_lost_offsets(tmp_path: Path) -> None:
    broker, _ = await started(tmp_path)
    assert broker.cluster is not None
    log = broker.cluster.partitions.logs()["t", 0]
    for _ in range(3):
        log.append([batch(b"value")], leader_epoch=0, now_ms=0)
    await broker.stop()
    rmtree(tmp_path / "t-0")
    broker, words = await started(tmp_path)
    await broker.stop()
    (line,) = [json.loads(line) for line in words.getvalue().splitlines()]
    assert line["event"] == "the directory of a partition is missing, and its records are lost"
    assert (line["partition"], line["lost_offsets"]) == ("t-0", "0 to 2")


def test_a_topic_with_a_deleted_directory_refuses_its_first_append(
    tmp_path: Path,
) -> None:
    """Its first append would otherwise create the directory again, without other files."""
    wire = SickDiskCluster(tmp_path / "data")
    rmtree(tmp_path / "data")
    assert wire.produce() is ErrorCode.KAFKA_STORAGE_ERROR
    assert not (tmp_path / "data").exists()
    assert [path for _, path, _ in wire.lines] == [str(tmp_path / "data/orders-0")]


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"]
)
@pytest.mark.parametrize(
    ("at", "how"), [(8, "stopped"), (17, "stopped"), (-1, "stopped"), (17, "killed")]
)
async def test_a_damaged_coordinator_log_is_reported_and_others_work(
    tmp_path: Path, topic: str, at: int, how: str
) -> None:
    tmp_path /= "data"
    settings = SETTINGS._replace(data_directory=str(tmp_path), topics={"t": 1, topic: 2})
    broker = Broker(settings)
    await broker.start()
    assert broker.cluster is not None
    log = broker.cluster.partitions.logs()[topic, 1]
    for _ in range(3):
        # A record with an unknown type.
        log.append([batch(b"value", keys=[b"\0\x63"])], leader_epoch=0, now_ms=0)
    await end(broker, tmp_path, how)
    path = tmp_path / f"{topic}-1" / FIRST_LOG
    size = path.stat().st_size // 3
    flip(path, size + at if at >= 0 else 2 * size + at)
    broker, words = await started(tmp_path)
    cluster = broker.cluster
    assert cluster is not None
    coordinators: dict[str, CoordinatorRuntime[Any]] = {
        "__consumer_offsets": cluster.groups,
        "__transaction_state": cluster.transactions,
        "__share_group_state": cluster.shares,
    }
    shards = {name: [each.partition for each in c.shards()] for name, c in coordinators.items()}
    assert shards.pop(topic) == [0]
    (failure,) = broker.disk_failures
    assert (failure.path, failure.problem.value) == (str(path), "damaged")
    await broker.stop()
    warning, error = [json.loads(line) for line in words.getvalue().splitlines()]
    assert warning["path"] == error["path"] == str(path)
    assert error["reason"] == f"the batch at position {size} (offset 1) is damaged"
    assert error["partition"] == f"{topic}-1"
    assert "restore the file" in error["action"]


async def test_a_missing_segment_is_reported_at_the_start(tmp_path: Path) -> None:
    broker, _ = await started(tmp_path)
    assert broker.cluster is not None
    log = broker.cluster.partitions.logs()["t", 0]
    for _ in range(3):
        log.append([batch(b"value")], leader_epoch=0, now_ms=0)
        log.roll(0)
    await broker.stop()
    (tmp_path / "t-0" / f"{1:020d}.log").unlink()
    broker, words = await started(tmp_path)
    (failure,) = broker.disk_failures
    await broker.stop()
    (line,) = [json.loads(line) for line in words.getvalue().splitlines()]
    assert line["level"] == "warning"
    assert line["path"] == failure.path == str(tmp_path / "t-0" / FIRST_LOG)
    assert line["reason"] == "the segment with the offsets 1 to 1 is missing"
