"""Measures the columnar decoder compared with the scalar codec on the same bytes.

`python -m tests.perf.columnar_decode` runs both in alternating rounds in one process, and prints
messages per second and MB/s by the CPU time of the thread. With `--check` it fails if a speedup of
the columnar decoder is below its minimum.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass
from time import thread_time_ns
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from kafkalite.capture.model import Direction
from kafkalite.lab.columnar.decoding.decode import decode
from kafkalite.lab.columnar.records.records import read_column
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.metadata import MetadataResponse
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.storage.batch import BatchView, build_batch, split_batches
from kafkalite.storage.record_format import NewRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROUNDS: Final = 9
_ROWS: Final = 32_768
_BYTES: Final = 16 << 20
_TOPIC: Final = bytes(range(16))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same messages, decoded by both."""

    name: str
    messages: int
    size: int
    columnar: Callable[[], object]
    scalar: Callable[[], object]
    min_speedup: float
    """The minimum speedup compared with the scalar codec."""


def frames(messages: Sequence[Any], builder: codec.Builder) -> list[bytes]:
    """Encode messages, and repeat them up to the usual size of a batch."""
    written = []
    for message in messages:
        out: codec.Out = []
        builder(message, out)
        written.append(b"".join(out))
    size = sum(map(len, written))
    return written * max(1, min(_ROWS // len(written), _BYTES // size))


def compare(  # noqa: PLR0917 - a row of a table
    api_key: int,
    version: int,
    direction: Direction,
    messages: Sequence[Any],
    min_speedup: float,
    fields: Sequence[str] | None = None,
) -> Comparison:
    """Return the benchmark of the messages of one API."""
    builders = (codec.request_builder, codec.response_builder)
    parsers = (codec.request_parser, codec.response_parser)
    written = frames(messages, builders[direction](api_key, version))
    parse = parsers[direction](api_key, version)
    column = pa.array(written, pa.binary())
    field_note = "" if fields is None else f", {len(fields)} fields"
    return Comparison(
        f"{codec.api_name(api_key)} v{version} {direction.name.lower()}{field_note}",
        len(written),
        sum(map(len, written)),
        lambda: decode(api_key, version, direction, column, fields=fields),
        lambda: [parse(frame, 0, len(frame)) for frame in written],
        min_speedup,
    )


def commits() -> list[OffsetCommitRequest]:
    """Return small commits, as from consumers of one partition."""
    message_class = OffsetCommitRequest
    return [
        message_class(
            group_id=f"group-{number % 60}",
            generation_id_or_member_epoch=number,
            member_id="abcdefghijklmnopqrstuv",
            topics=[
                message_class.OffsetCommitRequestTopic(
                    name=f"topic-{number % 9}",
                    partitions=[
                        message_class.OffsetCommitRequestPartition(
                            partition_index=number % 5,
                            committed_offset=7 * number,
                            committed_leader_epoch=3,
                            committed_metadata="",
                        )
                    ],
                )
            ],
        )
        for number in range(2000)
    ]


def heartbeats() -> list[ConsumerGroupHeartbeatRequest]:
    """Return heartbeats, every twentieth with a subscription and partitions."""
    message_class = ConsumerGroupHeartbeatRequest
    return [
        message_class(
            group_id=f"group-{number % 60}",
            member_id="abcdefghijklmnopqrstuv",
            member_epoch=number,
            subscribed_topic_names=None if number % 20 else ["orders", "returns"],
            topic_partitions=None
            if number % 20
            else [message_class.TopicPartitions(topic_id=_TOPIC, partitions=[1, 2, 3])],
        )
        for number in range(2000)
    ]


def metadata_responses() -> list[MetadataResponse]:
    """Return Metadata responses with twenty topics of six partitions."""
    message_class = MetadataResponse
    return [
        message_class(
            brokers=[
                message_class.MetadataResponseBroker(node_id=node, host=f"broker-{node}", port=9092)
                for node in range(3)
            ],
            cluster_id="5L6g3nShT-eMCtK--X86sw",
            controller_id=number % 3,
            topics=[
                message_class.MetadataResponseTopic(
                    name=f"topic-{topic}",
                    topic_id=_TOPIC,
                    partitions=[
                        message_class.MetadataResponsePartition(
                            partition_index=index,
                            leader_id=index % 3,
                            leader_epoch=number,
                            replica_nodes=[0, 1, 2],
                            isr_nodes=[0, 1, 2],
                        )
                        for index in range(6)
                    ],
                )
                for topic in range(20)
            ],
        )
        for number in range(50)
    ]


def fetches() -> list[FetchRequest]:
    """Return Fetch requests with sessions, every tenth with a hundred partitions."""
    message_class = FetchRequest
    return [
        message_class(
            max_wait_ms=500,
            session_id=number,
            topics=[]
            if number % 10
            else [
                message_class.FetchTopic(
                    topic_id=_TOPIC,
                    partitions=[
                        message_class.FetchPartition(partition=index, fetch_offset=number)
                        for index in range(100)
                    ],
                )
            ],
        )
        for number in range(500)
    ]


def batch(records: int) -> bytes:
    """Return a batch of small records."""
    rows = [NewRecord(b"key-%d" % n, b"value" * 20, 1_700_000_000_000 + n) for n in range(records)]
    return build_batch(rows)


def produces() -> list[ProduceRequest]:
    """Return Produce requests with one batch of ten records."""
    message_class = ProduceRequest
    data = batch(10)
    return [
        message_class(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                message_class.TopicProduceData(
                    name="orders",
                    partition_data=[message_class.PartitionProduceData(index=number, records=data)],
                )
            ],
        )
        for number in range(300)
    ]


def records() -> Comparison:
    """Return the benchmark of batches of a hundred records."""
    data = batch(100)
    column = pa.array([data] * 300, pa.binary())

    def scalar() -> list[object]:
        views: list[BatchView] = [view for _ in range(300) for view in split_batches(data)]
        return [view.records() for view in views if view.has_valid_crc()]

    return Comparison(
        "records", 300 * 100, 300 * len(data), lambda: list(read_column(column)), scalar, 6
    )


def comparisons() -> list[Comparison]:
    """Return all benchmarks."""
    selected_fields = ("group_id", "topics.partitions.committed_offset")
    return [
        compare(8, 9, Direction.REQUEST, commits(), 50),
        compare(8, 9, Direction.REQUEST, commits(), 70, selected_fields),
        compare(68, 1, Direction.REQUEST, heartbeats(), 20),
        compare(3, 12, Direction.RESPONSE, metadata_responses(), 45),
        compare(1, 17, Direction.REQUEST, fetches(), 28),
        compare(0, 12, Direction.REQUEST, produces(), 35),
        records(),
    ]


def seconds(run: Callable[[], object]) -> float:
    """Return the CPU time of this thread for one run."""
    started = thread_time_ns()
    run()
    return (thread_time_ns() - started) / 1e9


def measure(comparison: Comparison) -> tuple[float, float]:
    """Run both in alternating rounds, and return the median seconds of each."""
    comparison.columnar()
    times = [(seconds(comparison.columnar), seconds(comparison.scalar)) for _ in range(ROUNDS)]
    return statistics.median(pair[0] for pair in times), statistics.median(t[1] for t in times)


def main() -> int:
    """Measure and print; with `--check`, return 1 if a speedup is below its minimum."""
    pa.set_cpu_count(1)
    np.seterr(all="raise")
    missed = 0
    for comparison in comparisons():
        columnar, scalar = measure(comparison)
        ratio = scalar / columnar
        missed += ratio < comparison.min_speedup
        print(  # noqa: T201
            f"{comparison.name:45} {comparison.messages / columnar / 1e6:7.2f} M/s"
            f" {comparison.size / columnar / 1e6:6.0f} MB/s, {ratio:5.1f} times the scalar"
            f" {comparison.messages / scalar / 1e6:.3f} M/s (at least {comparison.min_speedup:g})"
        )
    return int(missed > 0 and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
