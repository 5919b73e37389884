"""Measures the round trips of another client while one client sends a flood of costly requests.

`python -m tests.perf.fairness [ATTACK ...]` starts a broker for each attack, sends DescribeCluster
every 20 ms from a separate process, and prints the median, 99th percentile and worst round trip,
the duration of the attack, and the resident memory of the broker. Before an attack the broker
serves one small request of the same kind, because the first one imports code and may create an
internal topic. Its duration is printed as `first ms`, and the memory before it as `MB start`. With
`--check` the command exits with status 1 if a result exceeds its limit.

`python -m tests.perf.fairness --hostile [API ...]` sends requests of `socket.request.max.bytes` to
one broker instead. They are generated from the schemas: each list, field of bytes and section of
tagged fields of each API is filled once. It prints the worst round trip of the other client, the
CPU time of the broker, and its peak memory as a multiple of the request. A request that the broker
refuses by closing the connection has no answer.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.apis.table import TABLE, find_api
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.add_raft_voter import AddRaftVoterRequest
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.describe_transactions import DescribeTransactionsRequest
from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol._generated.messages.update_features import UpdateFeaturesRequest
from kafkalite.protocol.codec_helpers import MAX_LIST_ELEMENTS
from kafkalite.storage.batch import build_batch
from kafkalite.storage.compression import CODEC_NUMBERS
from kafkalite.storage.record_format import NewRecord
from tests.conformance.raw import RawClient
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.perf.hostile_requests import LIST, Place, distinct_places, hostile_frame
from tests.perf.pipeline import frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

WORST_MS: Final = 100.0
P99_MS: Final = 30.0
MEMORY_RATIO: Final = 1.2
MEMORY_SLACK_MB: Final = 12.0
"""The C library may keep this much between objects, however small the broker was before.

