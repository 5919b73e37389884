"""The memory of a hundred thousand idle groups, and the duration of a restart with them.

The broker is started as users would start it, on a directory with the records of the groups. The
result is the difference to the same broker with an empty directory.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.config.log_config import LogConfig
from kafkalite.coordinator.runtime import partition_of
from kafkalite.ports.files import OsFiles
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.storage.log import Log
from tests.conformance.raw import RawClient
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.perf.groups_records import KINDS, NOW_MS, TOPIC, append, batch_of
from tests.perf.pipeline import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

_PARTITIONS = 50
_CONFIG = {
    "offsets.topic.num.partitions": str(_PARTITIONS),
    "offsets.retention.minutes": str(2**31 - 1),
}
_TIMEOUT_S = 120.0


class IdleCost(NamedTuple):
    """The cost of idle groups."""

    bytes_per_group: float
    restart_seconds: float
    """Until the broker responds."""
    restart_cpu_seconds: float


def measure(kind: str, groups: int) -> IdleCost:
    """Start a broker without groups and one with them, and return the difference."""
    with tempfile.TemporaryDirectory() as directory:
        broker = ServedKafkalite(Path(directory), _CONFIG)
        broker.start()
        _ensure_offsets_topic(broker.port)
        topic_id = _create_topic(broker.port)
        broker.stop()
        empty = _run(broker, 0)
        _fill(Path(directory) / "data", kind, groups, topic_id)
        full = _run(broker, groups)
    return IdleCost(
        (full.bytes_per_group - empty.bytes_per_group) / groups,
        full.restart_seconds - empty.restart_seconds,
        full.restart_cpu_seconds - empty.restart_cpu_seconds,
    )


def _run(broker: ServedKafkalite, groups: int) -> IdleCost:
    started = time.perf_counter()
    broker.start()
    start_seconds = time.perf_counter() - started
    cpu = cpu_seconds(broker.pid)
    resident = _resident_bytes(broker.pid)
    client = RawClient(broker.port, _TIMEOUT_S)
    assert len(client.call(ListGroupsRequest(), 4).groups) == groups
    if groups:
        described = client.call(DescribeGroupsRequest(groups=["group-0"]), 5)
        assert described.groups[0].group_id == "group-0"
    client.close()
    broker.kill()
    return IdleCost(resident, start_seconds, cpu)


def _fill(data: Path, kind: str, groups: int, topic_id: bytes) -> None:
    """Write the records of the groups to the partitions a coordinator would use."""
    group_ids_by_partition: dict[int, list[str]] = {}
    for group_id in (f"group-{number}" for number in range(groups)):
        group_ids_by_partition.setdefault(partition_of(group_id, _PARTITIONS), []).append(group_id)
    for partition, group_ids in group_ids_by_partition.items():
        directory = str(data / f"__consumer_offsets-{partition}")
        log = Log.open(OsFiles(), directory, LogConfig(), now_ms=NOW_MS)
        append(log, _batches(kind, group_ids, topic_id))
        log.close()


def _batches(kind: str, group_ids: list[str], topic_id: bytes) -> Iterator[bytes]:
    decisions = itertools.chain.from_iterable(
        KINDS[kind](group_id, topic_id) for group_id in group_ids
    )
    return map(batch_of, decisions)


def _ensure_offsets_topic(port: int) -> None:
    client = RawClient(port)
    request = FindCoordinatorRequest(coordinator_keys=["group-0"])
    deadline = time.monotonic() + _TIMEOUT_S
    while client.call(request, 4).coordinators[0].error_code:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    client.close()


def _create_topic(port: int) -> bytes:
    """Create the topic that the groups read, and return its ID."""
    client = RawClient(port)
    topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
    response = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    assert not response.topics[0].error_code, response
    client.close()
    topic_id: bytes = response.topics[0].topic_id
    return topic_id


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)
