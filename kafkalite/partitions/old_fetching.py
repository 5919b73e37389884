"""Fetching by consumers before Fetch version 10: their records have no zstd, or an older format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.partitions.fetching import Fetch
from kafkalite.protocol._generated.messages.fetch import FetchResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.record_format import MalformedRecordsError

if TYPE_CHECKING:
    from kafkalite.config.log_config import LogConfig
    from kafkalite.partitions.fetch_sessions import RequestedPartition
    from kafkalite.partitions.fetching import PartitionAnswer
    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.replicas import ReplicaView

_NO_OFFSET = -1


class OldFetch(Fetch):
    """The processing of a request whose answer cannot have every batch.

    Kafka's KafkaApis converts the answer after it was read, and refuses partitions by the settings
    of their topics even if they could not be read.
    """

    __slots__ = ()

    def _read_partition(
        self,
        requested: RequestedPartition,
        partition: Partition | ReplicaView,
        remaining_bytes: int,
        *,
        at_least_one: bool,
    ) -> FetchResponse.PartitionData:
        may_exceed = at_least_one and not self._era.has_hard_limit
        return super()._read_partition(
            requested, partition, remaining_bytes, at_least_one=may_exceed
        )

    def _response(self, answers: list[PartitionAnswer]) -> FetchResponse:
        return super()._response(
            [(requested, self._converted(requested, answer)) for requested, answer in answers]
        )

    def _converted(
        self, requested: RequestedPartition, answer: FetchResponse.PartitionData
    ) -> FetchResponse.PartitionData:
        """Return the answer of a partition as the version of the request can have it."""
        topic = self._node.partitions.topic(str(requested.topic))
        if topic is None or not 0 <= requested.index < len(topic.partitions):
            return answer
        code = self._refusal(topic.partitions[requested.index].log.config)
        if code is not None:
            return _refused(answer, code)
        magic = self._era.message_format
        if magic is None or not answer.records:
            return answer
        from kafkalite.storage.down_conversion import to_messages  # noqa: PLC0415 - few clients need it

        try:
            answer.records = to_messages(answer.records, magic, requested.fetch_offset)
        except KafkaError as error:
            return _refused(answer, error.code)
        except MalformedRecordsError:
            return _refused(answer, ErrorCode.UNKNOWN_SERVER_ERROR)
        return answer

    def _refusal(self, config: LogConfig) -> ErrorCode | None:
        """Return the error of every fetch from a topic with these settings, or None."""
        is_before_4 = self._node.config.release.has_message_formats
        if is_before_4 and config.compression_type == "zstd":
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        is_refused = (
            self._era.message_format is not None
            and not config.message_downconversion_enable
            and self._replica_id < 0
        )
        return ErrorCode.UNSUPPORTED_VERSION if is_refused else None


def _refused(answer: FetchResponse.PartitionData, code: ErrorCode) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(
        partition_index=answer.partition_index,
        error_code=code,
        high_watermark=_NO_OFFSET,
        records=b"",
    )