After a request that needs 450 MB, 7 to 9 MB remain, although no object of the request does.
"""

_INTERVAL_S: Final = 0.02
_NOW_MS: Final = 1_700_000_000_000
_SETTLE_S: Final = 2.5
_TIMEOUT_S: Final = 300.0


class RoundTrips(NamedTuple):
    """Round trips of the other client: their number, and statistics in milliseconds."""

    samples: int
    median_ms: float
    p99_ms: float
    worst_ms: float
    has_expelled_member: bool = False
    """Whether the client, a member of a classic group, was removed from it."""


class Memory(NamedTuple):
    """Resident memory of the broker in megabytes.

    `start` is before and `before` after a small request of the same kind as the attack.
    """

    start: float
    before: float
    peak: float
    after: float


class Outcome(NamedTuple):
    """The result of one attack."""

    attack: str
    first_ms: float
    """The duration of the first request, a small one."""
    round_trips: RoundTrips
    seconds: float
    memory: Memory

    @property
    def exceeded_limits(self) -> list[str]:
        """The exceeded limits."""
        exceeded = []
        if self.round_trips.worst_ms > WORST_MS:
            exceeded.append(f"worst {self.round_trips.worst_ms:.0f} ms")
        if self.round_trips.p99_ms > P99_MS:
            exceeded.append(f"p99 {self.round_trips.p99_ms:.0f} ms")
        if self.memory.after > memory_limit_mb(self.memory.before):
            exceeded.append(f"memory {self.memory.before:.0f} to {self.memory.after:.0f} MB")
        return exceeded


def memory_limit_mb(before_mb: float) -> float:
    """Return the limit of the resident memory after an attack, from that before."""
    return max(MEMORY_RATIO * before_mb, before_mb + MEMORY_SLACK_MB)


def _names(count: int) -> list[str]:
    return [f"{number:x}" for number in range(count)]


def _produce(topic: str, partitions: Mapping[int, bytes]) -> ProduceRequest:
    data = [
        ProduceRequest.PartitionProduceData(index=index, records=records)
        for index, records in partitions.items()
    ]
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=data)],
    )


def _produce_flood(requests: int) -> bytes:
    records = build_batch([NewRecord(key=b"k", value=bytes(2_000), timestamp=_NOW_MS)])
    return frame(_produce("plain", {0: records}), 9) * requests


def _wide_produce_flood(requests: int) -> bytes:
    records = build_batch([NewRecord(key=b"k", value=bytes(200), timestamp=_NOW_MS)])
    return frame(_produce("wide", dict.fromkeys(range(100), records)), 9) * requests


def _commit_flood(requests: int) -> bytes:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="plain", partitions=[partition])
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic])
    return frame(request, 8) * requests


def _create_topics_flood(requests: int) -> bytes:
    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=f"new-{number}", num_partitions=1, replication_factor=1
        )
        for number in range(100)
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=True)
    return frame(request, 7) * requests


def _metadata_flood(requests: int) -> bytes:
    topics = [MetadataRequest.MetadataRequestTopic(name="plain")]
    return frame(MetadataRequest(topics=topics), 12) * requests


def _compressed_batches(partitions: int) -> bytes:
    record_count = 90_000 if partitions > 1 else 1
    records = [NewRecord(key=b"k", value=bytes(1_000), timestamp=_NOW_MS)] * record_count
    batch = build_batch(records, attributes=CODEC_NUMBERS["zstd"])
    return frame(_produce("compacted", dict.fromkeys(range(partitions), batch)), 9)


def _compressed_small_records(record_count: int) -> bytes:
    records = [NewRecord(key=b"", value=None, timestamp=_NOW_MS)] * record_count
    batch = build_batch(records, attributes=CODEC_NUMBERS["zstd"])
    return frame(_produce("compacted", {0: batch}), 9)


def _elect_leaders(partitions: int) -> bytes:
    topic = ElectLeadersRequest.TopicPartitions(topic="unknown", partitions=list(range(partitions)))
    return frame(ElectLeadersRequest(topic_partitions=[topic], timeout_ms=1_000), 2)


def _produce_to_unknown(partitions: int) -> bytes:
    return frame(_produce("unknown", dict.fromkeys(range(partitions), b"")), 9)


def _offset_fetch(partitions: int) -> bytes:
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(
        name="unknown", partition_indexes=list(range(partitions))
    )
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="unknown", topics=[topic])
    return frame(OffsetFetchRequest(groups=[group]), 8)


def _offset_commit(partition_count: int) -> bytes:
    partitions = [
        OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=n, committed_offset=1)
        for n in range(partition_count)
    ]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="unknown", partitions=partitions)
    return frame(OffsetCommitRequest(group_id="g", topics=[topic]), 8)


def _add_partitions(partitions: int) -> bytes:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
        name="unknown", partitions=list(range(partitions))
    )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[topic],
    )
    return frame(request, 3)


def _list_offsets(partition_count: int) -> bytes:
    partitions = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=n, timestamp=-1)
        for n in range(partition_count)
    ]
    topic = ListOffsetsRequest.ListOffsetsTopic(name="unknown", partitions=partitions)
    return frame(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)


def _fetch(partition_count: int) -> bytes:
    partitions = [
        FetchRequest.FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1)
        for n in range(partition_count)
    ]
    topic = FetchRequest.FetchTopic(topic="unknown", partitions=partitions)
    return frame(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, topics=[topic]), 12)


def _metadata_names(count: int) -> bytes:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in _names(count)]
    return frame(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)


def _delete_topics(count: int) -> bytes:
    return frame(DeleteTopicsRequest(topic_names=_names(count), timeout_ms=1), 5)


def _describe_groups(count: int) -> bytes:
    return frame(DescribeGroupsRequest(groups=_names(count)), 5)


def _delete_groups(count: int) -> bytes:
    return frame(DeleteGroupsRequest(groups_names=_names(count)), 2)


def _find_coordinator(count: int) -> bytes:
    return frame(FindCoordinatorRequest(coordinator_keys=_names(count)), 4)


def _describe_transactions(count: int) -> bytes:
    return frame(DescribeTransactionsRequest(transactional_ids=_names(count)), 0)


def _consumer_group_describe(count: int) -> bytes:
    return frame(ConsumerGroupDescribeRequest(group_ids=_names(count)), 0)


def _add_raft_voter(count: int) -> bytes:
    listeners = [
        AddRaftVoterRequest.Listener(name=name, host="h", port=1) for name in _names(count)
    ]
    request = AddRaftVoterRequest(
        voter_id=7, voter_directory_id=bytes([1]) * 16, listeners=listeners
    )
    return frame(request, 1)


def _update_features(count: int) -> bytes:
    updates = [
        UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=1, upgrade_type=1)
        for name in _names(count)
    ]
    return frame(UpdateFeaturesRequest(feature_updates=updates), 2)


def _streams_heartbeat(count: int) -> bytes:
    request = StreamsGroupHeartbeatRequest(
        group_id="s",
        member_id="m",
        rebalance_timeout_ms=1_000,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
        client_tags=[
            StreamsGroupHeartbeatRequest.KeyValue(key=name, value="v")
            for name in _names(10 * count)
        ],
        topology=StreamsGroupHeartbeatRequest.Topology(epoch=1),
    )
    return frame(request, 1)


class HostileOutcome(NamedTuple):
    """The result of one request of `socket.request.max.bytes`."""

    place: Place
    size_bytes: int
    worst_ms: float
    """The worst round trip of the other client."""
    cpu_s: float
    memory_ratio: float
    """The growth of the broker's resident memory, as a multiple of the request."""
    is_answered: bool
    has_expelled_member: bool
    """Whether the other client, a member of a group, lost its membership."""


