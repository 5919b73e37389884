"""ShareStage: share groups on a driven clock, with decisions replayed as by the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.contract import CoordinatorResult, ParkedRequest
from kafkalite.coordinator.timers import TimerQueue
from kafkalite.groups.directory import GroupDirectory
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.share.groups import ShareGroups
from kafkalite.groups.share.intents import InitializeShareState
from kafkalite.metadata.image import MetadataDelta
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol._generated.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafkalite.protocol.codec import decode_key, decode_value, encode_key, encode_value
from kafkalite.protocol.errors import KafkaError
from tests.unit.groups.consumer.stage import CLIENT, START_MS, G, hard_fields, image_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.coordinator.contract import Event
    from kafkalite.groups.group import Group, Record
    from kafkalite.metadata.image import MetadataImage

R = TypeVar("R")


class ShareStage:
    """Share groups of one shard, with their log.

    Intents are collected in `pending_intents` until `carry_out` carries them out.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        as_version: str | None = None,
    ) -> None:
        self.now_ms = START_MS
        self.log: list[Record] = []
        self.written: list[Record] = []
        self.events: list[Event] = []
        self.pending_intents: list[InitializeShareState] = []
        self.config = BrokerConfig.from_text(dict(config or {}), as_version=as_version)
        self._timers = TimerQueue()
        self._open(image_of(topics if topics is not None else {"T": 4}))

    def _open(self, image: MetadataImage) -> None:
        directory = GroupDirectory(config=self.config, entropy=SeededEntropy(1), image=image)
        self.directory = directory
        self.groups = ShareGroups(directory)

    @property
    def group(self) -> ShareGroup:
        """The group under test."""
        found = self.directory.groups[G]
        assert isinstance(found, ShareGroup)
        return found

    # The runtime.

    def run(self, result: CoordinatorResult[R]) -> R:
        """Append and replay the records, apply the timers, return the response."""
        self.written = list(result.records)
        self.events = list(result.events)
        for record in result.records:
            self.log.append(record)
            self.replay(record)
        self._timers.apply(result.timers)
        for intent in result.intents:
            assert isinstance(intent, InitializeShareState)
            self.pending_intents.append(intent)
        assert not isinstance(result.response, ParkedRequest | KafkaError)
        return result.response

    def carry_out(self) -> None:
        """Carry out all intents, as the share coordinator does."""
        while self.pending_intents:
            intent = self.pending_intents.pop(0)
            self.run(self.groups.record_initialized_state(intent, self.now_ms))

    def replay(self, record: Record) -> None:
        """Encode, decode and replay one record."""
        key = decode_key(encode_key(record.key))
        assert key is not None
        value = record.value
        if value is not None:
            value = decode_value(key.RECORD_TYPE, encode_value(value, 0))
        self.groups.replayers[type(key)](key, value)

    def advance(self, ms: int) -> None:
        """Advance the clock; timers expire at their own deadlines."""
        until_ms = self.now_ms + ms
        while (due_ms := self._timers.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            event = self._timers.pop_due(self.now_ms)
            self.run(self.groups.timers[type(event)](event, self.now_ms))
        self.now_ms = until_ms

    def timers(self) -> int:
        """Return the number of timers."""
        return len(self._timers)

    def restart(self, records: Iterable[Record] | None = None) -> None:
        """Drop all state and replay the log, or the given records."""
        self._open(self.directory.image)
        self._timers = TimerQueue()
        self.pending_intents.clear()
        for record in self.log if records is None else records:
            self.replay(record)
        self.run(self.groups.on_loaded(self.now_ms))

    def compacted(self, *, tombstones: bool = False) -> list[Record]:
        """Return only the last record of each key."""
        last = {encode_key(record.key): record for record in self.log}
        order = {id(record) for record in last.values()}
        return [
            record
            for record in self.log
            if id(record) in order and (tombstones or record.value is not None)
        ]

    def change_topics(self, topics: Mapping[str, int]) -> None:
        """Set the topics of the cluster."""
        before = self.directory.image
        after = image_of(topics, before.version + 1)
        self.directory.image = after
        delta = MetadataDelta(
            created=tuple(t for name, t in after.topics.items() if name not in before.topics),
            deleted=tuple(t for name, t in before.topics.items() if name not in after.topics),
            changed=tuple(
                t
                for name, t in after.topics.items()
                if name in before.topics and before.topics[name] != t
            ),
        )
        self.run(self.groups.on_image(delta, self.now_ms))

    # Members.

    def send(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        """Send a heartbeat; raises the KafkaError that the member would get.

        If the heartbeat is steady, the full path must give the same response and no records.
        """
        steady = self.groups.steady_heartbeat(request, CLIENT, self.now_ms)
        result = self.groups.heartbeat(request, CLIENT, self.now_ms)
        if steady is not None:
            assert result == CoordinatorResult(
                response=steady, records=[], timers=[], events=[], intents=[]
            )
        return self.run(result)

    def join(
        self, member_id: str, topics: Iterable[str] = ("T",), rack_id: str | None = None
    ) -> ShareGroupHeartbeatResponse:
        """Join with a first heartbeat."""
        return self.beat(member_id, 0, topics, rack_id)

    def beat(
        self,
        member_id: str,
        epoch: int,
        topics: Iterable[str] | None = None,
        rack_id: str | None = None,
    ) -> ShareGroupHeartbeatResponse:
        """Heartbeat; -1 leaves."""
        return self.send(
            ShareGroupHeartbeatRequest(
                group_id=G,
                member_id=member_id,
                member_epoch=epoch,
                rack_id=rack_id,
                subscribed_topic_names=None if topics is None else list(topics),
            )
        )


def assigned_partitions(response: ShareGroupHeartbeatResponse) -> dict[str, list[int]] | None:
    """Return the assignment in a response by topic name; None if there is none."""
    if response.assignment is None:
        return None
    return {
        part.topic_id.lstrip(b".").decode(): part.partitions
        for part in response.assignment.topic_partitions
    }


def kinds(records: Iterable[Record]) -> list[str]:
    """Return the types of these records, with tombstones marked."""
    return [
        ("" if record.value is not None else "-")
        + type(record.key).__name__.removeprefix("ShareGroup").removesuffix("Key")
        for record in records
    ]


def state_of(group: Group | None) -> object:
    """Return the hard state of a group as comparable values."""
    if group is None:
        return None
    assert isinstance(group, ShareGroup)
    return hard_fields(group)
