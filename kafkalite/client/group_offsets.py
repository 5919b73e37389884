"""GroupOffsets: commits and fetches offsets of a group without members, at its coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.connection import UnreachableError
from kafkalite.client.epochs import Epochs, OffsetAndEpochs, TopicPartition
from kafkalite.client.errors import BrokerError, InvalidPartitionEpochError, TimedOutError
from kafkalite.client.exchanges import error_text
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.metadata import Metadata
    from kafkalite.client.retries import Retries
    from kafkalite.protocol.message import Message
    from kafkalite.server.addresses import Address

    # Request → the error of its response, NONE if there is none.
    FindError = Callable[[Any], ErrorCode]

_COMMIT_VERSIONS: Final = Versions(8, 9)
_FETCH_VERSIONS: Final = Versions(8, 9)
"""Versions with tagged fields, in which topics have names and requests have several groups."""
_GROUP_KEY_TYPE: Final = 0
_NO_OFFSET: Final = -1
_COORDINATOR_ERRORS: Final = frozenset(
    (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
)


class GroupOffsets:
    """The committed offsets of one group."""

    def __init__(self, client: KafkaClient, metadata: Metadata, group_id: str) -> None:
        self._client = client
        self._metadata = metadata
        self._group_id = group_id
        self._coordinator: Address | None = None
        self._lookups = 0

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndEpochs], retries: Retries
    ) -> None:
        """Commit offsets with their epochs.

        Raises InvalidPartitionEpochError if the coordinator knows a newer partition epoch,
        BrokerError for other errors, TimedOutError.
        """
        response = await self._ask(
            self._commit_request(offsets), _COMMIT_VERSIONS, _commit_error, retries
        )
        invalid: dict[TopicPartition, int] = {}
        for topic in response.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                code = ErrorCode(row.error_code)
                if code is ErrorCode.INVALID_PARTITION_EPOCH:
                    invalid[partition] = offsets[partition].partition_epoch
                elif code:
                    raise BrokerError(code, f"cannot commit {partition}")
        if invalid:
            raise InvalidPartitionEpochError(invalid)

    def _commit_request(
        self, offsets: Mapping[TopicPartition, OffsetAndEpochs]
    ) -> OffsetCommitRequest:
        rows: dict[str, list[OffsetCommitRequest.OffsetCommitRequestPartition]] = {}
        for (topic, index), committed in offsets.items():
            rows.setdefault(topic, []).append(
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata="",
                    incarnation_epoch=committed.partition_epoch,
                )
            )
        return OffsetCommitRequest(
            group_id=self._group_id,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=partitions)
                for topic, partitions in rows.items()
            ],
        )

    async def fetch(
        self, partitions: Collection[TopicPartition], retries: Retries
    ) -> dict[TopicPartition, OffsetAndEpochs]:
        """Return committed offsets with their epochs; partitions without one are omitted.

        Raises BrokerError or TimedOutError.
        """
        indexes: dict[str, list[int]] = {}
        for topic, index in partitions:
            indexes.setdefault(topic, []).append(index)
        group = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=self._group_id,
            topics=[
                OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=rows)
                for topic, rows in indexes.items()
            ],
        )
        request = OffsetFetchRequest(groups=[group])
        response = await self._ask(request, _FETCH_VERSIONS, _fetch_error, retries)
        committed: dict[TopicPartition, OffsetAndEpochs] = {}
        for topic in response.groups[0].topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                if row.error_code:
                    code = ErrorCode(row.error_code)
                    raise BrokerError(code, f"cannot fetch the committed offset of {partition}")
                if row.committed_offset != _NO_OFFSET:
                    epochs = Epochs(row.committed_leader_epoch, row.incarnation_epoch)
                    committed[partition] = OffsetAndEpochs(row.committed_offset, *epochs)
        return committed

    async def _ask(
        self, request: Message, versions: Versions, find_error: FindError, retries: Retries
    ) -> Any:  # noqa: ANN401 - any response class
        """Return the response of the coordinator, after retries for retriable errors."""
        while True:
            try:
                address = self._coordinator or await self._find_coordinator(retries)
                response = await self._client.ask(
                    address, request, versions, timeout_s=retries.request_timeout_s
                )
            except UnreachableError as error:
                self._coordinator = None
                reason = str(error)
            except _CoordinatorError as error:
                code = error.code
                if not code.retriable:
                    raise BrokerError(code, f"group {self._group_id!r}") from None
                reason = error_text(code)
            else:
                code = find_error(response)
                if not code:
                    return response
                if not code.retriable:
                    raise BrokerError(code, f"group {self._group_id!r}")
                if code in _COORDINATOR_ERRORS:
                    self._coordinator = None
                reason = error_text(code)
            if not await retries.wait():
                raise TimedOutError(f"group {self._group_id!r}: {reason}")

    async def _find_coordinator(self, retries: Retries) -> Address:
        address = self._metadata.addresses(self._lookups)[0]
        self._lookups += 1
        found = await self._client.find_coordinator(
            self._group_id, _GROUP_KEY_TYPE, at=address, timeout_s=retries.request_timeout_s
        )
        if found.error:
            raise _CoordinatorError(found.error)
        self._coordinator = found.address
        return found.address


class _CoordinatorError(Exception):
    """FindCoordinator was answered with an error."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


def _commit_error(response: Any) -> ErrorCode:  # noqa: ANN401 - an OffsetCommitResponse
    """Return a retriable error of a partition; other errors differ between partitions."""
    codes = [ErrorCode(row.error_code) for topic in response.topics for row in topic.partitions]
    return next((code for code in codes if code.retriable), ErrorCode.NONE)


def _fetch_error(response: Any) -> ErrorCode:  # noqa: ANN401 - an OffsetFetchResponse
    (group,) = response.groups
    return ErrorCode(group.error_code)
