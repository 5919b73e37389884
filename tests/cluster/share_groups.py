"""ShareGroupCluster: a TestCluster with heartbeats of members of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.offsets_topic_records import written_version
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC, offsets_topic
from kafkalite.partitions.coordinator_log import open_coordinator_log
from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kafkalite.coordinator.contract import CoordinatorRecord

SMALL = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.assignment.interval.ms": "0",
}


class ShareGroupCluster(TestCluster):
    """A cluster with the topic of committed offsets, and clients that are in share groups."""

    def __init__(
        self,
        path: Path,
        nodes: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(path, nodes, {**SMALL, **(config or {})})
        self.cluster.metadata.create_topics([offsets_topic(self.config)])

    def records(self) -> list[CoordinatorRecord[object, object]]:
        """Return the records in the groups' log."""
        log = open_coordinator_log(self.cluster.partitions, OFFSETS_TOPIC, 0)
        serde = CoordinatorSerde(written_version)
        decoded = [serde.decode(key, value) for key, value in log.read_all()]
        return [record for record in decoded if record is not None]

    def beat(
        self,
        member: str = "m",
        epoch: int = 0,
        topics: list[str] | None = None,
        *,
        group: str = "g",
        node: int = 1,
        rack: str | None = None,
    ) -> Any:  # noqa: ANN401 - any response class
        """Send a heartbeat."""
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            rack_id=rack,
            subscribed_topic_names=topics,
        )
        return self.ask(request, 1, node)

    def join_and_leave(self, topic: str, group: str = "g") -> None:
        """Let a member join for a topic and leave again."""
        self.beat("m", 0, [topic], group=group)
        self.beat("m", -1, group=group)
