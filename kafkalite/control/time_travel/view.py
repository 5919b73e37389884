"""PastView: the state of a cluster at a point in the past, read from its logs."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

from kafkalite.config.typed_json import About
from kafkalite.control.group_reader import status_of_past
from kafkalite.control.time_travel.points import LATEST, Point, TimeTravelError
from kafkalite.control.time_travel.replay import (
    commit_needle,
    needle_of,
    new_replay,
    partition_of_key,
)
from kafkalite.control.time_travel.scan import Scan
from kafkalite.control.transaction_reader import status_of
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.metadata.image import MetadataImage
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.shares.state import ShareKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.control.group_status import GroupStatus
    from kafkalite.control.time_travel.logs import LogSource
    from kafkalite.control.time_travel.replay import Applied, Replay
    from kafkalite.control.transaction_reader import TransactionStatus
    from kafkalite.metadata.image import TopicImage
    from kafkalite.shares.state import ShareState


_RECORDS_PER_STEP: Final = 20

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""The steps of a task, so that others can work meanwhile; it returns the result."""


@dataclass(frozen=True, slots=True)
class PastPartition:
    """A partition at a point in the past."""

    partition: Annotated[int, About("Index of the partition.")]
    leader: Annotated[int, About("Node that led the partition; -1 without a leader.")]
    leader_epoch: Annotated[int, About("Epoch of the leader.")]
    replicas: Annotated[tuple[int, ...], About("Nodes with a replica.")]
    isr: Annotated[tuple[int, ...], About("Nodes whose replica was in sync.")]
    end_offset: Annotated[
        int | None,
        About("Offset of the next record, by the timestamps of the records; null without a log."),
    ]


@dataclass(frozen=True, slots=True)
class PastTopic:
    """A topic at a point in the past."""

    name: Annotated[str, About("Name of the topic.")]
    topic_id: Annotated[str, About("Id of the topic, as Kafka writes it.")]
    config: Annotated[dict[str, str], About("Settings of the topic that differed from defaults.")]
    partitions: Annotated[tuple[PastPartition, ...], About("Partitions by index.")]


