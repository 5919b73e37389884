"""DeadLetterWriter: writes records to the dead-letter topics of share groups (KIP-1191)."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.config.group import DEAD_LETTER_TOPIC
from kafkalite.config.topic import topic_value
from kafkalite.metadata.creation import BROKER_DEFAULT, NewTopic
from kafkalite.metadata.features import FIRST_WITH_DEAD_LETTERS, SHARE_VERSION
from kafkalite.metadata.image import NO_LEADER
from kafkalite.ports.backoff import ExponentialBackoff
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.waiting import Waiting, chain
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.dead_letters import (
    CREATES_TOPICS,
    NAME_PREFIX,
    TOPIC_ACCEPTS,
    OriginalRecord,
    build_dead_letter_batch,
    topic_problem,
)
from kafkalite.storage.batch import split_batches
from kafkalite.storage.record_format import MalformedRecordsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.cluster.node import Node
    from kafkalite.metadata.image import TopicImage
    from kafkalite.shares.dead_letters import DeadLetters
    from kafkalite.shares.state import ShareKey

_BACKOFF: Final = ExponentialBackoff(initial_ms=1_000, max_ms=30_000)
"""As in Kafka's ShareGroupDLQStateManager; the delay after the first attempt is doubled already."""
_MAX_ATTEMPTS: Final = 5
_READ_BYTES: Final = 1_048_576
_BATCH_BYTES: Final = 131_072
"""The size of a batch of several records: one of the maximum size takes long to build."""
_BATCHES_PER_TURN: Final = 8
"""Batches that are written before other requests are served."""
_CACHED_BYTES: Final = 4_194_304
"""Size of the original records that remain in memory while a queue of records is written."""
_TIMEOUT_MS: Final = 30_000
_ALL_IN_SYNC: Final = -1

_RETRIABLE_ERRORS: Final = frozenset(
    (
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.TOPIC_ALREADY_EXISTS,
    )
)


class _Target(NamedTuple):
    """The partition of a dead-letter topic that gets the records of a share partition."""

    topic: TopicImage
    partition: int
    leader: int
    max_bytes: int


class _Queued(NamedTuple):
    """Dead letters that are written in a later turn, from the offset `start` on."""

    letters: DeadLetters
    start: int
    written: Waiting[None]


class _Originals(NamedTuple):
    """The records of a partition from `first` to before `end`, without those that are too large."""

    key: ShareKey | None
    first: int
    end: int
    records: Mapping[int, OriginalRecord]


_NO_ORIGINALS: Final = _Originals(None, 0, 0, {})


