"""SimulatedCluster: requests and answers of a cluster that can also do what no cluster should."""

# ruff: noqa: ANN401 - messages of any API
from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from kafkalite.lab.checker.collecting import Collector, Observation
from kafkalite.lab.checker.history import Client, Event, History, Proof
from kafkalite.protocol._generated.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kafkalite.protocol._generated.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkalite.protocol._generated.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from kafkalite.protocol._generated.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkalite.protocol._generated.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkalite.protocol._generated.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkalite.protocol._generated.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol._generated.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    ControlKind,
    ControlMarker,
    build_batch,
    build_control_batch,
)
from kafkalite.storage.record_format import NewRecord

TOPIC: Final = "orders"
_BROKER: Final = "node 1"
_STEP_NS: Final = 1_000_000


@dataclass(slots=True)
class Peer:
    """A client with a connection; `reconnect` opens another one."""

    name: str
    connection: int
    member: str = ""
    requests: int = 0


@dataclass(slots=True)
class TestProducer:
    """A producer's id, epoch and next sequence numbers."""

    __test__ = False

    peer: Peer
    transactional_id: str | None = None
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[int, int] = field(default_factory=lambda: defaultdict(int))


class SimulatedCluster:
    """Logs of one topic, and a collector of all requests."""

    def __init__(self) -> None:
        self.collector = Collector()
        self.logs: dict[int, list[bytes]] = defaultdict(list)
        self.ends: dict[int, int] = defaultdict(int)
        self.committed: dict[tuple[str, int], int] = {}
        self._time = count(1)
        self._connections = count()
        self._producer_ids = count(1000)
        self._values = count()

    def history(self) -> History:
        """Return the history up to now."""
        return self.collector.finish()

    def peer(self, name: str, member: str = "") -> Peer:
        """Return a client with its own connection."""
        return Peer(name, next(self._connections), member)

    def reconnect(self, peer: Peer) -> Peer:
        """Return the same client with a newer connection."""
        return Peer(peer.name, next(self._connections), peer.member)

    def now(self) -> int:
        """Return a later time than before, in nanoseconds."""
        return next(self._time) * _STEP_NS

    def request(
        self, peer: Peer, key: ApiKey, request: Any, response: Any, *, sent_ns: int | None = None
    ) -> None:
        """Add a request with its answer."""
        proof = Proof("orders.pcapng", peer.connection, f"{peer.name} > node", peer.requests)
        peer.requests += 1
        sent_ns = self.now() if sent_ns is None else sent_ns
        event = Event(
            client=Client(peer.name, "10.0.0.1"),
            connection=peer.connection,
            sent_ns=sent_ns,
            answered_ns=None if response is None else self.now(),
            broker=_BROKER,
            proof=proof,
        )
        self.collector.add(Observation(int(key), request, response, event))

    # -- producers ---------------------------------------------------------------------------

    def producer(self, peer: Peer, transactional_id: str | None = None) -> TestProducer:
        """Return an idempotent producer with a new producer id."""
        producer = TestProducer(peer, transactional_id, next(self._producer_ids), 0)
        self.start(producer)
        return producer

    def start(self, producer: TestProducer) -> None:
        """Add InitProducerId with the id and epoch of a producer."""
        self.request(
            producer.peer,
            ApiKey.INIT_PRODUCER_ID,
            InitProducerIdRequest(transactional_id=producer.transactional_id),
            InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch),
        )

    def batch(self, producer: TestProducer, partition: int, records: int) -> bytes:
        """Return a new batch, with the next sequence number."""
        sequence = -1
        if producer.producer_id >= 0:
            sequence = producer.sequences[partition]
            producer.sequences[partition] += records
        return build_batch(
            [NewRecord(None, b"%d" % next(self._values), 0) for _ in range(records)],
            attributes=TRANSACTIONAL if producer.transactional_id else 0,
            producer=BatchProducer(producer.producer_id, producer.epoch, sequence),
        )

    def append(self, partition: int, batch: bytes) -> int:
        """Append a batch to a log, and return its offset."""
        offset, view = self.ends[partition], BatchView(batch)
        self.logs[partition].append(view.prefix(offset, 0) + bytes(batch[16:]))
        self.ends[partition] = offset + view.last_offset_delta + 1
        return offset

    def send(
        self,
        producer: TestProducer,
        partition: int,
        batch: bytes,
        offset: int | None,
        *,
        error: ErrorCode = ErrorCode.NONE,
        is_answered: bool = True,
        sent_ns: int | None = None,
        acks: int = -1,
    ) -> None:
        """Add a Produce request with one batch."""
        row = ProduceRequest.PartitionProduceData(index=partition, records=batch)
        answer = ProduceResponse.PartitionProduceResponse(
            index=partition, error_code=int(error), base_offset=-1 if offset is None else offset
        )
        self.request(
            producer.peer,
            ApiKey.PRODUCE,
            ProduceRequest(
                transactional_id=producer.transactional_id,
                acks=acks,
                topic_data=[ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[row])],
            ),
            ProduceResponse(
                responses=[
                    ProduceResponse.TopicProduceResponse(name=TOPIC, partition_responses=[answer])
                ]
            )
            if is_answered
            else None,
            sent_ns=sent_ns,
        )

    def produce(self, producer: TestProducer, partition: int, records: int = 1) -> int:
        """Write a new batch; return its offset."""
        batch = self.batch(producer, partition, records)
        offset = self.append(partition, batch)
        self.send(producer, partition, batch, offset)
        return offset

    def add_partition(
        self, producer: TestProducer, partition: int, *, peer: Peer | None = None
    ) -> None:
        """Add AddPartitionsToTxn, as clients without KIP-890 send it."""
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            name=TOPIC, partitions=[partition]
        )
        self.request(
            producer.peer if peer is None else peer,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=producer.transactional_id or "",
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=[topic],
            ),
            AddPartitionsToTxnResponse(),
        )

    def mark(self, producer: TestProducer, partition: int, *, is_commit: bool) -> None:
        """Append a marker of a transaction."""
        kind = ControlKind.COMMIT if is_commit else ControlKind.ABORT
        self.append(
            partition,
            build_control_batch(
                ControlMarker(kind, 0),
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                now_ms=0,
            ),
        )

    def end(self, producer: TestProducer, *, is_commit: bool, peer: Peer | None = None) -> None:
        """Add EndTxn; `mark` adds the markers."""
        self.request(
            producer.peer if peer is None else peer,
            ApiKey.END_TXN,
            EndTxnRequest(
                transactional_id=producer.transactional_id or "",
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                committed=is_commit,
            ),
            EndTxnResponse(),
        )

    # -- consumers ---------------------------------------------------------------------------

    def heartbeat(self, peer: Peer, group: str) -> None:
        """Add a Heartbeat, which shows the member of a client."""
        request = HeartbeatRequest(group_id=group, generation_id=1, member_id=peer.member)
        self.request(peer, ApiKey.HEARTBEAT, request, HeartbeatResponse())

    def fetch(
        self,
        peer: Peer,
        partition: int,
        position: int,
        *,
        is_read_committed: bool = True,
        lists_aborted: bool = True,
        skipped: frozenset[int] = frozenset(),
    ) -> int:
        """Fetch from a position to the end of the log; return the next position.

        Batches whose offset is in `skipped` are missing in the answer.
        """
        views = [BatchView(each) for each in self.logs[partition]]
        stable_end = self._stable_end(views) if is_read_committed else self.ends[partition]
        chosen = [each for each in views if position <= each.last_offset < stable_end]
        if not chosen:
            return position
        aborted = self._aborted(views) if lists_aborted and is_read_committed else []
        row = FetchResponse.PartitionData(
            partition_index=partition,
            aborted_transactions=[
                FetchResponse.AbortedTransaction(producer_id=producer_id, first_offset=offset)
                for producer_id, offset in aborted
            ],
            records=b"".join(
                bytes(each.data) for each in chosen if each.base_offset not in skipped
            ),
        )
        asked = FetchRequest.FetchPartition(partition=partition, fetch_offset=position)
        self.request(
            peer,
            ApiKey.FETCH,
            FetchRequest(
                replica_id=-1,
                isolation_level=int(is_read_committed),
                session_epoch=-1,
                topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=[asked])],
            ),
            FetchResponse(
                responses=[FetchResponse.FetchableTopicResponse(topic=TOPIC, partitions=[row])]
            ),
        )
        return chosen[-1].last_offset + 1

    def _stable_end(self, views: list[BatchView]) -> int:
        """Return the first offset of the earliest open transaction, or the end of the log."""
        begun: dict[int, int] = {}
        for view in views:
            if view.is_control:
                begun.pop(view.producer_id, None)
            elif view.is_transactional:
                begun.setdefault(view.producer_id, view.base_offset)
        return min([*begun.values(), views[-1].last_offset + 1 if views else 0])

    def committed_batches(self, partition: int) -> list[BatchView]:
        """Return the batches that a consumer with read_committed gets."""
        views = [BatchView(each) for each in self.logs[partition]]
        aborted, stable_end = self._aborted(views), self._stable_end(views)
        open_ids: set[int] = set()
        found = []
        for view in views:
            if view.is_control:
                open_ids.discard(view.producer_id)
                continue
            if (view.producer_id, view.base_offset) in aborted:
                open_ids.add(view.producer_id)
            if view.producer_id not in open_ids and view.last_offset < stable_end:
                found.append(view)
        return found

    @staticmethod
    def _aborted(views: list[BatchView]) -> list[tuple[int, int]]:
        """Return the producer id and first offset of each aborted transaction."""
        begun: dict[int, int] = {}
        aborted = []
        for view in views:
            if not view.is_control and view.is_transactional:
                begun.setdefault(view.producer_id, view.base_offset)
            elif view.is_control and view.producer_id in begun:
                offset, marker = begun.pop(view.producer_id), view.control_marker()
                if marker is not None and marker.kind is ControlKind.ABORT:
                    aborted.append((view.producer_id, offset))
        return aborted

    def commit(
        self,
        peer: Peer,
        group: str,
        partition: int,
        offset: int,
        *,
        is_answered: bool = True,
        is_effective: bool = True,
        producer: TestProducer | None = None,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        """Add OffsetCommit, or TxnOffsetCommit with a producer."""
        kind: Any = OffsetCommitRequest if producer is None else TxnOffsetCommitRequest
        answer: Any = OffsetCommitResponse if producer is None else TxnOffsetCommitResponse
        key = ApiKey.OFFSET_COMMIT if producer is None else ApiKey.TXN_OFFSET_COMMIT
        row = getattr(kind, f"{kind.__name__}Partition")(
            partition_index=partition, committed_offset=offset
        )
        answered = getattr(answer, f"{answer.__name__}Partition")(
            partition_index=partition, error_code=int(error)
        )
        fields: dict[str, Any] = {} if producer is None else {
            "transactional_id": producer.transactional_id,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
        }  # fmt: skip
        self.request(
            peer,
            key,
            kind(
                group_id=group,
                member_id=peer.member,
                generation_id_or_member_epoch=1 if peer.member else -1,
                topics=[getattr(kind, f"{kind.__name__}Topic")(name=TOPIC, partitions=[row])],
                **fields,
            ),
            answer(
                topics=[
                    getattr(answer, f"{answer.__name__}Topic")(name=TOPIC, partitions=[answered])
                ]
            )
            if is_answered
            else None,
        )
        if is_effective and producer is None and error is ErrorCode.NONE:
            self.committed[group, partition] = offset

    def fetch_offset(
        self,
        peer: Peer,
        group: str,
        partition: int,
        offset: int | None = None,
        *,
        is_stable: bool = True,
    ) -> int:
        """Add OffsetFetch, and return the offset in the answer."""
        if offset is None:
            offset = self.committed.get((group, partition), -1)
        row = OffsetFetchResponse.OffsetFetchResponsePartitions(
            partition_index=partition, committed_offset=offset
        )
        topic = OffsetFetchResponse.OffsetFetchResponseTopics(name=TOPIC, partitions=[row])
        self.request(
            peer,
            ApiKey.OFFSET_FETCH,
            OffsetFetchRequest(
                groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group)],
                require_stable=is_stable,
            ),
            OffsetFetchResponse(
                groups=[
                    OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group, topics=[topic])
                ]
            ),
        )
        return offset

    def look_up(self, peer: Peer, partition: int, timestamp: int, offset: int) -> None:
        """Add ListOffsets."""
        asked = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=partition, timestamp=timestamp
        )
        answered = ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=partition, offset=offset
        )
        self.request(
            peer,
            ApiKey.LIST_OFFSETS,
            ListOffsetsRequest(
                topics=[ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[asked])]
            ),
            ListOffsetsResponse(
                topics=[
                    ListOffsetsResponse.ListOffsetsTopicResponse(name=TOPIC, partitions=[answered])
                ]
            ),
        )

    def leave(self, peer: Peer, group: str) -> None:
        """Add LeaveGroup."""
        row = LeaveGroupRequest.MemberIdentity(member_id=peer.member)
        request = LeaveGroupRequest(group_id=group, members=[row])
        self.request(peer, ApiKey.LEAVE_GROUP, request, LeaveGroupResponse())

    # -- topics ------------------------------------------------------------------------------

    def describe_topic(self, peer: Peer, topic_id: bytes) -> None:
        """Add Metadata, with the id of the topic."""
        row = MetadataResponse.MetadataResponseTopic(name=TOPIC, topic_id=topic_id)
        self.request(peer, ApiKey.METADATA, MetadataRequest(), MetadataResponse(topics=[row]))

    def alter_topic(self, peer: Peer, name: str, value: str) -> None:
        """Add IncrementalAlterConfigs, which sets a value."""
        change = IncrementalAlterConfigsRequest.AlterableConfig(name=name, value=value)
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=2, resource_name=TOPIC, configs=[change]
        )
        self.request(
            peer,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            IncrementalAlterConfigsRequest(resources=[resource]),
            IncrementalAlterConfigsResponse(),
        )

    def delete_records(self, peer: Peer, partition: int, offset: int) -> None:
        """Add DeleteRecords, which moves the start of the log."""
        row = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=partition, offset=offset)
        answer = DeleteRecordsResponse.DeleteRecordsPartitionResult(
            partition_index=partition, low_watermark=offset
        )
        self.request(
            peer,
            ApiKey.DELETE_RECORDS,
            DeleteRecordsRequest(
                topics=[DeleteRecordsRequest.DeleteRecordsTopic(name=TOPIC, partitions=[row])]
            ),
            DeleteRecordsResponse(
                topics=[
                    DeleteRecordsResponse.DeleteRecordsTopicResult(name=TOPIC, partitions=[answer])
                ]
            ),
        )

    def recreate_topic(self, peer: Peer) -> None:
        """Delete the topic and create it again; the logs are empty then."""
        self.request(
            peer,
            ApiKey.DELETE_TOPICS,
            DeleteTopicsRequest(topic_names=[TOPIC]),
            DeleteTopicsResponse(responses=[DeleteTopicsResponse.DeletableTopicResult(name=TOPIC)]),
        )
        self.create_topic(peer)
        self.logs.clear()
        self.ends.clear()
        self.committed.clear()

    def create_topic(self, peer: Peer, **configs: str) -> None:
        """Add CreateTopics; the names of settings have underscores."""
        rows = [
            CreateTopicsRequest.CreatableTopicConfig(name=name.replace("_", "."), value=value)
            for name, value in configs.items()
        ]
        self.request(
            peer,
            ApiKey.CREATE_TOPICS,
            CreateTopicsRequest(
                topics=[CreateTopicsRequest.CreatableTopic(name=TOPIC, configs=rows)]
            ),
            CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult(name=TOPIC)]),
        )
