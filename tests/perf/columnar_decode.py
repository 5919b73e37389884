"""How fast columns are decoded, beside the scalar codec on the same bytes.

`python -m tests.perf.columnar_decode` prints messages a second and MB/s of both, in turns in one
process, by the thread's own CPU time; with `--check` it fails where the columnar decode is not as
many times faster as it has been.
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
from kafkalite.columnar.decode import decode
from kafkalite.columnar.records import read_column
from kafkalite.protocol import codec
from kafkalite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkalite.protocol.messages.fetch import FetchRequest
from kafkalite.protocol.messages.metadata import MetadataResponse
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.storage.batch import BatchView, build_batch, split_batches
from kafkalite.storage.records import NewRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROUNDS: Final = 9
_ROWS: Final = 32_768
_BYTES: Final = 16 << 20
_TOPIC: Final = bytes(range(16))


@dataclass(frozen=True, slots=True)
class Contest:
    """The same messages, decoded in both ways."""

    name: str
    messages: int
    size: int
    columnar: Callable[[], object]
    scalar: Callable[[], object]
    at_least: float
    """So many times faster than scalar it has to be."""


def frames(messages: Sequence[Any], builder: codec.Builder) -> list[bytes]:
    """Write messages, each as often as it takes for a batch of usual size."""
    written = []
    for message in messages:
        out: codec.Out = []
        builder(message, out)
        written.append(b"".join(out))
    size = sum(map(len, written))
    return written * max(1, min(_ROWS // len(written), _BYTES // size))


def contest(  # noqa: PLR0917 - a row of a table
    api_key: int,
    version: int,
    direction: Direction,
    messages: Sequence[Any],
    at_least: float,
    fields: Sequence[str] | None = None,
) -> Contest:
    """Set up one API's messages."""
    builders = (codec.request_builder, codec.response_builder)
    parsers = (codec.request_parser, codec.response_parser)
    written = frames(messages, builders[direction](api_key, version))
    parse = parsers[direction](api_key, version)
    column = pa.array(written, pa.binary())
    pruned = "" if fields is None else f", {len(fields)} of its fields"
    return Contest(
        f"{codec.api_name(api_key)} v{version} {direction.name.lower()}{pruned}",
        len(written),
        sum(map(len, written)),
        lambda: decode(api_key, version, direction, column, fields=fields),
        lambda: [parse(frame, 0, len(frame)) for frame in written],
        at_least,
    )


def commits() -> list[OffsetCommitRequest]:
    """Make small commits, as consumers of one partition send them."""
    kind = OffsetCommitRequest
    return [
        kind(
            group_id=f"group-{number % 60}",
            generation_id_or_member_epoch=number,
            member_id="abcdefghijklmnopqrstuv",
            topics=[
                kind.OffsetCommitRequestTopic(
                    name=f"topic-{number % 9}",
                    partitions=[
                        kind.OffsetCommitRequestPartition(
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
    """Make heartbeats that say nothing new, and one in twenty that does."""
    kind = ConsumerGroupHeartbeatRequest
    return [
        kind(
            group_id=f"group-{number % 60}",
            member_id="abcdefghijklmnopqrstuv",
            member_epoch=number,
            subscribed_topic_names=None if number % 20 else ["orders", "returns"],
            topic_partitions=None
            if number % 20
            else [kind.TopicPartitions(topic_id=_TOPIC, partitions=[1, 2, 3])],
        )
        for number in range(2000)
    ]


def clusters() -> list[MetadataResponse]:
    """Make answers about twenty topics of six partitions."""
    kind = MetadataResponse
    return [
        kind(
            brokers=[
                kind.MetadataResponseBroker(node_id=node, host=f"broker-{node}", port=9092)
                for node in range(3)
            ],
            cluster_id="5L6g3nShT-eMCtK--X86sw",
            controller_id=number % 3,
            topics=[
                kind.MetadataResponseTopic(
                    name=f"topic-{topic}",
                    topic_id=_TOPIC,
                    partitions=[
                        kind.MetadataResponsePartition(
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
    """Make fetches of sessions: of no partition mostly, and of a hundred now and then."""
    kind = FetchRequest
    return [
        kind(
            max_wait_ms=500,
            session_id=number,
            topics=[]
            if number % 10
            else [
                kind.FetchTopic(
                    topic_id=_TOPIC,
                    partitions=[
                        kind.FetchPartition(partition=index, fetch_offset=number)
                        for index in range(100)
                    ],
                )
            ],
        )
        for number in range(500)
    ]


def batch(records: int) -> bytes:
    """Make a batch of small records."""
    rows = [NewRecord(b"key-%d" % n, b"value" * 20, 1_700_000_000_000 + n) for n in range(records)]
    return build_batch(rows)


def produces() -> list[ProduceRequest]:
    """Make batches of ten records to one partition."""
    kind = ProduceRequest
    data = batch(10)
    return [
        kind(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                kind.TopicProduceData(
                    name="orders",
                    partition_data=[kind.PartitionProduceData(index=number, records=data)],
                )
            ],
        )
        for number in range(300)
    ]


def records() -> Contest:
    """Set up batches of a hundred records."""
    data = batch(100)
    column = pa.array([data] * 300, pa.binary())

    def scalar() -> list[object]:
        views: list[BatchView] = [view for _ in range(300) for view in split_batches(data)]
        return [view.records() for view in views if view.has_valid_crc()]

    return Contest(
        "records", 300 * 100, 300 * len(data), lambda: list(read_column(column)), scalar, 6
    )


def contests() -> list[Contest]:
    """Set up all."""
    some = ("group_id", "topics.partitions.committed_offset")
    return [
        contest(8, 9, Direction.REQUEST, commits(), 50),
        contest(8, 9, Direction.REQUEST, commits(), 70, some),
        contest(68, 1, Direction.REQUEST, heartbeats(), 20),
        contest(3, 12, Direction.RESPONSE, clusters(), 45),
        contest(1, 17, Direction.REQUEST, fetches(), 28),
        contest(0, 12, Direction.REQUEST, produces(), 35),
        records(),
    ]


def seconds(run: Callable[[], object]) -> float:
    """Time one run by the CPU time of this thread."""
    began = thread_time_ns()
    run()
    return (thread_time_ns() - began) / 1e9


def measured(each: Contest) -> tuple[float, float]:
    """Time both in turns; the medians in seconds."""
    each.columnar()
    turns = [(seconds(each.columnar), seconds(each.scalar)) for _ in range(ROUNDS)]
    return statistics.median(turn[0] for turn in turns), statistics.median(t[1] for t in turns)


def main() -> int:
    """Print, and with `--check` judge."""
    pa.set_cpu_count(1)
    np.seterr(all="raise")
    missed = 0
    for each in contests():
        columnar, scalar = measured(each)
        ratio = scalar / columnar
        missed += ratio < each.at_least
        print(  # noqa: T201
            f"{each.name:45} {each.messages / columnar / 1e6:7.2f} M/s"
            f" {each.size / columnar / 1e6:6.0f} MB/s, {ratio:5.1f} times the scalar"
            f" {each.messages / scalar / 1e6:.3f} M/s (at least {each.at_least:g})"
        )
    return int(missed > 0 and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
