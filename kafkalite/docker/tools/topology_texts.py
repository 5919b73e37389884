"""The description of a topology of Kafka Streams, as `kafka-streams-groups` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalite.protocol._generated.messages.streams_group_describe import (
        StreamsGroupDescribeResponse,
    )

    Description = StreamsGroupDescribeResponse.TopologyDescription
    Node = StreamsGroupDescribeResponse.TopologyDescriptionNode

_SOURCE: Final = 1
_PROCESSOR: Final = 2
_SINK: Final = 3
_TITLES: Final[Mapping[int, Callable[[Node], str]]] = {
    _SOURCE: lambda node: f"Source: {node.name} (topics: {_list(node.source_topics)})",
    _PROCESSOR: lambda node: f"Processor: {node.name} (stores: {_list(node.stores)})",
    _SINK: lambda node: f"Sink: {node.name} (topic: {node.sink_topic or 'null'})",
}
"""Type of a node → its first line."""


def topology_text(description: Description) -> str:
    """Return the lines of subtopologies and of global stores, with an empty line after each."""
    parts = [
        (f"Sub-topology: {each.subtopology_id}", each.nodes) for each in description.subtopologies
    ]
    for each in description.global_stores:
        title = f"Sub-topology: {len(parts)} for global store (will not generate tasks)"
        parts.append((title, [each.source, each.processor]))
    lines = ["Topologies:"]
    for title, nodes in parts:
        lines += [f"   {title}", *_node_lines(nodes), ""]
    return "\n".join([*lines, ""])


def _node_lines(nodes: Sequence[Node]) -> list[str]:
    lines = []
    for node in nodes:
        lines.append(f"    {_TITLES[node.node_type](node)}")
        if node.node_type != _SINK:
            lines.append(f"      --> {_names(node.successors)}")
        if node.node_type != _SOURCE:
            before = [each.name for each in nodes if node.name in each.successors]
            lines.append(f"      <-- {_names(before)}")
    return lines


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(sorted(names))}]"
