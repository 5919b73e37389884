"""ScriptedPartition: one partition whose leader answers the requests of producer and consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.client.connection import UnreachableError
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsResponse
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitResponse
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchResponse
from kafkalite.protocol._generated.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
)
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.batch import build_batch
from kafkalite.storage.record_format import NewRecord
from tests.unit.client.scripted_client import ScriptedClient, metadata_response

if TYPE_CHECKING:
    from kafkalite.protocol._generated.messages.metadata import MetadataResponse

ID = b"a" * 16


def state(
    leader: int = 1,
    leader_epoch: int = 5,
    partition_epoch: int = 3,
    max_partition_epoch: int = 7,
    topic_id: bytes = ID,
) -> MetadataResponse:
    """Return the metadata of the partition."""
    return metadata_response(
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        max_partition_epoch=max_partition_epoch,
        topic_id=topic_id,
    )


def batch(base_offset: int, leader_epoch: int, *values: bytes) -> bytes:
    """Return a batch of these values."""
    records = [NewRecord(None, value, 7) for value in values]
    return build_batch(records, base_offset=base_offset, leader_epoch=leader_epoch)


def fetched(
    records: bytes = b"",
    code: ErrorCode = ErrorCode.NONE,
    partition_epoch: int = 3,
    diverging: tuple[int, int] | None = None,
) -> FetchResponse:
    """Return a response with one partition."""
    row = FetchResponse.PartitionData(
        partition_index=0, error_code=code, records=records, incarnation_epoch=partition_epoch
    )
    if diverging is not None:
        row.diverging_epoch = FetchResponse.EpochEndOffset(
            epoch=diverging[0], end_offset=diverging[1]
        )
    topic = FetchResponse.FetchableTopicResponse(topic_id=ID, partitions=[row])
    return FetchResponse(responses=[topic])


class ScriptedPartition:
    """The answers of the brokers; each list is consumed, and its last answer is repeated."""

    def __init__(self, metadata: MetadataResponse | None = None) -> None:
        known = state() if metadata is None else metadata
        self.fetches: list[FetchResponse | Exception] = [fetched()]
        self.produce_codes: list[ErrorCode | Exception] = [ErrorCode.NONE]
        self.list_codes: list[ErrorCode] = [ErrorCode.NONE]
        self.epoch_ends: list[tuple[ErrorCode, int, int]] = [(ErrorCode.NONE, -1, -1)]
        self.committed = (-1, -1, -1)
        self.requests: list[Any] = []
        self.client = ScriptedClient(
            {1: known, 2: known, 3: known},
            {
                "FetchRequest": lambda _, request: self._next(request, self.fetches),
                "ProduceRequest": self._produce,
                "ListOffsetsRequest": self._list,
                "OffsetForLeaderEpochRequest": self._epoch_end,
                "FindCoordinatorRequest": lambda _node, _key: 1,
                "OffsetFetchRequest": self._fetch_committed,
                "OffsetCommitRequest": self._commit,
            },
        )

    def set_metadata(self, *nodes: int, metadata: MetadataResponse) -> None:
        """Set the metadata of these nodes."""
        for node_id in nodes:
            self.client.metadata_of[node_id] = metadata

    def requested_of(self, node_id: int) -> list[str]:
        """Return the classes of the requests that a node received, without Metadata."""
        return [
            name
            for node, name in self.client.asked
            if node == node_id and name != "MetadataRequest"
        ]

    def fetch_rows(self) -> list[FetchRequest.FetchPartition]:
        """Return the requested partition of each Fetch request."""
        fetches = [each for each in self.requests if isinstance(each, FetchRequest)]
        return [each.topics[0].partitions[0] for each in fetches]

    def _next(self, request: object, answers: list[Any]) -> Any:  # noqa: ANN401 - any answer
        self.requests.append(request)
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def _produce(self, _: int, request: ProduceRequest) -> ProduceResponse | Exception:
        code = self._next(request, self.produce_codes)
        if isinstance(code, Exception):
            return code
        row = ProduceResponse.PartitionProduceResponse(index=0, error_code=code, base_offset=20)
        topic = ProduceResponse.TopicProduceResponse(name="orders", partition_responses=[row])
        return ProduceResponse(responses=[topic])

    def _list(self, _: int, request: object) -> ListOffsetsResponse:
        row = ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=0,
            error_code=self._next(request, self.list_codes),
            offset=8,
            leader_epoch=2,
            incarnation_epoch=3,
        )
        topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="orders", partitions=[row])
        return ListOffsetsResponse(topics=[topic])

    def _epoch_end(self, _: int, request: object) -> OffsetForLeaderEpochResponse | Exception:
        code, epoch, end_offset = self._next(request, self.epoch_ends)
        if code is ErrorCode.NETWORK_EXCEPTION:
            return UnreachableError("down")
        row = OffsetForLeaderEpochResponse.EpochEndOffset(
            partition=0, error_code=code, leader_epoch=epoch, end_offset=end_offset
        )
        topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
            topic="orders", partitions=[row]
        )
        return OffsetForLeaderEpochResponse(topics=[topic])

    def _fetch_committed(self, _: int, request: object) -> OffsetFetchResponse:
        self.requests.append(request)
        offset, leader_epoch, partition_epoch = self.committed
        row = OffsetFetchResponse.OffsetFetchResponsePartitions(
            partition_index=0,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            incarnation_epoch=partition_epoch,
        )
        topic = OffsetFetchResponse.OffsetFetchResponseTopics(name="orders", partitions=[row])
        group = OffsetFetchResponse.OffsetFetchResponseGroup(group_id="shop", topics=[topic])
        return OffsetFetchResponse(groups=[group])

    def _commit(self, _: int, request: Any) -> OffsetCommitResponse:  # noqa: ANN401 - a request
        self.requests.append(request)
        row = request.topics[0].partitions[0]
        self.committed = (row.committed_offset, row.committed_leader_epoch, row.incarnation_epoch)
        return OffsetCommitResponse()
