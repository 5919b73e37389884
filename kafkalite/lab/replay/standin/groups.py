"""Composition of responses about committed offsets and coordinators from recorded responses.

Requests of different clients and versions name different groups, partitions and keys. The committed
offset of a partition and the coordinator of a group do not depend on the request, so each is stored
separately. A group starts with its first recorded offsets, and continues with the offsets that
clients commit to the stand-in.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kafkalite.apis.groups.find_coordinator import lift_find_coordinator, lower_find_coordinator
from kafkalite.apis.groups.offset_fetch import NO_OFFSET, lift_offset_fetch, lower_offset_fetch
from kafkalite.capture.reading.messages import parse_request, parse_response
from kafkalite.lab.replay.standin.recorded_cluster import CommittedOffset
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorResponse
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitResponse
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.capture.model import Exchange
    from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
    from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
    from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
    from kafkalite.protocol.message import Message

    NameOf = Callable[[bytes], str | None]

OFFSET_FETCH, FIND_COORDINATOR = ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR
_NO_ERROR = 0


_NOT_COMMITTED = CommittedOffset(NO_OFFSET, -1, "")


class RecordedGroups:
    """Recorded committed offsets and coordinators."""

    def __init__(self) -> None:
        self._committed: defaultdict[str, dict[tuple[str, int], CommittedOffset]] = defaultdict(
            dict
        )
        """Group → (topic, partition) → committed offset."""
        self._coordinators: dict[tuple[int, str], tuple[int, str, int]] = {}
        """(key type, key) → the last recorded node id, host and port."""

    def learn(self, exchange: Exchange, name_of: NameOf) -> None:
        """Learn offsets and coordinators from one recorded exchange."""
        learn_methods: dict[int, Callable[[Any, Any, NameOf], None]] = {
            OFFSET_FETCH: self._learn_offsets,
            FIND_COORDINATOR: self._learn_coordinators,
        }
        learn = learn_methods.get(exchange.api_key)
        if learn is None or exchange.response is None:
            return
        try:
            request, response = parse_request(exchange), parse_response(exchange)
        except ProtocolViolation:
            return
        learn(request, response, name_of)

    def _learn_offsets(self, request: Any, response: Any, name_of: NameOf) -> None:  # noqa: ANN401
        groups = [(group.group_id, group.topics) for group in response.groups]
        for group, topics in groups or [(request.group_id, response.topics)]:
            committed_offsets = self._committed[group]
            for topic in topics:
                name = _topic_name(topic, name_of)
                for row in topic.partitions:
                    if name and row.error_code == _NO_ERROR:
                        epoch = row.committed_leader_epoch
                        committed = CommittedOffset(row.committed_offset, epoch, row.metadata)
                        committed_offsets.setdefault((name, row.partition_index), committed)

    def _learn_coordinators(self, request: Any, response: Any, name_of: NameOf) -> None:  # noqa: ANN401
        del name_of
        rows = [(coordinator.key, coordinator) for coordinator in response.coordinators]
        for key, row in rows or [(request.key, response)]:
            if row.error_code == _NO_ERROR:
                self._coordinators[request.key_type, key] = row.node_id, row.host, row.port

    def store_commit(self, request: Any, response: Any, name_of: NameOf) -> None:  # noqa: ANN401
        """Store the offsets of an OffsetCommit request that the response does not refuse."""
        refused = {
            (_topic_name(topic, name_of), row.partition_index)
            for topic in response.topics
            for row in topic.partitions
            if row.error_code != _NO_ERROR
        }
        for topic in request.topics:
            name = _topic_name(topic, name_of)
            for row in topic.partitions:
                partition = name, row.partition_index
                if partition not in refused:
                    self._committed[request.group_id][partition] = CommittedOffset(
                        row.committed_offset, row.committed_leader_epoch, row.committed_metadata
                    )

    def answer_offset_commit(self, request: OffsetCommitRequest, name_of: NameOf) -> Message | None:
        """Return a response without errors; None if the group or a topic is unknown."""
        if request.group_id not in self._committed:
            return None
        response = OffsetCommitResponse()
        for topic in request.topics:
            name = _topic_name(topic, name_of)
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

    def answer_offset_fetch(
        self, request: OffsetFetchRequest, version: int, name_of: NameOf
    ) -> Message | None:
        """Return a response to an OffsetFetch; None if it names an unknown group or topic id."""
        response = OffsetFetchResponse()
        for group in lift_offset_fetch(request, version).groups:
            committed_offsets = self._committed.get(group.group_id)
            if committed_offsets is None:
                return None
            group_response = OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id)
            response.groups.append(group_response)
            if group.topics is None:
                requested = _all_partitions(committed_offsets)
            else:
                requested = _requested_partitions(group.topics, name_of)
            for name, partitions in requested:
                if not name:
                    return None
                rows = [
                    _partition_row(
                        partition, committed_offsets.get((name, partition), _NOT_COMMITTED)
                    )
                    for partition in partitions
                ]
                row = OffsetFetchResponse.OffsetFetchResponseTopics(name=name, partitions=rows)
                group_response.topics.append(row)
        return lower_offset_fetch(response, version)

    def answer_find_coordinator(
        self, request: FindCoordinatorRequest, version: int
    ) -> Message | None:
        """Return a response to a FindCoordinator; None if it names an unknown key."""
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


def _topic_name(topic: Any, name_of: NameOf) -> str:  # noqa: ANN401 - of any version
    """Return a topic's name; empty if its id is unknown."""
    return topic.name or name_of(getattr(topic, "topic_id", b"")) or ""


def _all_partitions(
    committed_offsets: dict[tuple[str, int], CommittedOffset],
) -> Iterator[tuple[str, list[int]]]:
    partitions: defaultdict[str, list[int]] = defaultdict(list)
    for (name, partition), committed in committed_offsets.items():
        if committed.offset != NO_OFFSET:
            partitions[name].append(partition)
    yield from partitions.items()


def _requested_partitions(topics: Any, name_of: NameOf) -> Iterator[tuple[str, list[int]]]:  # noqa: ANN401
    for topic in topics:
        yield _topic_name(topic, name_of), topic.partition_indexes


def _partition_row(
    partition: int, committed: CommittedOffset
) -> OffsetFetchResponse.OffsetFetchResponsePartitions:
    return OffsetFetchResponse.OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )
