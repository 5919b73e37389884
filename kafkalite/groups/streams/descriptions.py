"""Descriptions of topologies, which members send on request (KIP-1331).

A plugin stores the descriptions. The only one here is Kafka's plugin that stores them in memory, so
a description is lost when the shard is loaded again. The group's record has the epoch of the stored
description. Members are asked for a missing description at most once per delay, which doubles.
As in Kafka, the delays belong to group ids, so they outlive the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.backoff import ExponentialBackoff
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import in_steps
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.group import GroupId
    from kafkalite.ports.entropy import Entropy
    from kafkalite.protocol._generated.messages.streams_group_topology_description_update import (
        StreamsGroupTopologyDescriptionUpdateRequest,
    )

    _Described = StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescription
    _DescribedNode = StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode

NO_DESCRIPTION: Final = -1
"""The epoch of the stored description if there is none."""
UNCERTAIN: Final = -2
"""The epoch of the stored description while it is being stored or deleted."""

NOT_STORED: Final = 1
"""The status of a description that is not stored."""
PRESENT: Final = 3
"""The status of a description that the response contains."""

MAX_DESCRIPTION_ELEMENTS: Final = 50_000
"""The maximum number of nodes, and of names in nodes, of a description."""

_SOURCE: Final = 1
_PROCESSOR: Final = 2
_SINK: Final = 3

MAX_BACKOFFS: Final = 10_000
"""The maximum number of groups of a shard whose delays are known; the oldest are forgotten."""

_BACKOFF: Final = ExponentialBackoff(initial_ms=30_000, max_ms=3_600_000)


class DescriptionEpochs(NamedTuple):
    """The epochs of descriptions in the group's record."""

    stored: int = NO_DESCRIPTION
    """The topology epoch of the stored description, NO_DESCRIPTION or UNCERTAIN."""
    failed: int = NO_DESCRIPTION
    """The topology epoch of the description that a plugin of Kafka refused for good."""


NO_DESCRIPTIONS: Final = DescriptionEpochs()


class StoredDescription(NamedTuple):
    """The description of the topology with this epoch."""

    topology_epoch: int
    description: StreamsGroupDescribeResponse.TopologyDescription


class Backoff(NamedTuple):
    """The delay after a request for a description."""

    topology_epoch: int
    attempts: int
    next_attempt_ms: int

    def is_active(self, topology_epoch: int, now_ms: int) -> bool:
        """Whether members must not be asked for the description of this epoch yet."""
        return topology_epoch == self.topology_epoch and now_ms < self.next_attempt_ms

    def next(self, topology_epoch: int, now_ms: int, entropy: Entropy) -> Backoff:
        """Return the delay that begins with a request now."""
        attempts = self.attempts + 1 if topology_epoch == self.topology_epoch else 0
        return Backoff(topology_epoch, attempts, now_ms + _BACKOFF.delay_ms(attempts, entropy))


_NO_BACKOFF: Final = Backoff(NO_DESCRIPTION, 0, 0)


class DescriptionBackoffs:
    """The delays after requests for descriptions, by group; they are soft state of a shard."""

    __slots__ = ("_by_group",)

    def __init__(self) -> None:
        self._by_group: dict[GroupId, Backoff] = {}

    def begin(self, group_id: GroupId, topology_epoch: int, now_ms: int, entropy: Entropy) -> bool:
        """Begin a delay unless one is active; return whether it begins."""
        backoff = self._by_group.pop(group_id, _NO_BACKOFF)
        begins = not backoff.is_active(topology_epoch, now_ms)
        if begins:
            backoff = backoff.next(topology_epoch, now_ms, entropy)
        self._by_group[group_id] = backoff
        if len(self._by_group) > MAX_BACKOFFS:
            del self._by_group[next(iter(self._by_group))]
        return begins

    def end(self, group_id: GroupId) -> None:
        """Forget the delays of a group, because its description is stored."""
        self._by_group.pop(group_id, None)


def check_described_epoch(received_epoch: int, topology_epoch: int) -> None:
    """Raise KafkaError(INVALID_REQUEST) for the description of another epoch."""
    if received_epoch != topology_epoch:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The description is of topology epoch {received_epoch}, but the group's epoch is "
            f"{topology_epoch}.",
            {"topology_epoch": topology_epoch, "received_topology_epoch": received_epoch},
        )


def check_description_size(message: _Described) -> None:
    """Raise KafkaError(INVALID_REQUEST) for more elements than MAX_DESCRIPTION_ELEMENTS.

    Descriptions remain in memory, and a response has those of several groups. This pauses, so no
    state machine calls it.
    """
    elements = 0
    for subtopology in in_steps(message.subtopologies):
        elements += 1 + sum(map(_element_count, in_steps(subtopology.nodes)))
    for store in in_steps(message.global_stores):
        elements += _element_count(store.source) + _element_count(store.processor)
    if elements > MAX_DESCRIPTION_ELEMENTS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The description has {elements} elements, more than {MAX_DESCRIPTION_ELEMENTS}.",
        )


def _element_count(node: _DescribedNode) -> int:
    return 2 + len(node.source_topics) + len(node.stores) + len(node.successors)


def description_of(message: _Described) -> StreamsGroupDescribeResponse.TopologyDescription:
    """Return a received description as it is described to clients.

    Raises KafkaError(INVALID_REQUEST) for unknown types of nodes, and for global stores without a
    source or a processor.
    """
    described = StreamsGroupDescribeResponse
    global_stores = []
    subtopologies = [
        described.TopologyDescriptionSubtopology(
            subtopology_id=each.subtopology_id, nodes=[_node(node) for node in each.nodes]
        )
        for each in message.subtopologies
    ]
    for store in message.global_stores:
        source, processor = _node(store.source), _node(store.processor)
        if (source.node_type, processor.node_type) != (_SOURCE, _PROCESSOR):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "A global store must have a source and a processor."
            )
        global_stores.append(
            described.TopologyDescriptionGlobalStore(source=source, processor=processor)
        )
    return described.TopologyDescription(subtopologies=subtopologies, global_stores=global_stores)


def _node(message: _DescribedNode) -> StreamsGroupDescribeResponse.TopologyDescriptionNode:
    """Return a node with the fields of its type, without repeated names."""
    fields: dict[str, Any] = {}
    if message.node_type == _SOURCE:
        fields["source_topics"] = _unique(message.source_topics)
    elif message.node_type == _PROCESSOR:
        fields["stores"] = _unique(message.stores)
    elif message.node_type == _SINK:
        fields["sink_topic"] = message.sink_topic
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node type {message.node_type} is unknown.")
    return StreamsGroupDescribeResponse.TopologyDescriptionNode(
        name=message.name,
        node_type=message.node_type,
        successors=_unique(message.successors),
        **fields,
    )


def _unique(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))