class DeadLetterWriter:
    """Writes the dead letters of the share partitions that one node leads.

    One acknowledgement can reject thousands of records one by one. The writer writes a few batches,
    and queues the others, so that other requests are served in between.
    """

    __slots__ = ("_batches", "_node", "_originals", "_queue")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._batches = 0
        """Number of batches of the current turn; the next turn is scheduled if there are any."""
        self._queue: deque[_Queued] = deque()
        self._originals = _NO_ORIGINALS

    def is_enabled_for(self, group_id: str) -> bool:
        """Return whether a group has a dead-letter topic, and the cluster supports such topics."""
        node = self._node
        return (
            bool(node.config.group_get(group_id, DEAD_LETTER_TOPIC))
            and node.image.features.get(SHARE_VERSION, 0) >= FIRST_WITH_DEAD_LETTERS
        )

    def write(self, letters: DeadLetters) -> Waiting[None] | None:
        """Write records to the topic of their group; raises KafkaError if that is not possible.

        A Waiting may also be resolved with such an error.
        """
        if self._queue:
            return self._enqueue(letters, letters.first)
        return self._write(letters, letters.first, attempt=1)

    def _enqueue(self, letters: DeadLetters, start: int) -> Waiting[None]:
        written: Waiting[None] = Waiting()
        self._queue.append(_Queued(letters, start, written))
        return written

    def _count_batch(self) -> None:
        """Count a batch of this turn; the first one schedules the next turn."""
        self._batches += 1
        if self._batches == 1:
            self._node.delay(0).then(self._begin_turn)

    def _begin_turn(self, outcome: object) -> None:
        """Write queued records; `outcome` is an exception if the node has stopped."""
        self._batches = 0
        queue = self._queue
        while queue and self._batches < _BATCHES_PER_TURN:
            letters, start, written = queue.popleft()
            if isinstance(outcome, Exception):
                written.refuse(outcome)
                continue
            try:
                answer = self._write(letters, start, attempt=1)
            except KafkaError as error:
                written.refuse(error.without_traceback())
                continue
            if answer is None:
                written.resolve(None)
            else:
                answer.then(written.resolve)
        if not queue:
            self._originals = _NO_ORIGINALS

    def _write(self, letters: DeadLetters, start: int, attempt: int) -> Waiting[None] | None:
        """Write the records from offset `start` on, with up to _MAX_ATTEMPTS attempts."""
        next_offset = start

        def retry(error: Exception) -> Waiting[None] | None:
            # Written batches are not repeated, and each batch has its own attempts.
            used = attempt if next_offset == start else 1
            is_retriable = isinstance(error, KafkaError) and error.code in _RETRIABLE_ERRORS
            if not is_retriable or used >= _MAX_ATTEMPTS or not self._node.is_reachable:
                raise error
            backoff_ms = _BACKOFF.delay_ms(used, self._node.entropy)
            delay: Waiting[None] | None = self._node.delay(backoff_ms)
            return chain(delay, lambda _: self._write(letters, next_offset, used + 1))

        try:
            target = self._target(letters)
            while next_offset <= letters.last:
                if self._batches >= _BATCHES_PER_TURN:
                    return self._enqueue(letters, next_offset)
                self._count_batch()
                batch, end = self._next_batch(letters, next_offset, target)
                answer = self._produce(target, batch)
                if isinstance(answer, Waiting):
                    return chain(answer, partial(self._continue, letters, end), retry)
                next_offset = end
        except KafkaError as error:
            return retry(error)
        return None

    def _continue(self, letters: DeadLetters, start: int, answer: None) -> Waiting[None] | None:
        del answer  # it has no content
        return self._write(letters, start, attempt=1) if start <= letters.last else None

    def _target(self, letters: DeadLetters) -> _Target:
        """Return the partition to write to; creates the topic if that is allowed."""
        node, config = self._node, self._node.config
        name = str(config.group_get(letters.key.group_id, DEAD_LETTER_TOPIC))
        topic = node.image.topics.get(name)
        settings = {} if topic is None else node.image.topic_config(name)
        problem = topic_problem(
            name,
            exists=topic is not None,
            accepts_letters=bool(topic_value(TOPIC_ACCEPTS, settings, config)),
            is_created=bool(config.get(CREATES_TOPICS)),
            prefix=config.str(NAME_PREFIX),
        )
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, problem)
        if topic is None:
            self._create(name)
            topic = node.image.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        index = letters.key.partition % len(topic.partitions)
        leader = topic.partitions[index].leader
        if leader == NO_LEADER:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        max_bytes = topic_value("max.message.bytes", node.image.topic_config(name), config)
        assert isinstance(max_bytes, int)
        return _Target(topic, index, leader, max_bytes)

    def _create(self, name: str) -> None:
        new_topic = NewTopic(
            name=name,
            partitions=BROKER_DEFAULT,
            replication_factor=BROKER_DEFAULT,
            configs={TOPIC_ACCEPTS: "true", "message.timestamp.type": "CreateTime"},
        )
        (creation,) = self._node.cluster.metadata.create_topics([new_topic])
        if creation.error is not None:
            raise creation.error

    def _next_batch(self, letters: DeadLetters, start: int, target: _Target) -> tuple[bytes, int]:
        config, group_id = self._node.config, letters.key.group_id
        is_copied = config.group_get(group_id, "errors.deadletterqueue.copy.record.enable")
        originals = (
            self._read_originals(letters, start, target.max_bytes) if is_copied is True else {}
        )
        return build_dead_letter_batch(
            letters,
            start,
            originals,
            max_bytes=min(target.max_bytes, _BATCH_BYTES),
            now_ms=self._node.clock.now_ms(),
        )

    def _read_originals(
        self, letters: DeadLetters, start: int, max_bytes: int
    ) -> Mapping[int, OriginalRecord]:
        """Return the contents of records from the offset `start` on.

        Records that the log does not have any more are omitted, and those that are too large.
        """
        originals = self._originals
        if originals.key != letters.key or not originals.first <= start < originals.end:
            originals = self._originals = self._read(letters, start, max_bytes)
        return originals.records

    def _read(self, letters: DeadLetters, start: int, max_bytes: int) -> _Originals:
        """Read records until they fill the cache, at least to the end of a batch that is smaller.

        Records after these letters are read, too: they are often in the next letters.
        """
        records: dict[int, OriginalRecord] = {}
        size, offset = 0, start
        try:
            partition = self._node.partition(letters.topic, letters.key.partition)
            data = partition.read(
                start,
                max_bytes=_READ_BYTES,
                limit_offset=partition.high_watermark,
                at_least_one=True,
            )
            for batch in split_batches(data):
                for record in () if batch.is_control else batch.records():
                    length = len(record.key or b"") + len(record.value or b"")
                    if record.offset < start or length > max_bytes:
                        continue
                    size += length
                    if records and size > _CACHED_BYTES:
                        return _Originals(letters.key, start, record.offset, records)
                    records[record.offset] = OriginalRecord(record.key, record.value)
                offset = batch.last_offset + 1
        except (KafkaError, LookupError, MalformedRecordsError, OSError):
            # As in Kafka, the copies of records that cannot be read have headers only.
            offset = max(offset, letters.last + 1)
        return _Originals(letters.key, start, max(offset, start + 1), records)

    def _produce(self, target: _Target, batch: bytes) -> Waiting[None] | None:
        topic = target.topic
        request = ProduceRequest(
            acks=_ALL_IN_SYNC,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_data=[
                        ProduceRequest.PartitionProduceData(index=target.partition, records=batch)
                    ],
                )
            ],
        )
        answer: ProduceResponse | Waiting[ProduceResponse] = self._node.send(
            target.leader, ApiKey.PRODUCE, request
        )
        return chain(answer, _check_answer)


def _check_answer(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise KafkaError(ErrorCode(partition.error_code), partition.error_message)
