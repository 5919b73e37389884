"""Exceptions of the producer, of the consumer and of the functions for administration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.similar_names import similar_names_hint
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.client.epochs import Epochs, OffsetAndEpochs, TopicPartition

_MAX_NAME_LENGTH: Final = 249


class ClientError(Exception):
    """The base class of the exceptions of this package, except for `UnreachableError`."""


class BrokerError(ClientError):
    """A broker refused a request, and a retry would not help."""

    def __init__(self, code: ErrorCode, context: str, message: str | None = None) -> None:
        self.code = code
        """The error code of the response."""
        self.reason = message or code.message
        """The message of the broker, else the one that Kafka has for the code."""
        super().__init__(f"{context}: {self.reason} ({code.name})")


def refusal(row: Any, context: str) -> BrokerError | None:  # noqa: ANN401 - rows of many responses
    """Return the error of a response, or of a row of it; None without an error."""
    if not row.error_code:
        return None
    return BrokerError(ErrorCode(row.error_code), context, getattr(row, "error_message", None))


def raise_refusal(row: Any, context: str) -> None:  # noqa: ANN401 - as above
    """Raise BrokerError if a response, or a row of it, has an error."""
    if (error := refusal(row, context)) is not None:
        raise error


class UnknownNameError(ClientError):
    """A topic, a group or a transactional id that the cluster does not have."""

    def __init__(self, kind: str, name: str, known: Iterable[str] = ()) -> None:
        hint = similar_names_hint(name, known)
        super().__init__(f"there is no {kind} {name[:_MAX_NAME_LENGTH]!r}{hint}")
        self.name = name
        """The unknown name."""


def no_partition_text(topic: str, partition: int, count: int) -> str:
    """Return the text of an error about a partition that a topic does not have."""
    known = f"0 to {count - 1}" if count > 1 else "only 0" if count else "none yet"
    return f"topic {topic!r} has no partition {partition}, but {known}"


class NoLeaderError(ClientError):
    """A partition has no leader, or its leader does not answer."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(f"{partition} has no leader that answers")


class TimedOutError(ClientError):
    """An operation was not completed within its time; the text has the reason of the last retry."""


class CorruptBatchError(ClientError):
    """A batch of records does not match its checksum, or cannot be decoded."""


class NoOffsetError(ClientError):
    """Partitions without a position: no offset is committed, and `auto_offset_reset` is "none"."""

    def __init__(self, partitions: frozenset[TopicPartition]) -> None:
        names = ", ".join(sorted(map(str, partitions)))
        super().__init__(f"no committed offset: {names}; call seek, or set auto_offset_reset")
        self.partitions = partitions
        """The partitions without a position."""


class OffsetOutOfRangeError(ClientError):
    """Offsets that are not in the log, although the topic exists and the log was not truncated.

    Usually, the records were deleted by the retention of the topic.
    """

    def __init__(self, offsets: Mapping[TopicPartition, int]) -> None:
        super().__init__(
            f"offsets out of range: {_join({each: str(at) for each, at in offsets.items()})}"
        )
        self.offsets = offsets
        """Partition → the offset that is not in the log."""


class InvalidPartitionEpochError(ClientError):
    """Offsets that belong to an earlier partition of the same name: the topic was created again."""

    def __init__(self, partition_epochs: Mapping[TopicPartition, int]) -> None:
        texts = {
            each: "another topic id" if epoch < 0 else f"partition epoch {epoch}"
            for each, epoch in partition_epochs.items()
        }
        super().__init__(f"the topic of an offset was deleted and created again: {_join(texts)}")
        self.partition_epochs = partition_epochs
        """Partition → the partition epoch of the offset; -1 if only the topic id shows that the
        topic was created again."""


class OutdatedMetadataError(ClientError):
    """Offsets with epochs that no broker knows: their metadata remained older for a long time.

    Without partition epochs, the topic may have been deleted and created again.
    """

    def __init__(self, epochs: Mapping[TopicPartition, Epochs]) -> None:
        texts = {
            each: f"leader epoch {at.leader_epoch}, partition epoch {at.partition_epoch}"
            for each, at in epochs.items()
        }
        super().__init__(
            "no broker knows the epochs of an offset; the topic may have been deleted and created "
            f"again: {_join(texts)}"
        )
        self.epochs = epochs
        """Partition → the epochs of its offset."""


class LogTruncationError(ClientError):
    """The log lost records below the position, for example in an unclean election."""

    def __init__(self, divergent_offsets: Mapping[TopicPartition, OffsetAndEpochs | None]) -> None:
        texts = {
            each: "the offset is unknown" if at is None else f"from offset {at.offset} on"
            for each, at in divergent_offsets.items()
        }
        super().__init__(f"the log was truncated: {_join(texts)}")
        self.divergent_offsets = divergent_offsets
        """Partition → the first offset at which the log differs; None if the log does not have the
        leader epoch of the position any more."""


def _join(texts: Mapping[TopicPartition, str]) -> str:
    return ", ".join(f"{partition} {text}" for partition, text in sorted(texts.items()))
