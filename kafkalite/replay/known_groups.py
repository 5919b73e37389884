"""Known groups: an answer to any question of offsets and coordinators, from what a capture tells.

Clients ask for the offsets of one group or of several, of all partitions or of some, and for one
coordinator or for many, as their versions have it; they commit what they happen to have read. How
far a group had read, and who coordinates it, does not depend on that. A group begins where it was
first told to have read to, and goes on from what is committed since.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.apis.find_coordinator import lift_find_coordinator, lower_find_coordinator
from kafkalite.apis.offset_fetch import NO_OFFSET, lift_offset_fetch, lower_offset_fetch
from kafkalite.capture.messages import parse_request, parse_response
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorResponse
from kafkalite.protocol.messages.offset_commit import OffsetCommitResponse
from kafkalite.protocol.messages.offset_fetch import OffsetFetchResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.capture.model import Exchange
    from kafkalite.protocol.message import Message
    from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
    from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest
    from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest

    NameOf = Callable[[bytes], str | None]

OFFSET_FETCH, FIND_COORDINATOR = 9, 10
_NO_ERROR = 0


class _Read(NamedTuple):
    """How far a partition was said to be read."""

    offset: int
    leader_epoch: int
    metadata: str | None


_NOT_READ = _Read(NO_OFFSET, -1, "")


class KnownGroups:
    """The groups, and other keys of coordinators, that answers told of."""

    def __init__(self) -> None:
        self._read: defaultdict[str, dict[tuple[str, int], _Read]] = defaultdict(dict)
        """Group → how far it has read partitions."""
        self._coordinators: dict[tuple[int, str], tuple[int, str, int]] = {}
        """The kind of key, and the key → the node, its host and its port, as told last."""

    def take(self, exchange: Exchange, name_of: NameOf) -> None:
        """Learn from one exchange."""
        look = {OFFSET_FETCH: self._see_offsets, FIND_COORDINATOR: self._see_coordinators}.get(
            exchange.api_key
        )
        if look is None or exchange.response is None:
            return
        try:
            request, response = parse_request(exchange), parse_response(exchange)
        except ProtocolViolation:
            return
        look(request, response, name_of)

    def _see_offsets(self, request: Any, response: Any, name_of: NameOf) -> None:  # noqa: ANN401
        groups = [(each.group_id, each.topics) for each in response.groups]
        for group, topics in groups or [(request.group_id, response.topics)]:
            known = self._read[group]
            for topic in topics:
                name = _name(topic, name_of)
                for row in topic.partitions:
                    if name and row.error_code == _NO_ERROR:
                        epoch = row.committed_leader_epoch
                        told = _Read(row.committed_offset, epoch, row.metadata)
                        known.setdefault((name, row.partition_index), told)

    def _see_coordinators(self, request: Any, response: Any, name_of: NameOf) -> None:  # noqa: ANN401
        del name_of
        rows = [(each.key, each) for each in response.coordinators]
        for key, row in rows or [(request.key, response)]:
            if row.error_code == _NO_ERROR:
                self._coordinators[request.key_type, key] = row.node_id, row.host, row.port

    def commit(self, request: Any, response: Any, name_of: NameOf) -> None:  # noqa: ANN401
        """Note what an OffsetCommit that is answered like this commits."""
        refused = {
            (_name(topic, name_of), row.partition_index)
            for topic in response.topics
            for row in topic.partitions
            if row.error_code != _NO_ERROR
        }
        for topic in request.topics:
            name = _name(topic, name_of)
            for row in topic.partitions:
                place = name, row.partition_index
                if place not in refused:
                    self._read[request.group_id][place] = _Read(
                        row.committed_offset, row.committed_leader_epoch, row.committed_metadata
                    )

    def accept(self, request: OffsetCommitRequest, name_of: NameOf) -> Message | None:
        """Return how any OffsetCommit succeeds; None where it is of a group nobody asked for."""
        if request.group_id not in self._read:
            return None
        response = OffsetCommitResponse()
        for topic in request.topics:
            name = _name(topic, name_of)
            if not name:
                return None
            rows = [
                OffsetCommitResponse.OffsetCommitResponsePartition(
                    partition_index=row.partition_index
                )
                for row in topic.partitions
            ]
            response.topics.append(
                OffsetCommitResponse.OffsetCommitResponseTopic(name=name, partitions=rows)
            )
        return response

    def offsets(self, request: OffsetFetchRequest, version: int, name_of: NameOf) -> Message | None:
        """Return an answer to any OffsetFetch; None where it asks for what nobody told of."""
        response = OffsetFetchResponse()
        for group in lift_offset_fetch(request, version).groups:
            known = self._read.get(group.group_id)
            if known is None:
                return None
            told = OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id)
            response.groups.append(told)
            wanted = _of_all(known) if group.topics is None else _of_some(group.topics, name_of)
            for name, partitions in wanted:
                if not name:
                    return None
                rows = [_row(each, known.get((name, each), _NOT_READ)) for each in partitions]
                row = OffsetFetchResponse.OffsetFetchResponseTopics(name=name, partitions=rows)
                told.topics.append(row)
        return lower_offset_fetch(response, version)

    def coordinators(self, request: FindCoordinatorRequest, version: int) -> Message | None:
        """Return an answer to any FindCoordinator; None where it has a key nobody asked for."""
        keys = lift_find_coordinator(request, version).coordinator_keys
        if not all((request.key_type, key) in self._coordinators for key in keys):
            return None
        response = FindCoordinatorResponse()
        for key in keys:
            node_id, host, port = self._coordinators[request.key_type, key]
            response.coordinators.append(
                FindCoordinatorResponse.Coordinator(key=key, node_id=node_id, host=host, port=port)
            )
        return lower_find_coordinator(response, version)


def _name(topic: Any, name_of: NameOf) -> str:  # noqa: ANN401 - of any version
    """Return a topic's name; none where it is meant by an id of which nobody told."""
    return topic.name or name_of(getattr(topic, "topic_id", b"")) or ""


def _of_all(known: dict[tuple[str, int], _Read]) -> Iterator[tuple[str, list[int]]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for (name, partition), told in known.items():
        if told.offset != NO_OFFSET:
            found[name].append(partition)
    yield from found.items()


def _of_some(topics: Any, name_of: NameOf) -> Iterator[tuple[str, list[int]]]:  # noqa: ANN401
    for topic in topics:
        yield _name(topic, name_of), topic.partition_indexes


def _row(partition: int, told: _Read) -> OffsetFetchResponse.OffsetFetchResponsePartitions:
    return OffsetFetchResponse.OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=told.offset,
        committed_leader_epoch=told.leader_epoch,
        metadata=told.metadata,
    )
