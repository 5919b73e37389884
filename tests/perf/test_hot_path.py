"""How many calls a plain request takes: what transactions must not make more of.

Processor time says little on a machine with other work; how many Python functions run is the same
on each. The budgets are what was needed before there were transactions, and a little more.
"""

from __future__ import annotations

import cProfile
import pstats
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol.messages.fetch import FetchRequest
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.messages.produce import ProduceRequest
from tests.conformance.batches import batch
from tests.perf.groups_world import World
from tests.perf.pipeline import frame

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_TOPIC = "plain"
_WARM, _COUNTED = 50, 200


def produce(number: int) -> bytes:
    data = ProduceRequest.PartitionProduceData(index=0, records=batch(b"%d" % number))
    topic = ProduceRequest.TopicProduceData(name=_TOPIC, partition_data=[data])
    return frame(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)


def fetch(number: int) -> bytes:
    partition = FetchRequest.FetchPartition(
        partition=0, fetch_offset=number, partition_max_bytes=100
    )
    topic = FetchRequest.FetchTopic(topic=_TOPIC, partitions=[partition])
    request = FetchRequest(
        replica_id=-1, min_bytes=1, max_bytes=1000, session_epoch=-1, topics=[topic]
    )
    return frame(request, 12)


def commit(number: int) -> bytes:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=number
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=_TOPIC, partitions=[partition])
    return frame(
        OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic]), 8
    )


@pytest.mark.parametrize(("make", "budget"), [(produce, 130), (fetch, 132), (commit, 188)])
def test_a_plain_request_takes_no_more_calls_than_it_did(
    make: Callable[[int], bytes], budget: int, tmp_path: Path
) -> None:
    world = World(str(tmp_path))
    topic = CreateTopicsRequest.CreatableTopic(name=_TOPIC, num_partitions=1, replication_factor=1)
    world.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
    for number in range(_WARM + _COUNTED):
        world.serve(produce(number))
    frames = [make(number) for number in range(_WARM + _COUNTED)]
    for each in frames[:_WARM]:
        world.serve(each)
    profile = cProfile.Profile()
    profile.enable()
    for each in frames[_WARM:]:
        world.serve(each)
    profile.disable()
    world.close()
    assert pstats.Stats(profile).total_calls / _COUNTED < budget  # type: ignore[attr-defined]
