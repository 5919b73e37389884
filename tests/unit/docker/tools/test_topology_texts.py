"""Descriptions of topologies: the text is that of Kafka 4.4 for the same description."""

from __future__ import annotations

from kafkalite.docker.tools.topology_texts import topology_text
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeResponse,
)

ROWS = StreamsGroupDescribeResponse
NODE = ROWS.TopologyDescriptionNode


def test_subtopologies_and_global_stores_are_listed() -> None:
    source = NODE(
        name="src", node_type=1, source_topics=["words", "more"], successors=["proc", "other"]
    )
    processor = NODE(name="proc", node_type=2, stores=["store"], successors=["sink"])
    sink = NODE(name="sink", node_type=3)
    description = ROWS.TopologyDescription(
        subtopologies=[
            ROWS.TopologyDescriptionSubtopology(subtopology_id="0", nodes=[source, processor, sink])
        ],
        global_stores=[ROWS.TopologyDescriptionGlobalStore(source=source, processor=processor)],
    )
    assert topology_text(description).splitlines() == [
        "Topologies:",
        "   Sub-topology: 0",
        "    Source: src (topics: [more, words])",
        "      --> other, proc",
        "    Processor: proc (stores: [store])",
        "      --> sink",
        "      <-- src",
        "    Sink: sink (topic: null)",
        "      <-- proc",
        "",
        "   Sub-topology: 1 for global store (will not generate tasks)",
        "    Source: src (topics: [more, words])",
        "      --> other, proc",
        "    Processor: proc (stores: [store])",
        "      --> sink",
        "      <-- src",
        "",
    ]