def measure_hostile_requests(
    requests: Iterable[tuple[Place, int]], size_bytes: int = 104_000_000
) -> Iterator[HostileOutcome]:
    """Send hostile requests to one broker, and yield the results.

    A request is a place and the maximum number of elements there. Elements beyond those that Kafka
    reads are equal, because distinct ones would take long to encode.
    """
    with served_broker() as served, _observer(served.port) as ask_observer:
        for place, max_elements in requests:
            send_or_close(served.port, hostile_frame(place, 200, 1))  # the first imports code
            are_equal = max_elements > MAX_LIST_ELEMENTS
            frame_bytes = hostile_frame(place, size_bytes, max_elements, are_equal=are_equal)
            ask_observer()
            Path(f"/proc/{served.pid}/clear_refs").write_text("5")  # begins a new peak
            before_mb, before_s = resident_mb(served.pid), _cpu_seconds(served.pid)
            is_answered = send_or_close(served.port, frame_bytes)
            round_trips = ask_observer()
            peak_mb = resident_mb(served.pid, "VmHWM")
            yield HostileOutcome(
                place,
                len(frame_bytes),
                round_trips.worst_ms,
                _cpu_seconds(served.pid) - before_s,
                (peak_mb - before_mb) * 1024 * 1024 / len(frame_bytes),
                is_answered,
                round_trips.has_expelled_member,
            )


