"""Dead letters: records that a share group writes to its dead-letter topic (KIP-1191).

A rejected record, or one that was delivered too often, is copied to the topic before it is
archived. The headers of the copy name the original record and the cause.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.storage.batch import HEADER_SIZE, NO_PRODUCER, assemble
from kafkalite.storage.record_format import encode_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.ports.waiting import Waiting
    from kafkalite.shares.state import ShareKey

TOPIC_ACCEPTS: Final = "errors.deadletterqueue.group.enable"
"""The setting of a topic that may be a dead-letter topic."""
CREATES_TOPICS: Final = "errors.deadletterqueue.auto.create.topics.enable"
"""The setting of a broker that creates missing dead-letter topics."""
NAME_PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
"""The setting of a broker with the required beginning of the names of dead-letter topics."""


class Cause(StrEnum):
    """The reason why a record is a dead letter, as in the header of its copy."""

    REJECTED = "Offset rejected by client."
    DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."


class DeadLetters(NamedTuple):
    """Consecutive records of a share partition with the same cause and number of deliveries."""

    key: ShareKey
    topic: str
    first: int
    last: int
    delivery_count: int
    cause: Cause


class DeadLetterQueues(Protocol):
    """Writes records to the dead-letter topics of share groups."""

    def is_enabled_for(self, group_id: str) -> bool:
        """Return whether a group has a dead-letter topic."""

    def write(self, letters: DeadLetters) -> Waiting[None] | None:
        """Write records to the topic of their group; raises KafkaError if that is not possible.

        A Waiting may also be resolved with such an error.
        """


class OriginalRecord(NamedTuple):
    """The key and the value of a record."""

    key: bytes | None
    value: bytes | None


_WITHOUT_ORIGINAL: Final = OriginalRecord(None, None)


def topic_problem(
    name: str, *, exists: bool, accepts_letters: bool, is_created: bool, prefix: str
) -> str | None:
    """Return why a group cannot use this dead-letter topic; None if it can.

    `accepts_letters` is the setting of an existing topic. With `is_created`, a missing topic is
    created.
    """
    if not name:
        return "the group has no dead-letter topic"
    if exists and not accepts_letters:
        return f"{name} has {TOPIC_ACCEPTS}=false"
    if not exists and not is_created:
        return f"{name} does not exist, and {CREATES_TOPICS}=false"
    if not name.startswith(prefix):
        return f"{name} does not begin with {prefix}, the value of {NAME_PREFIX}"
    return None


def build_dead_letter_batch(
    letters: DeadLetters,
    start: int,
    originals: Mapping[int, OriginalRecord],
    *,
    max_bytes: int,
    now_ms: int,
) -> tuple[bytes, int]:
    """Return a batch of the copies from offset `start` on, and the offset after the last of them.

    The batch has at least one record, and at most `max_bytes` bytes if it has several.
    """
    encoded: list[bytes] = []
    size = HEADER_SIZE
    for offset in range(start, letters.last + 1):
        original = originals.get(offset, _WITHOUT_ORIGINAL)
        record = encode_record(
            len(encoded), 0, original.key, original.value, _headers(letters, offset)
        )
        if encoded and size + len(record) > max_bytes:
            break
        encoded.append(record)
        size += len(record)
    batch = assemble(
        b"".join(encoded),
        base_offset=0,
        leader_epoch=-1,
        attributes=0,
        last_offset_delta=len(encoded) - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer=NO_PRODUCER,
        record_count=len(encoded),
    )
    return batch, start + len(encoded)


def _headers(letters: DeadLetters, offset: int) -> tuple[tuple[str, bytes], ...]:
    values = {
        "topic": letters.topic,
        "partition": f"{letters.key.partition}",
        "offset": f"{offset}",
        "group": letters.key.group_id,
        "delivery.count": f"{letters.delivery_count}",
        "message": letters.cause.value,
    }
    return tuple((f"__dlq.errors.{name}", value.encode()) for name, value in values.items())