class PastView:
    """The state at a point: an offset of the log that is asked about, or a time.

    An offset is one of the log that has the group, the transactional id or the share partition: of
    a partition of `__consumer_offsets`, `__transaction_state` or `__share_group_state`. The state
    is the one that a broker has which loads the log at this point. All methods raise
    TimeTravelError for a point before which compaction has removed records.
    """

    def __init__(self, source: LogSource, point: Point) -> None:
        self._source = source
        self.point = point
        self._image: MetadataImage | None = None

    def __repr__(self) -> str:
        """Return the point."""
        return f"<the cluster at {self.point}>"

    @property
    def image(self) -> MetadataImage:
        """The metadata at the time; with an offset, the latest metadata."""
        return result_of(self._image_steps())

    def _image_steps(self) -> Steps[MetadataImage]:
        if self._image is None:
            point = LATEST if self.point.time_ms is None else self.point
            replay = new_replay(self._source, METADATA_TOPIC, 0, None, MetadataImage())
            scan = yield from self._read(METADATA_TOPIC, 0, replay, point)
            self._image = replay.machine.next_image(MetadataImage(), scan.end_offset)[0]
        return self._image

    def group(self, group_id: str) -> GroupStatus:
        """Return a group with its members and committed offsets; raises TimeTravelError.

        End offsets and lag are None, and so is the coordinator.
        """
        return result_of(self.group_steps(group_id))

    def group_steps(self, group_id: str) -> Steps[GroupStatus]:
        """Do the same as `group` in steps."""
        replay, where, _ = yield from self._replayed(OFFSETS_TOPIC, group_id, needle_of(group_id))
        machine = replay.machine
        group = machine.group(group_id)
        if group is None:
            raise TimeTravelError(f"there is no group {group_id[:249]!r} at {where}")
        return status_of_past(group, machine, self.image)

    def committed(self, group_id: str, topic: str, partition: int) -> int | None:
        """Return the committed offset of a group; None without one."""
        needle = commit_needle(group_id, topic, partition)
        replay, _, _ = result_of(self._replayed(OFFSETS_TOPIC, group_id, needle))
        found = replay.machine.offsets.of_group(group_id).get(topic, {}).get(partition)
        return None if found is None else found.offset

    def transaction(self, transactional_id: str) -> TransactionStatus:
        """Return a transactional id with its transaction; raises TimeTravelError."""
        needle = needle_of(transactional_id)
        replay, where, _ = result_of(
            self._replayed(TRANSACTION_STATE_TOPIC, transactional_id, needle)
        )
        found = {each.transactional_id: each for each in replay.machine.transactions()}
        transaction = found.get(transactional_id)
        if transaction is None:
            raise TimeTravelError(
                f"there is no transactional id {transactional_id[:249]!r} at {where}"
            )
        now_ms = self.point.time_ms or transaction.last_update_timestamp_ms
        return status_of(transaction, EventHistory(), now_ms)

    def share_partition(self, group_id: str, topic: str, partition: int) -> ShareState | None:
        """Return the stored state of a share partition; None without one."""
        key = ShareKey(group_id, self._topic(topic).topic_id, partition)
        needle = needle_of(group_id)
        replay, where, scan = result_of(self._replayed(SHARE_STATE_TOPIC, key.text, needle))
        state: ShareState | None = replay.machine.state(key)
        if state is None and scan.first_gap is not None:
            raise TimeTravelError(
                f"the state at {where} is not known: the coordinator has deleted records of "
                f"{scan.log.name} from offset {scan.first_gap} on"
            )
        return state

    def topic(self, name: str) -> PastTopic:
        """Return a topic with its partitions; raises TimeTravelError.

        The point must be a time. The ends of partitions follow from the timestamps of records.
        """
        if self.point.time_ms is None:
            raise TimeTravelError("a topic needs a time, not an offset of one log")
        topic = self._topic(name)
        partitions = [
            PastPartition(
                each.index,
                each.leader,
                each.leader_epoch,
                each.replicas,
                each.isr,
                self._end_offset(name, each.index),
            )
            for each in topic.partitions
        ]
        config = dict(self.image.topic_config(name))
        return PastTopic(name, uuid_to_text(topic.topic_id), config, tuple(partitions))

    def _topic(self, name: str) -> TopicImage:
        found = self.image.topics.get(name)
        if found is None:
            raise TimeTravelError(f"there is no topic {name[:249]!r} at {self.point}")
        return found

    def _end_offset(self, topic: str, partition: int) -> int | None:
        try:
            log = self._source.log(topic, partition)
        except TimeTravelError:
            return None
        scan = Scan(log, self.point, ())
        for _ in scan:
            pass
        return scan.end_offset

    def _replayed(self, topic: str, key: str, needle: bytes) -> Steps[tuple[Replay, str, Scan]]:
        """Return the replay of the log with a key, the point as in a sentence, and the scan."""
        image = yield from self._image_steps()
        partition = partition_of_key(image, topic, key)
        replay = new_replay(self._source, topic, partition, (needle,), image)
        scan = yield from self._read(topic, partition, replay, self.point)
        end_offset = self.point.end_offset
        if scan.is_complete and end_offset is not None and end_offset > scan.end_offset:
            raise TimeTravelError(
                f"{self.point} is after the end of {scan.log.name}, which is {scan.end_offset}"
            )
        if scan.is_inexact:
            raise TimeTravelError(
                f"the state at {self.point} is not known: compaction has removed records of "
                f"{scan.log.name} before offset {scan.log.first_dirty_offset}; "
                "start the broker with --keep-history to keep them"
            )
        machine: Any = replay.machine
        machine.on_loaded(self.point.time_ms or self._source.now_ms)
        on_log = "" if end_offset is None else f" of {scan.log.name}"
        return replay, f"{self.point}{on_log}", scan

    def _read(self, topic: str, partition: int, replay: Replay, point: Point) -> Steps[Scan]:
        scan = Scan(self._source.log(topic, partition), point, replay.needles)
        applied = 0
        for batch in scan:
            if batch is None:
                yield
                continue
            for _ in replay.apply(batch, point.end_offset):
                applied += 1
                if applied % _RECORDS_PER_STEP == 0:
                    yield
        return scan


def result_of(steps: Steps[T]) -> T:
    """Return the result of a task after all of its steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def applied_records(scan: Scan, replay: Replay) -> Iterator[Applied]:
    """Apply what a scan finds, and yield each record after it was applied; stops at the point."""
    for batch in scan:
        if batch is not None:
            yield from replay.apply(batch, scan.point.end_offset)
