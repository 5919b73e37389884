"""Seeding: creates the topics, records and committed offsets of a capture in a live broker.

Records keep their offsets. If the capture does not have the first records of a partition, its log
starts at a later offset. Records that are missing in the middle leave a gap, as after compaction.
Transactions without a recorded end are aborted, as the coordinator does after their timeout.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.groups.offset_commit import OFFSET_COMMIT_ERAS, handle_offset_commit
from kafkalite.gateway.call import ConnectionContext
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.storage.batch import ControlKind

if TYPE_CHECKING:
    from kafkalite.cluster.cluster import Cluster
    from kafkalite.lab.replay.standin.recorded_cluster import (
        CommittedOffset,
        PartitionId,
        RecordedCluster,
        RecordedPartition,
    )
    from kafkalite.server.logging import Log

_OFFSET_COMMIT_VERSION = 8
"""A version of OffsetCommit with topic names, in which clients without a group membership can
commit."""
_NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Seed:
    """The topics, records and commits of a capture."""

    recorded_cluster: RecordedCluster
    log: Log

    def topics(self) -> dict[str, int]:
        """Return the topics to create, name → number of partitions."""
        return {
            name: partitions
            for name, partitions in sorted(self.recorded_cluster.partition_counts.items())
            if name not in self.recorded_cluster.internal_topics and not name.startswith("__")
        }

    def fill(self, cluster: Cluster) -> None:
        """Write the records and committed offsets to a broker that has no clients yet."""
        for partition_id, recorded in sorted(self.recorded_cluster.partitions.items()):
            self._fill_partition(cluster, partition_id, recorded)
        for group, commits in sorted(self.recorded_cluster.committed_offsets.items()):
            self._commit_offsets(cluster, group, commits)

    def _fill_partition(
        self, cluster: Cluster, partition_id: PartitionId, recorded: RecordedPartition
    ) -> None:
        topic = cluster.partitions.topic(partition_id.topic)
        partition = None if topic is None else topic.partition(partition_id.partition)
        if partition is None or partition.end_offset:
            return  # an internal topic, or a log that was filled by an earlier start
        _, open_transactions = recorded.transactions()
        for batch in open_transactions.values():
            recorded.end_transaction(batch.producer_id, batch.producer_epoch, ControlKind.ABORT)
        log = partition.log
        for batch in recorded.batches:
            log.skip_to(batch.base_offset)
            log.append([batch], leader_epoch=partition.leader_epoch, now_ms=cluster.clock.now_ms())
        if recorded.batches:
            log.flush()

    def _commit_offsets(
        self, cluster: Cluster, group: str, commits: dict[PartitionId, CommittedOffset]
    ) -> None:
        by_topic: defaultdict[str, list[OffsetCommitRequest.OffsetCommitRequestPartition]] = (
            defaultdict(list)
        )
        for partition_id, commit in sorted(commits.items()):
            by_topic[partition_id.topic].append(
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=partition_id.partition,
                    committed_offset=commit.offset,
                    committed_metadata=commit.metadata,
                )
            )
        context = ConnectionContext(
            node=cluster.nodes[_coordinator_of(cluster, group)],
            listener="",
            client_host="/capture",
        )
        era = OFFSET_COMMIT_ERAS.at(_OFFSET_COMMIT_VERSION)
        call = context.call(_OFFSET_COMMIT_VERSION, era, request_bytes=0)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=_NO_GENERATION,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=rows)
                for topic, rows in by_topic.items()
            ],
        )
        answer = handle_offset_commit(call, request)
        if isinstance(answer, Waiting):
            answer.then(lambda response: self._log_refusals(group, response))
        else:
            self._log_refusals(group, answer)

    def _log_refusals(self, group: str, answer: object) -> None:
        topics = getattr(answer, "topics", None)
        if topics is None:
            self.log.warning("committed offsets of a group were not restored", group=group)
            return
        refused = [
            f"{topic.name}-{row.partition_index}"
            for topic in topics
            for row in topic.partitions
            if row.error_code
        ]
        if refused:
            self.log.warning(
                "committed offsets of a group were not restored", group=group, partitions=refused
            )


def _coordinator_of(cluster: Cluster, group: str) -> int:
    """Return the coordinator of a group; create the offsets topic if necessary."""
    cluster.metadata.ensure_internal_topic(OFFSETS_TOPIC)
    partition = cluster.groups.partition_for(group)
    offsets_partition = cluster.metadata.image.partition(OFFSETS_TOPIC, partition)
    assert offsets_partition is not None
    return offsets_partition.leader
