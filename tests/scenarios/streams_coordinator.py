"""ManualStreamsCoordinator: a group shard, and requests of members of streams groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkalite.groups.group import CommitClaim
from kafkalite.groups.modern.member import Client
from kafkalite.groups.offsets import OffsetToCommit
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.metadata.image import MetadataDelta
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.scenarios.group_coordinator import ManualGroupCoordinator, answered, topic_image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.coordinator.contract import CoordinatorRecord, Event
    from kafkalite.groups.streams.heartbeat import StreamsHeartbeatResult

Request = StreamsGroupHeartbeatRequest
Response = StreamsGroupHeartbeatResponse
Owned: TypeAlias = "Mapping[str, Sequence[int]]"
CLIENT = Client("client", "/127.0.0.1")
REBALANCE_MS = 60_000
AT_ONCE = {"group.streams.assignment.interval.ms": "0"}


def reading(*topics: str, name: str = "0", **fields: Any) -> Request.Subtopology:  # noqa: ANN401
    """Describe a subtopology that reads these topics."""
    subtopology = Request.Subtopology(subtopology_id=name, source_topics=list(topics))
    for field, value in fields.items():
        setattr(subtopology, field, value)
    return subtopology


def internal(
    name: str, partitions: int = 0, replicas: int = 0, configs: Mapping[str, str] | None = None
) -> Request.TopicInfo:
    """Describe an internal topic of the application."""
    return Request.TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=replicas,
        topic_configs=[
            Request.KeyValue(key=key, value=value) for key, value in (configs or {}).items()
        ],
    )


def tasks(owned: Owned) -> list[Request.TaskIds]:
    """Return tasks as in a member's request."""
    return [
        Request.TaskIds(subtopology_id=name, partitions=list(partitions))
        for name, partitions in owned.items()
    ]


def tasks_in(
    task_ids: Sequence[Response.TaskIds] | None,
) -> dict[str, list[int]] | None:
    """Return tasks by subtopology from a response; None if it has none."""
    if task_ids is None:
        return None
    return {each.subtopology_id: each.partitions for each in task_ids}


class ManualStreamsCoordinator(ManualGroupCoordinator):
    """A coordinator with one shard, and one application that most methods are about."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        subtopologies: Sequence[Request.Subtopology] = (),
        as_version: str | None = None,
        **given: Any,  # noqa: ANN401 - what ManualGroupCoordinator takes
    ) -> None:
        counts = {"in": 4} if topics is None else topics
        self.own_config = {**AT_ONCE, **(config or {})}
        self.subtopologies = list(subtopologies) or [reading("in")]
        self._seen = 0
        self._as_version = as_version
        super().__init__(
            self.own_config,
            topics=[topic_image(name, count) for name, count in counts.items()],
            as_version=as_version,
            **given,
        )

    def again(self, log: MemoryCoordinatorLog | None = None) -> ManualStreamsCoordinator:
        """Return a new coordinator that loads the log; the clock is unchanged."""
        coordinator = ManualStreamsCoordinator(
            {},
            self.own_config,
            self.subtopologies,
            self._as_version,
            log=log or MemoryCoordinatorLog(self.log.entries),
            clock=ManualClock(self.clock.now_ms()),
        )
        coordinator.topics = dict(self.topics)
        coordinator.show(MetadataDelta(created=tuple(self.topics.values())))
        return coordinator

    def set_topic(self, name: str, partitions: int) -> None:
        """Create a topic, or change its number of partitions."""
        self.topics[name] = topic_image(name, partitions)
        self.show(MetadataDelta(created=(self.topics[name],)))

    # Requests of members.

    def ask(self, request: Request) -> StreamsHeartbeatResult:
        """Send a validated heartbeat."""
        return answered(
            self.shard.write(
                lambda machine, now_ms: machine.streams.heartbeat(request, CLIENT, now_ms)
            )
        )

    def joins(
        self,
        member: str,
        *,
        epoch: int = 0,
        **fields: Any,  # noqa: ANN401
    ) -> Response:
        """Send a first heartbeat; the process id is the member id."""
        return self.ask(self.joining(member, epoch=epoch, **fields)).response

    def joining(
        self,
        member: str,
        *,
        group: str = "g",
        epoch: int = 0,
        **fields: Any,  # noqa: ANN401
    ) -> Request:
        request = Request(
            group_id=group,
            member_id=member,
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_MS,
            topology=Request.Topology(epoch=epoch, subtopologies=self.subtopologies),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id=member,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def beats(
        self,
        member: str,
        epoch: int,
        active: Owned | None = None,
        standby: Owned | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> Response:
        """Send a later heartbeat; active tasks, if given, are all owned tasks."""
        request = Request(group_id="g", member_id=member, member_epoch=epoch)
        if active is not None:
            request.active_tasks = tasks(active)
            request.standby_tasks = tasks(standby or {})
            request.warmup_tasks = []
        for name, value in fields.items():
            setattr(request, name, value)
        return self.ask(request).response

    def refused(self, member: str, epoch: int) -> ErrorCode:
        """Send a heartbeat that must be refused, and return the code."""
        try:
            self.beats(member, epoch)
        except KafkaError as refusal:
            return refusal.code
        raise AssertionError("it was let in")

    def commit_as(self, member: str, epoch: int, *partitions: int) -> str:
        """Commit offsets of `in`; return "NONE" or the name of the error of the whole request."""
        claim = CommitClaim(
            member_id=member,
            group_instance_id=None,
            generation_id_or_member_epoch=epoch,
        )
        offsets_to_commit = [
            OffsetToCommit(
                topic="in", topic_id=self.topics["in"].topic_id, partition=each, offset=1
            )
            for each in partitions
        ]
        try:
            self.shard.write(
                lambda machine, now_ms: machine.offsets.commit(
                    "g",
                    claim,
                    offsets_to_commit,
                    now_ms,
                    unknown_group=ErrorCode.GROUP_ID_NOT_FOUND,
                    retention_ms=None,
                )
            )
        except KafkaError as refusal:
            return refusal.code.name
        return "NONE"

    # State.

    @property
    def group(self) -> StreamsGroup:
        """The group of the test."""
        found = self.machine.group("g")
        assert isinstance(found, StreamsGroup)
        return found

    def written(self) -> list[CoordinatorRecord[object, object]]:
        """Return the records written since the last call."""
        records = self.records()
        new, self._seen = records[self._seen :], len(records)
        return new

    def kinds(self) -> list[str]:
        """Return the kinds of the records since the last call, "-" for tombstones."""
        return [
            ("-" if record.value is None else "")
            + type(record.key).__name__.removeprefix("StreamsGroup").removesuffix("Key")
            for record in self.written()
        ]

    def pair(self) -> None:
        """Create a Stable group of a and b at epoch 3."""
        self.joins("a")
        self.joins("b")
        retained = tasks_in(self.beats("a", 2).active_tasks)
        assert retained is not None
        self.beats("a", 2, retained)
        self.beats("b", 3)
        assert self.state() == "Stable"


def events_of(coordinator: ManualStreamsCoordinator, request: Request) -> list[Event]:
    """Return the events of a decision on a request, without carrying it out."""
    decided = coordinator.machine.streams.heartbeat(request, CLIENT, coordinator.clock.now_ms())
    return list(decided.events)
