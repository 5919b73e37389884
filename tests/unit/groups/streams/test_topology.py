"""Topologies as values: read from what a member says and from the log alike."""

from __future__ import annotations

import pytest

from kafkalite.groups.streams.records import topology_record
from kafkalite.groups.streams.topology import MOST_PARTS, Topology, check_size, topology_of
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.records.streams_group_topology import StreamsGroupTopologyValue
from tests.scenarios.streams_world import Request, internal, reading

SAID = Request.Topology(
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


def test_a_topology_survives_the_log() -> None:
    topology = topology_of(SAID)
    record = topology_record("g", topology)
    assert isinstance(record.value, StreamsGroupTopologyValue)
    assert topology_of(record.value) == topology
    assert list(topology.subtopologies) == ["0", "1"]


def test_topics_by_what_they_are_for() -> None:
    topology = topology_of(SAID)
    assert topology.required_topics() == {"in", "other", "r", "c"}
    assert topology.readers() == {"in": "0", "other": "0", "r": "1"}
    assert topology.subtopologies["0"].copartitioned_topics() == [{"in", "other"}]
    assert Topology(0, {}).required_topics() == frozenset()


@pytest.mark.parametrize("index", [2, -1])
def test_a_copartition_group_must_name_topics_there_are(index: int) -> None:
    wrong = reading("in", copartition_groups=[Request.CopartitionGroup(source_topics=[index])])
    topology = topology_of(Request.Topology(subtopologies=[wrong]))
    with pytest.raises(KeyError):
        topology.subtopologies["0"].copartitioned_topics()


@pytest.mark.parametrize(
    "wrong",
    [Request.Topology(epoch=-1), Request.Topology(subtopologies=[reading("a"), reading("b")])],
)
def test_some_topologies_cannot_be(wrong: Request.Topology) -> None:
    with pytest.raises(KafkaError) as refusal:
        topology_of(wrong)
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_topologies_have_so_many_parts_and_no_more() -> None:
    """The parts are counted wherever they stand: topics, their configs, positions in groups."""
    check_size(SAID)
    check_size(Request.Topology(subtopologies=[reading(*["in"] * (MOST_PARTS - 7))]))
    for large in (
        reading(*["in"] * (MOST_PARTS - 6)),
        reading(repartition_sink_topics=["r"] * MOST_PARTS),
        reading(
            state_changelog_topics=[internal("c", configs={str(n): "" for n in range(MOST_PARTS)})]
        ),
        reading(
            "in", copartition_groups=[Request.CopartitionGroup(source_topics=[0] * MOST_PARTS)]
        ),
    ):
        with pytest.raises(KafkaError) as refused:
            check_size(Request.Topology(subtopologies=[large]))
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
