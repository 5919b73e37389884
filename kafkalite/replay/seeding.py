"""Seeding: a broker that begins with the topics, records and commits of a capture, and then lives.

Records keep their offsets: what the capture does not show before or between them is a log that
begins later, or a gap as compaction leaves one. A transaction whose end was not seen is rolled
back, as its timeout would have done.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.context import RequestContext
from kafkalite.apis.offsets import OFFSET_COMMIT_ERAS, handle_offset_commit
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest
from kafkalite.storage.batch import ControlKind

if TYPE_CHECKING:
    from kafkalite.apis.context import Services
    from kafkalite.replay.library import Commit, Library, PartitionId, Shelf
    from kafkalite.server.logging import Log
    from kafkalite.server.stage import Dispatch

_ERA_VERSION = 8
"""Of the commits of administrators, who name topics and are no members."""
_NO_MEMBER = -1


@dataclass(frozen=True, slots=True)
class Seed:
    """What a capture leaves in a broker; a stage, see `server.stage`."""

    library: Library
    log: Log

    def topics(self) -> dict[str, int]:
        """Return the topics that the broker is to have: name → partitions."""
        return {
            name: partitions
            for name, partitions in sorted(self.library.partitions.items())
            if name not in self.library.internal and not name.startswith("__")
        }

    def enter(self, services: Services, dispatch: Dispatch) -> Dispatch:
        """Lay records and commits down, and let the broker live."""
        for place, shelf in sorted(self.library.shelves.items()):
            self._fill(services, place, shelf)
        for group, commits in sorted(self.library.commits.items()):
            self._commit(services, group, commits)
        return dispatch

    def leave(self) -> None:
        """Nothing is left to be done: the broker lived by itself."""

    def _fill(self, services: Services, place: PartitionId, shelf: Shelf) -> None:
        hosted = services.partitions.topic(place.topic)
        partition = None if hosted is None else hosted.partition(place.partition)
        if partition is None or partition.end_offset:
            return  # a topic of the cluster's own, or a log that was filled by an earlier start
        for batch in shelf.transactions()[1].values():
            shelf.end_transaction(batch.producer_id, batch.producer_epoch, ControlKind.ABORT)
        log = partition.log
        for batch in shelf.batches:
            if batch.base_offset != log.end_offset:
                if not log.end_offset:
                    log.start_offset = batch.base_offset
                log.end_offset = batch.base_offset
            log.append([batch], leader_epoch=partition.leader_epoch, now_ms=services.clock.now_ms())
        if shelf.batches:
            log.flush()

    def _commit(self, services: Services, group: str, commits: dict[PartitionId, Commit]) -> None:
        by_topic: defaultdict[str, list[OffsetCommitRequest.OffsetCommitRequestPartition]] = (
            defaultdict(list)
        )
        for place, commit in sorted(commits.items()):
            by_topic[place.topic].append(
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=place.partition,
                    committed_offset=commit.offset,
                    committed_metadata=commit.metadata,
                )
            )
        context = RequestContext(
            services=services,
            node_id=_coordinator_of(services, group),
            listener="",
            client_host="/capture",
        )
        context.era = OFFSET_COMMIT_ERAS.at(_ERA_VERSION)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=_NO_MEMBER,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=rows)
                for topic, rows in by_topic.items()
            ],
        )
        answer = handle_offset_commit(context, request)
        if isinstance(answer, Waiting):
            answer.then(lambda told: self._note(group, told))
        else:
            self._note(group, answer)

    def _note(self, group: str, answer: object) -> None:
        topics = getattr(answer, "topics", None)
        if topics is None:
            self.log.warning("commits of a group were not taken over", group=group)
            return
        refused = [
            f"{topic.name}-{row.partition_index}"
            for topic in topics
            for row in topic.partitions
            if row.error_code
        ]
        if refused:
            self.log.warning(
                "commits of a group were not taken over", group=group, partitions=refused
            )


def _coordinator_of(services: Services, group: str) -> int:
    """Return the node that speaks for a group, whose topic is thereby there."""
    services.metadata.have_internal_topic(OFFSETS_TOPIC)
    partition = services.groups.partition_for(group)
    led = services.metadata.image.partition(OFFSETS_TOPIC, partition)
    assert led is not None
    return led.leader
