"""Partition counts of internal topics by Kafka's rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.groups.streams.partition_counts import decide_partition_counts
from kafkalite.groups.streams.status import IncorrectlyPartitionedError
from kafkalite.groups.streams.topology import topology_of
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.scenarios.group_coordinator import image_of, topic_image
from tests.scenarios.streams_coordinator import Request, internal, reading


def decided(*subtopologies: Request.Subtopology, **topics: int) -> dict[str, int]:
    image = image_of(*(topic_image(name, count) for name, count in topics.items()))
    topology = topology_of(Request.Topology(subtopologies=list(subtopologies)))
    return decide_partition_counts(topology, image).decided


def copartition_group(
    *sources: int, repartitions: tuple[int, ...] = ()
) -> list[Request.CopartitionGroup]:
    return [
        Request.CopartitionGroup(
            source_topics=list(sources), repartition_source_topics=list(repartitions)
        )
    ]


def test_a_repartition_topic_has_its_requested_count() -> None:
    counts = decided(
        reading("t", repartition_sink_topics=["r"]),
        reading(name="1", repartition_source_topics=[internal("r", 7)]),
        t=3,
    )
    assert counts == {"r": 7}


def test_a_repartition_topic_without_count_has_that_of_its_writers_largest_input() -> None:
    counts = decided(
        reading("t", "u", repartition_sink_topics=["r"]),
        reading(name="1", repartition_source_topics=[internal("r")]),
        t=3,
        u=5,
    )
    assert counts == {"r": 5}


def test_counts_propagate_along_repartition_topics() -> None:
    counts = decided(
        # The ids are in reverse order of the data flow, so one pass is not enough.
        reading(
            name="0",
            repartition_source_topics=[internal("b")],
            state_changelog_topics=[internal("c")],
        ),
        reading(name="1", repartition_source_topics=[internal("a")], repartition_sink_topics=["b"]),
        reading("t", name="2", repartition_sink_topics=["a"]),
        t=4,
    )
    assert counts == {"a": 4, "b": 4, "c": 4}


def test_a_long_chain_in_reverse_order_is_fast() -> None:
    length = 5_000
    chain = [
        reading(
            name=f"{length - index:06}",
            repartition_source_topics=[internal(f"r{index}")],
            repartition_sink_topics=[f"r{index + 1}"],
        )
        for index in range(length)
    ]
    counts = decided(*chain, reading("t", name="x", repartition_sink_topics=["r0"]), t=3)
    assert len(counts) == length + 1
    assert set(counts.values()) == {3}


def test_a_subtopology_that_reads_its_own_sinks_is_fast() -> None:
    """It is visited once, and not once for each of its sinks."""
    names = [f"r{number}" for number in range(40_000)]
    own = reading(
        "t", repartition_sink_topics=names, repartition_source_topics=list(map(internal, names))
    )
    counts = decided(own, t=2)
    assert len(counts) == len(names)
    assert set(counts.values()) == {2}


def test_many_copartition_groups_with_requested_counts_are_fast() -> None:
    """The requested counts are compared once, and not once for each group."""
    topics = [internal(f"r{number}", 2) for number in range(20_000)]
    groups = [Request.CopartitionGroup(repartition_source_topics=[each]) for each in range(20_000)]
    own = reading("t", repartition_source_topics=topics, copartition_groups=groups)
    assert set(decided(own, t=3).values()) == {2}


def test_a_changelog_has_a_partition_for_every_task() -> None:
    counts = decided(reading("t", "u", state_changelog_topics=[internal("c")]), t=2, u=6)
    assert counts == {"c": 6}


def test_copartitioned_topics_have_the_count_of_external_topics() -> None:
    counts = decided(
        reading(
            "t",
            repartition_source_topics=[internal("r")],
            copartition_groups=copartition_group(0, repartitions=(0,)),
        ),
        reading("u", name="1", repartition_sink_topics=["r"]),
        t=2,
        u=9,
    )
    assert counts == {"r": 2}


@pytest.mark.parametrize(
    ("requested", "count"), [((0, 0), 9), ((4, 0), 4), ((0, 4), 4), ((4, 4), 4)]
)
def test_copartitioned_repartition_topics_have_one_count(
    requested: tuple[int, int], count: int
) -> None:
    counts = decided(
        reading(
            repartition_source_topics=[internal("a", requested[0]), internal("b", requested[1])],
            copartition_groups=copartition_group(repartitions=(0, 1)),
        ),
        reading("t", name="1", repartition_sink_topics=["a"]),
        reading("u", name="2", repartition_sink_topics=["b"]),
        t=3,
        u=9,
    )
    assert counts == {"a": count, "b": count}


def test_existing_topics_have_their_actual_count() -> None:
    counts = decided(
        reading(
            "t",
            repartition_source_topics=[internal("r")],
            state_changelog_topics=[internal("c")],
        ),
        reading("u", name="1", repartition_sink_topics=["r"]),
        t=2,
        u=3,
        r=8,
    )
    assert counts["c"] == 8


@pytest.mark.parametrize(
    "subtopology",
    [
        reading("t", "u", copartition_groups=copartition_group(0, 1)),
        reading(
            "t",
            repartition_source_topics=[internal("r", 5)],
            copartition_groups=copartition_group(0, repartitions=(0,)),
        ),
        reading(
            repartition_source_topics=[internal("a", 2), internal("b", 3)],
            copartition_groups=copartition_group(repartitions=(0, 1)),
        ),
    ],
)
def test_copartitioned_topics_with_different_counts_are_refused(
    subtopology: Request.Subtopology,
) -> None:
    with pytest.raises(IncorrectlyPartitionedError):
        decided(subtopology, t=2, u=3)


@pytest.mark.parametrize(
    "subtopology",
    [
        reading(),
        reading("t", repartition_source_topics=[internal("r")]),
        reading(repartition_sink_topics=["r"], repartition_source_topics=[internal("r")]),
    ],
)
def test_topologies_with_undetermined_counts_are_refused(subtopology: Request.Subtopology) -> None:
    with pytest.raises(KafkaError) as refusal:
        decided(subtopology, t=2)
    assert refusal.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_an_empty_copartition_group_has_no_effect() -> None:
    assert decided(reading("t", copartition_groups=copartition_group()), t=1) == {}
    with pytest.raises(KafkaError) as refusal:
        decided(reading("t", copartition_groups=copartition_group(5)), t=1)
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


@st.composite
def flows(draw: st.DrawFn) -> list[Request.Subtopology]:
    """Draw subtopologies that read and write topics r0 to r4, and read some that exist."""
    internals = st.lists(st.sampled_from(["r0", "r1", "r2", "r3", "r4"]), unique=True, max_size=2)
    return [
        reading(
            *draw(st.lists(st.sampled_from(["t", "u"]), unique=True, max_size=1)),
            name=str(index),
            repartition_sink_topics=draw(internals),
            repartition_source_topics=[internal(name) for name in draw(internals)],
        )
        for index in range(draw(st.integers(1, 5)))
    ]


def counts_by_repeated_iteration(
    subtopologies: list[Request.Subtopology], **topics: int
) -> dict[str, int] | None:
    """Iterate over all subtopologies until nothing changes; None if there is a loop."""
    counts: dict[str, int] = {}
    sinks = sum(len(set(each.repartition_sink_topics)) for each in subtopologies)
    for _ in range(sinks + 1):
        for each in subtopologies:
            known = [topics[topic] for topic in each.source_topics]
            known += [
                counts[topic.name]
                for topic in each.repartition_source_topics
                if topic.name in counts
            ]
            for sink in each.repartition_sink_topics:
                if sink not in counts and known:
                    counts[sink] = max(known)
    written = {sink for each in subtopologies for sink in each.repartition_sink_topics}
    read = {topic.name for each in subtopologies for topic in each.repartition_source_topics}
    return counts if counts.keys() >= written | read else None


@given(flow=flows())
def test_counts_equal_those_of_repeated_iteration(flow: list[Request.Subtopology]) -> None:
    expected = counts_by_repeated_iteration(flow, t=3, u=5)
    if any(not each.source_topics and not each.repartition_source_topics for each in flow):
        expected = None  # a subtopology that reads nothing is refused
    try:
        assert decided(*flow, t=3, u=5) == expected
    except KafkaError as refusal:
        assert refusal.code is ErrorCode.STREAMS_INVALID_TOPOLOGY  # noqa: PT017
        assert expected is None