@contextmanager
def _observer(port: int) -> Iterator[Callable[[], RoundTrips]]:
    """Start the other client; yields a function for its round trips since the last call."""
    command = [sys.executable, "-m", "tests.perf.fairness", "--observer", str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as observer:
        stdin, stdout = observer.stdin, observer.stdout
        assert stdin is not None
        assert stdout is not None
        stdout.readline()  # connected and warmed up

        def ask() -> RoundTrips:
            stdin.write(b"\n")
            stdin.flush()
            return RoundTrips(**json.loads(stdout.readline()))

        yield ask
        stdin.close()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def send_or_close(port: int, payload: bytes) -> bool:
    """Send one frame; return whether the broker answers it instead of closing the connection."""
    try:
        send(port, payload)
    except ConnectionError:
        return False
    return True


class Attack(NamedTuple):
    """An attack: a function that returns the bytes to send, their size, and the connections."""

    request: Callable[[int], bytes]
    """Return requests with this number of entities, or this number of requests."""
    size: int
    connections: int = 1

    def large(self) -> bytes:
        """Return the bytes of the attack."""
        return self.request(self.size)

    def small(self) -> bytes:
        """Return a small request of the same kind."""
        return self.request(1)


ATTACKS: Final[Mapping[str, Attack]] = {
    "produce flood": Attack(_produce_flood, 12_288),
    "eight produce floods": Attack(_produce_flood, 12_288, connections=8),
    "wide produce flood": Attack(_wide_produce_flood, 800),
    "eight commit floods": Attack(_commit_flood, 50_000, connections=8),
    "create topics flood": Attack(_create_topics_flood, 150),
    "metadata flood": Attack(_metadata_flood, 12_000),
    "30 compressed batches": Attack(_compressed_batches, 30),
    "100 compressed batches": Attack(_compressed_batches, 100),
    "compressed small records": Attack(_compressed_small_records, 900_000),
    "elect leaders": Attack(_elect_leaders, 1_000_000),
    "delete topics": Attack(_delete_topics, 700_000),
    "describe groups": Attack(_describe_groups, 700_000),
    "delete groups": Attack(_delete_groups, 700_000),
    "find coordinator": Attack(_find_coordinator, 700_000),
    "metadata names": Attack(_metadata_names, 600_000),
    "offset fetch": Attack(_offset_fetch, 1_000_000),
    "offset commit": Attack(_offset_commit, 19_000),
    "add partitions": Attack(_add_partitions, 1_000_000),
    "list offsets": Attack(_list_offsets, 300_000),
    "fetch": Attack(_fetch, 300_000),
    "produce to unknown": Attack(_produce_to_unknown, 500_000),
    "describe transactions": Attack(_describe_transactions, 500_000),
    "consumer group describe": Attack(_consumer_group_describe, 100_000),
    "add raft voter": Attack(_add_raft_voter, 19_000),
    "update features": Attack(_update_features, 19_000),
    "streams heartbeat": Attack(_streams_heartbeat, 1_900),
}


def measure(name: str, *, is_realtime: bool = False) -> Outcome:
    """Start a broker, attack it, and measure the round trips of another client meanwhile."""
    attack = ATTACKS[name]
    large, small = attack.large(), attack.small()
    with served_broker() as served:
        start_mb = resident_mb(served.pid)
        started = time.perf_counter()
        send(served.port, small)
        first_ms = (time.perf_counter() - started) * 1000
        if is_realtime:
            _set_realtime_priority(served.pid)
        payloads = [large] * attack.connections
        round_trips, seconds, before_mb = _measure_attack(served, payloads, is_realtime=is_realtime)
        memory = Memory(
            start_mb, before_mb, resident_mb(served.pid, "VmHWM"), resident_mb(served.pid)
        )
        return Outcome(name, first_ms, round_trips, seconds, memory)


@contextmanager
def served_broker() -> Iterator[ServedKafkalite]:
    """Start a broker in a process, with the topics that the attacks use; kill it at the end."""
    with tempfile.TemporaryDirectory() as directory:
        topics = ("--topic", "plain:1", "--topic", "wide:100", "--topic", "compacted:100")
        served = ServedKafkalite(Path(directory), {}, options=topics)
        served.start()
        try:
            _compact(served.port)
            yield served
        finally:
            served.kill()


def _set_realtime_priority(pid: int) -> None:
    """Give a process real-time priority, so that other load on the machine has no effect."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setscheduler(int(task.name), os.SCHED_RR, os.sched_param(1))


def _measure_attack(
    served: ServedKafkalite, payloads: list[bytes], *, is_realtime: bool
) -> tuple[RoundTrips, float, float]:
    """Return the round trips, the duration in seconds, and the memory before in megabytes."""
    command = [sys.executable, "-m", "tests.perf.fairness", "--observer", str(served.port)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as observer,
        ThreadPoolExecutor(len(payloads)) as pool,
    ):
        assert observer.stdout is not None
        if is_realtime:
            _set_realtime_priority(observer.pid)
        observer.stdout.readline()  # connected and warmed up
        time.sleep(0.5)
        before_mb = resident_mb(served.pid)
        started = time.perf_counter()
        attackers = [pool.submit(send, served.port, payload) for payload in payloads]
        for attacker in attackers:
            attacker.result()
        elapsed_s = time.perf_counter() - started
        time.sleep(_SETTLE_S)
        out, _ = observer.communicate(b"\n")
    return RoundTrips(**json.loads(out)), elapsed_s, before_mb


def send(port: int, payload: bytes) -> None:
    """Send all frames, and read until each has a response."""
    frames = position = 0
    while position < len(payload):
        position += 4 + struct.unpack_from(">i", payload, position)[0]
        frames += 1
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as attacker:
        sender = threading.Thread(target=_send, args=(attacker, payload))
        sender.start()
        for _ in range(frames):
            (length,) = struct.unpack(">i", _receive_exactly(attacker, 4))
            _receive_exactly(attacker, length)
        sender.join()


def _send(attacker: socket.socket, payload: bytes) -> None:
    with suppress(OSError):
        attacker.sendall(payload)


def _receive_exactly(connection: socket.socket, count: int) -> bytes:
    chunks = []
    while count:
        chunk = connection.recv(min(count, 1 << 20))
        if not chunk:
            raise ConnectionError("closed")
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks) if len(chunks) > 1 else chunks[0]


def _compact(port: int) -> None:
    """Make one topic compacted, so that the broker decompresses its batches."""
    from kafkalite.protocol._generated.messages.incremental_alter_configs import (  # noqa: PLC0415
        IncrementalAlterConfigsRequest as Alter,
    )

    entry = Alter.AlterableConfig(name="cleanup.policy", config_operation=0, value="compact")
    resource = Alter.AlterConfigsResource(
        resource_type=2, resource_name="compacted", configs=[entry]
    )
    client = RawClient(port)
    answer = client.call(Alter(resources=[resource]), 1)
    assert not answer.responses[0].error_code, answer
    client.close()


def resident_mb(pid: int, field: str = "VmRSS") -> float:
    """Return a memory field of /proc/PID/status in megabytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def _measure_round_trips(port: int) -> None:
    """Send a request every 20 ms, and print the round trips for each line that arrives on stdin."""
    client = RawClient(port, _TIMEOUT_S)
    request = DescribeClusterRequest()
    for _ in range(10):
        client.call(request, 1)
    member = _Member(client)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read_lines() -> None:
        for line in sys.stdin:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read_lines, daemon=True).start()
    _print_json("ready")
    while True:
        elapsed_ms: list[float] = []
        line = None
        while line is None or not elapsed_ms:
            started = time.perf_counter()
            client.call(request, 1)
            elapsed_ms.append((time.perf_counter() - started) * 1000)
            member.heartbeat()
            with suppress(queue.Empty):
                line = lines.get(timeout=_INTERVAL_S)
        if not line:
            return
        elapsed_ms.sort()
        round_trips = RoundTrips(
            len(elapsed_ms),
            elapsed_ms[len(elapsed_ms) // 2],
            elapsed_ms[len(elapsed_ms) * 99 // 100],
            elapsed_ms[-1],
            member.is_expelled,
        )
        _print_json(round_trips._asdict())


class _Member:
    """The only member of a classic group, with the shortest session timeout."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        client.call(FindCoordinatorRequest(key="observer"), 1)
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        join = JoinGroupRequest(
            group_id="observer",
            session_timeout_ms=6_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        joined = client.call(join, 0)
        while joined.error_code:  # the coordinator loads
            time.sleep(0.1)
            joined = client.call(join, 0)
        self._heartbeat = HeartbeatRequest(
            group_id="observer", generation_id=joined.generation_id, member_id=joined.member_id
        )
        client.call(
            SyncGroupRequest(
                group_id="observer",
                generation_id=joined.generation_id,
                member_id=joined.member_id,
            ),
            0,
        )
        self._next_s = 0.0
        self.is_expelled = False

    def heartbeat(self) -> None:
        """Send a heartbeat, if the last one was sent a second ago."""
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + 1
            self.is_expelled |= bool(self._client.call(self._heartbeat, 0).error_code)


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Measure the given attacks, by default all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=", ".join(ATTACKS))
    parser.add_argument("--check", action="store_true", help="exit with 1 if a limit is exceeded")
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="give the broker and the other client real-time priority; requires root, and Linux "
        "suspends them for 50 ms of each second that they use completely",
    )
    parser.add_argument(
        "--hostile", action="store_true", help="send hostile requests of the largest size"
    )
    parser.add_argument("--observer", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.observer is not None:
        _measure_round_trips(options.observer)
        return
    if options.hostile:
        _print_hostile_requests(options.attacks)
        return
    exceeded_limits = []
    heading = (
        "attack", "first ms", "n", "median", "p99", "worst ms", "attack s",
        "MB start", "before", "peak", "after",
    )  # fmt: skip
    print_line(("{:26}" + "{:>10}" * 10).format(*heading))
    for name in options.attacks or ATTACKS:
        outcome = measure(name, is_realtime=options.realtime)
        round_trips, memory = outcome.round_trips, outcome.memory
        print_line(
            f"{name:26}{outcome.first_ms:10.1f}{round_trips.samples:10}"
            f"{round_trips.median_ms:10.2f}{round_trips.p99_ms:10.1f}{round_trips.worst_ms:10.1f}"
            f"{outcome.seconds:10.2f}{memory.start:10.1f}{memory.before:10.1f}{memory.peak:10.0f}{memory.after:10.1f}"
        )
        exceeded_limits += [
            f"{name}: {exceeded_limit}" for exceeded_limit in outcome.exceeded_limits
        ]
    for exceeded_limit in exceeded_limits:
        print_line(f"limit exceeded: {exceeded_limit}")
    if exceeded_limits and options.check:
        raise SystemExit(1)


def _print_hostile_requests(apis: list[str]) -> None:
    """Measure requests of the largest size, and requests with as many elements as are served."""
    keys = [key for key in TABLE if not apis or codec.api_name(key) in apis]
    heading = ("MB", "worst ms", "CPU s", "memory", "answered")
    print_line(("{:60}" + "{:>10}" * 5).format("request", *heading))
    places = [place for key in keys for place in distinct_places(key)]
    requests = [(place, 1 << 40) for place in places]
    requests += [(place, _served_elements(place.key)) for place in places if place.kind == LIST]
    for outcome in measure_hostile_requests(requests):
        expelled = " a member was expelled" if outcome.has_expelled_member else ""
        print_line(
            f"{outcome.place!s:60.60}{outcome.size_bytes / 1e6:10.1f}{outcome.worst_ms:10.1f}"
            f"{outcome.cpu_s:10.2f}{outcome.memory_ratio:10.1f}{outcome.is_answered:10}{expelled}"
        )


def _served_elements(key: int) -> int:
    api = find_api(key)
    assert api is not None
    return api.max_elements // 3  # each element may have two lists with one element each


def print_line(line: str) -> None:
    """Print and flush a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
