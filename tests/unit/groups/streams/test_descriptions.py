"""Descriptions of topologies: conversion, and the delays between requests for them."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.groups.streams.descriptions import (
    MAX_BACKOFFS,
    MAX_DESCRIPTION_ELEMENTS,
    Backoff,
    DescriptionBackoffs,
    check_described_epoch,
    check_description_size,
    description_of,
)
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol._generated.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

Update = StreamsGroupTopologyDescriptionUpdateRequest
Node = Update.TopologyDescriptionNode


def described(*nodes: Node, stores: tuple[tuple[Node, Node], ...] = ()) -> Any:  # noqa: ANN401
    global_stores = [
        Update.TopologyDescriptionGlobalStore(source=source, processor=processor)
        for source, processor in stores
    ]
    return description_of(
        Update.TopologyDescription(
            subtopologies=[
                Update.TopologyDescriptionSubtopology(subtopology_id="0", nodes=list(nodes))
            ],
            global_stores=global_stores,
        )
    )


SOURCE = Node(name="s", node_type=1, source_topics=["t", "u", "t"], sink_topic="x", stores=["x"])
PROCESSOR = Node(name="p", node_type=2, stores=["a", "b", "a"], successors=["q", "q"])
SINK = Node(name="q", node_type=3, sink_topic="out", source_topics=["x"])


def test_nodes_have_only_the_fields_of_their_type() -> None:
    description = described(SOURCE, PROCESSOR, SINK, stores=((SOURCE, PROCESSOR),))
    source, processor, sink = description.subtopologies[0].nodes
    assert (source.source_topics, source.sink_topic, source.stores) == (["t", "u"], None, [])
    assert (processor.stores, processor.successors) == (["a", "b"], ["q"])
    assert (sink.sink_topic, sink.source_topics) == ("out", [])
    assert description.global_stores[0].processor.name == "p"


@pytest.mark.parametrize(
    ("nodes", "stores"),
    [((Node(name="x", node_type=4),), ()), ((), ((PROCESSOR, SOURCE),)), ((), ((SOURCE, SINK),))],
)
def test_unknown_nodes_and_incomplete_stores_are_refused(nodes: Any, stores: Any) -> None:  # noqa: ANN401
    with pytest.raises(KafkaError) as refusal:
        described(*nodes, stores=stores)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


def test_the_description_of_another_epoch_is_refused() -> None:
    check_described_epoch(3, 3)
    with pytest.raises(KafkaError) as refusal:
        check_described_epoch(2, 3)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


def test_the_delay_doubles_up_to_an_hour_and_starts_again_with_an_epoch() -> None:
    entropy = SeededEntropy()
    backoff = Backoff(topology_epoch=-1, attempts=0, next_attempt_ms=0)
    for attempt in range(10):
        backoff = backoff.next(0, 0, entropy)
        expected_ms = min(30_000 << attempt, 3_600_000)
        assert 0.8 * expected_ms <= backoff.next_attempt_ms <= min(1.2 * expected_ms, 3_600_000)
        assert backoff.is_active(0, backoff.next_attempt_ms - 1)
        assert not backoff.is_active(0, backoff.next_attempt_ms)
        assert not backoff.is_active(1, 0)
    assert backoff.next(1, 0, entropy).next_attempt_ms <= 36_000


def test_each_group_has_its_own_delay_until_its_description_is_stored() -> None:
    backoffs, entropy = DescriptionBackoffs(), SeededEntropy()
    assert backoffs.begin("g", 0, 0, entropy)
    assert not backoffs.begin("g", 0, 23_999, entropy)
    assert backoffs.begin("other", 0, 0, entropy)
    assert backoffs.begin("g", 1, 0, entropy)
    backoffs.end("g")
    assert backoffs.begin("g", 1, 0, entropy)
    assert not backoffs.begin("other", 0, 0, entropy)


def test_the_oldest_of_too_many_delays_is_forgotten() -> None:
    backoffs, entropy = DescriptionBackoffs(), SeededEntropy()
    for number in range(MAX_BACKOFFS + 1):
        assert backoffs.begin(str(number), 0, 0, entropy)
    assert not backoffs.begin("1", 0, 0, entropy)
    assert backoffs.begin("0", 0, 0, entropy)


@pytest.mark.parametrize("field", ["source_topics", "stores", "successors"])
def test_the_size_of_a_description_is_limited(field: str) -> None:
    def message(count: int) -> Update.TopologyDescription:
        node = Node()
        setattr(node, field, ["x"] * count)
        store = Update.TopologyDescriptionGlobalStore(source=node, processor=node)
        subtopology = Update.TopologyDescriptionSubtopology(nodes=[node])
        return Update.TopologyDescription(subtopologies=[subtopology], global_stores=[store])

    each = (MAX_DESCRIPTION_ELEMENTS - 7) // 3
    check_description_size(message(each))
    with pytest.raises(KafkaError, match="more than 50000"):
        check_description_size(message(each + 1))
