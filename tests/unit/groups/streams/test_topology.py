"""Topologies as values, from requests and from records."""

from __future__ import annotations

import pytest

from kafkalite.groups.streams.streams_group_records import topology_record
from kafkalite.groups.streams.topology import (
    MAX_MEMBER_ELEMENTS,
    MAX_TOPOLOGY_ELEMENTS,
    Topology,
    check_member_size,
    check_size,
    topology_of,
)
from kafkalite.protocol._generated.records.streams_group_topology import StreamsGroupTopologyValue
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.scenarios.streams_coordinator import Request, internal, reading

MESSAGE = Request.Topology(
    epoch=3,
    subtopologies=[
        reading(
            name="1",
            repartition_source_topics=[internal("r", 2)],
            state_changelog_topics=[internal("c", replicas=1, configs={"a": "b"})],
        ),
        reading(
            "in",
            "other",
            repartition_sink_topics=["r"],
            copartition_groups=[Request.CopartitionGroup(source_topics=[0, 1])],
        ),
    ],
)


def test_a_topology_is_the_same_after_encoding() -> None:
    topology = topology_of(MESSAGE)
    record = topology_record("g", topology)
    assert isinstance(record.value, StreamsGroupTopologyValue)
    assert topology_of(record.value) == topology
    assert list(topology.subtopologies) == ["0", "1"]


def test_topics_of_a_topology_by_role() -> None:
    topology = topology_of(MESSAGE)
    assert topology.required_topics() == {"in", "other", "r", "c"}
    assert topology.subtopology_by_topic() == {"in": "0", "other": "0", "r": "1"}
    assert topology.subtopologies["0"].copartitioned_topics() == [{"in", "other"}]
    assert Topology(0, {}).required_topics() == frozenset()


@pytest.mark.parametrize("index", [2, -1])
def test_a_copartition_group_with_a_wrong_position_is_refused(index: int) -> None:
    wrong = reading("in", copartition_groups=[Request.CopartitionGroup(source_topics=[index])])
    topology = topology_of(Request.Topology(subtopologies=[wrong]))
    with pytest.raises(KeyError):
        topology.subtopologies["0"].copartitioned_topics()


@pytest.mark.parametrize(
    "wrong",
    [Request.Topology(epoch=-1), Request.Topology(subtopologies=[reading("a"), reading("b")])],
)
def test_invalid_topologies_are_refused(wrong: Request.Topology) -> None:
    with pytest.raises(KafkaError) as refusal:
        topology_of(wrong)
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_topologies_with_too_many_elements_are_refused() -> None:
    """All elements are counted: topics, their configs, positions in copartition groups."""
    check_size(MESSAGE)
    sources = (MAX_TOPOLOGY_ELEMENTS - 20) // 3
    check_size(Request.Topology(subtopologies=[reading(*["in"] * sources)]))
    for large in (
        reading(*["in"] * (sources + 1)),
        reading(repartition_sink_topics=["r"] * MAX_TOPOLOGY_ELEMENTS),
        reading(
            state_changelog_topics=[
                internal("c", configs={str(n): "" for n in range(MAX_TOPOLOGY_ELEMENTS)})
            ]
        ),
        reading(
            "in",
            copartition_groups=[
                Request.CopartitionGroup(source_topics=[0] * MAX_TOPOLOGY_ELEMENTS)
            ],
        ),
    ):
        with pytest.raises(KafkaError) as refused:
            check_size(Request.Topology(subtopologies=[large]))
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


TAGS = [Request.KeyValue(key="k", value="v")]
TASKS = [Request.TaskIds(subtopology_id="0")]
LARGE_TASK = [Request.TaskIds(partitions=[0] * MAX_MEMBER_ELEMENTS)]
OFFSETS = [Request.TaskOffset()]


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (Request(client_tags=TAGS), Request(client_tags=TAGS * (MAX_MEMBER_ELEMENTS // 4 + 1))),
        (Request(active_tasks=TASKS), Request(active_tasks=TASKS * (MAX_MEMBER_ELEMENTS // 2 + 1))),
        (Request(standby_tasks=TASKS), Request(standby_tasks=LARGE_TASK)),
        (Request(warmup_tasks=TASKS), Request(warmup_tasks=LARGE_TASK)),
        (Request(task_offsets=OFFSETS), Request(task_offsets=OFFSETS * (MAX_MEMBER_ELEMENTS + 1))),
        (Request(), Request(task_end_offsets=OFFSETS * (MAX_MEMBER_ELEMENTS + 1))),
    ],
    ids=["tags", "tasks", "standby tasks", "warm-up tasks", "offsets", "end offsets"],
)
def test_the_size_of_a_member_is_limited(small: Request, large: Request) -> None:
    check_member_size(small)
    with pytest.raises(KafkaError) as refused:
        check_member_size(large)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
