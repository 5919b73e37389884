"""GroupOffsets: commits and fetches offsets of a group without members, at its coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.coordinator_requests import GROUP, CoordinatorRequests
from kafkalite.client.epochs import Epochs, OffsetAndEpochs, TopicPartition
from kafkalite.client.errors import BrokerError, InvalidPartitionEpochError
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.metadata import Metadata
    from kafkalite.client.retries import Retries

_COMMIT_VERSIONS: Final = Versions(2, 9)
FETCH_VERSIONS: Final = Versions(2, 9)
"""Versions in which topics have names; from 8 on, requests have several groups."""
_NO_OFFSET: Final = -1


class Membership(NamedTuple):
    """A member of a group and its generation; neither for a client outside of the group."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None
    """The id of a static member."""


NO_MEMBERSHIP: Final = Membership()


class GroupOffsets:
    """The committed offsets of one group."""

    def __init__(self, client: KafkaClient, metadata: Metadata, group_id: str) -> None:
        self.membership = NO_MEMBERSHIP
        """The member whose commits these are."""
        self._group_id = group_id
        self._requests = CoordinatorRequests(
            client, group_id, GROUP, lambda lookup: metadata.addresses(lookup)[0]
        )

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndEpochs], retries: Retries
    ) -> None:
        """Commit offsets with their epochs.

        Raises InvalidPartitionEpochError if the coordinator knows a newer partition epoch,
        BrokerError for other errors, TimedOutError.
        """
        response = await self._requests.ask(
            self._commit_request(offsets), _COMMIT_VERSIONS, retries, _commit_error
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
            generation_id_or_member_epoch=self.membership.generation,
            member_id=self.membership.member_id,
            group_instance_id=self.membership.instance_id,
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
        request = offset_fetch_request(self._group_id, indexes)
        response = await self._requests.ask(request, FETCH_VERSIONS, retries, _fetch_error)
        committed: dict[TopicPartition, OffsetAndEpochs] = {}
        for topic in fetched_group(response).topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                if row.error_code:
                    code = ErrorCode(row.error_code)
                    raise BrokerError(code, f"cannot fetch the committed offset of {partition}")
                if row.committed_offset != _NO_OFFSET:
                    epochs = Epochs(row.committed_leader_epoch, row.incarnation_epoch)
                    committed[partition] = OffsetAndEpochs(row.committed_offset, *epochs)
        return committed


def _commit_error(response: Any) -> ErrorCode:  # noqa: ANN401 - an OffsetCommitResponse
    """Return a retriable error of a partition; other errors differ between partitions."""
    codes = [ErrorCode(row.error_code) for topic in response.topics for row in topic.partitions]
    return next((code for code in codes if code.retriable), ErrorCode.NONE)


def _fetch_error(response: Any) -> ErrorCode:  # noqa: ANN401 - an OffsetFetchResponse
    return ErrorCode(fetched_group(response).error_code)


def offset_fetch_request(
    group_id: str, indexes: Mapping[str, Sequence[int]] | None
) -> OffsetFetchRequest:
    """Return a request for committed offsets, in all versions with names of topics.

    `indexes` has the partitions by topic; None means all that have an offset.
    """
    single = OffsetFetchRequest.OffsetFetchRequestTopic
    grouped = OffsetFetchRequest.OffsetFetchRequestTopics
    rows = None if indexes is None else [(name, list(each)) for name, each in indexes.items()]
    group = OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id=group_id,
        topics=None if rows is None else [grouped(name=a, partition_indexes=b) for a, b in rows],
    )
    return OffsetFetchRequest(
        group_id=group_id,
        topics=None if rows is None else [single(name=a, partition_indexes=b) for a, b in rows],
        groups=[group],
    )


def fetched_group(response: Any) -> Any:  # noqa: ANN401 - an OffsetFetchResponse
    """Return the part of a response with the error and the topics of its only group."""
    return response.groups[0] if response.groups else response
