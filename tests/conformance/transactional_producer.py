"""A hand-written transactional producer: all its requests, valid or deliberately invalid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.protocol._generated.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.describe_producers import DescribeProducersRequest
from kafkalite.protocol._generated.messages.describe_transactions import DescribeTransactionsRequest
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.list_transactions import ListTransactionsRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol._generated.messages.write_txn_markers import WriteTxnMarkersRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import TRANSACTIONAL, Batch
from tests.conformance.scenarios.fetching import fetch_from, partition_at
from tests.conformance.setup import list_offsets, produce, producer_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.protocol._generated.messages.fetch import FetchRequest
    from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
    from kafkalite.protocol._generated.messages.produce import ProduceRequest
    from tests.conformance.scenario_cluster import ScenarioCluster
    from tests.conformance.scenario_runs import Scenario


class Producer(NamedTuple):
    """A producer id with an epoch."""

    producer_id: int
    producer_epoch: int


NO_PRODUCER = Producer(-1, -1)
COMMIT, ABORT = True, False
READ_COMMITTED = 1
_TRANSACTION_KEY = 1
_TIMEOUT_MS = 60_000


class Protocol(NamedTuple):
    """The API versions that a client uses, depending on transaction.version (KIP-890)."""

    init: int
    add: int
    add_offsets: int
    produce: int
    commit_offsets: int
    end: int


OLDEST = Protocol(init=0, add=0, add_offsets=0, produce=3, commit_offsets=0, end=0)
OLD = Protocol(init=4, add=3, add_offsets=3, produce=11, commit_offsets=4, end=4)
NEW = Protocol(init=5, add=3, add_offsets=4, produce=12, commit_offsets=5, end=5)


def init_producer_id(
    transactional_id: str | None,
    expected: Producer = NO_PRODUCER,
    *,
    timeout_ms: int = _TIMEOUT_MS,
) -> InitProducerIdRequest:
    """Make an InitProducerId request for a transactional id."""
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=expected.producer_id,
        producer_epoch=expected.producer_epoch,
    )


def add(
    transactional_id: str, producer: Producer, partitions: Mapping[str, Sequence[int]]
) -> AddPartitionsToTxnRequest:
    """Make an AddPartitionsToTxn request of a client (v0-3)."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=_topics(partitions),
    )


def broker_transaction(
    transactional_id: str,
    producer: Producer,
    partitions: Mapping[str, Sequence[int]],
    *,
    verify_only: bool = False,
) -> AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction:
    """Make one transaction of an AddPartitionsToTxn request of a broker."""
    return AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=verify_only,
        topics=_topics(partitions),
    )


def add_for_broker(
    *transactions: AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction,
) -> AddPartitionsToTxnRequest:
    """Make an AddPartitionsToTxn request of a broker (v4-5) for several transactions."""
    return AddPartitionsToTxnRequest(transactions=list(transactions))


def _topics(
    partitions: Mapping[str, Sequence[int]],
) -> list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]:
    row = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return [row(name=name, partitions=list(indexes)) for name, indexes in partitions.items()]


def add_offsets(transactional_id: str, producer: Producer, group: str) -> AddOffsetsToTxnRequest:
    """Make an AddOffsetsToTxn request."""
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id=group,
    )


def end(transactional_id: str, producer: Producer, *, is_commit: bool) -> EndTxnRequest:
    """Make an EndTxn request."""
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=is_commit,
    )


def write(
    transactional_id: str | None,
    producer: Producer,
    topic: str,
    *values: bytes,
    partition: int = 0,
    sequence: int = 0,
    attributes: int = TRANSACTIONAL,
    topic_id: bytes | None = None,
) -> ProduceRequest:
    """Make a Produce request with a transactional batch."""
    records = Batch(
        values=values or (b"value",),
        attributes=attributes,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
    ).encode()
    request = produce(topic, records, partition=partition, topic_id=topic_id)
    request.transactional_id = transactional_id
    return request


def commit_offsets(
    transactional_id: str,
    producer: Producer,
    group: str,
    offsets: Mapping[str, Mapping[int, int]],
    *,
    member_id: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str | None = "note",
) -> TxnOffsetCommitRequest:
    """Make a TxnOffsetCommit request; topic → partition → offset."""
    row = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    row(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=0,
                        committed_metadata=metadata,
                    )
                    for index, offset in offset_by_partition.items()
                ],
            )
            for topic, offset_by_partition in offsets.items()
        ],
    )


def markers(
    producer: Producer,
    partitions: Mapping[str, Sequence[int]],
    *,
    is_commit: bool = ABORT,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> WriteTxnMarkersRequest:
    """Make a WriteTxnMarkers request for one transaction."""
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=is_commit,
        topics=[
            topic(name=name, partition_indexes=list(indexes))
            for name, indexes in partitions.items()
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    return WriteTxnMarkersRequest(markers=[marker])


def describe(*transactional_ids: str) -> DescribeTransactionsRequest:
    """Make a DescribeTransactions request."""
    return DescribeTransactionsRequest(transactional_ids=list(transactional_ids))


def describe_producers(topic: str, *partitions: int) -> DescribeProducersRequest:
    """Make a DescribeProducers request."""
    row = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(
        topics=[row(name=topic, partition_indexes=list(partitions) or [0])]
    )


def list_transactions(
    *states: str,
    producer_ids: Sequence[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> ListTransactionsRequest:
    """Make a ListTransactions request."""
    return ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )


def read(
    topic: str, offset: int = 0, *, partition: int = 0, isolation: int = READ_COMMITTED
) -> FetchRequest:
    """Make a Fetch request for a partition."""
    request = fetch_from(topic, partition_at(partition, offset))
    request.isolation_level = isolation
    return request


def latest(topic: str, *partitions: int, isolation: int = READ_COMMITTED) -> ListOffsetsRequest:
    """Make a ListOffsets request for the end offsets."""
    request = list_offsets(topic, *partitions)
    request.isolation_level = isolation
    return request


def wait_for_transaction_coordinator(cluster: ScenarioCluster, *transactional_ids: str) -> None:
    """Wait until the coordinator of transactional ids has loaded and can assign producer ids."""
    producer_id(cluster)
    find = FindCoordinatorRequest(
        key_type=_TRANSACTION_KEY, coordinator_keys=list(transactional_ids)
    )
    cluster.call_until(
        find,
        4,
        lambda response: not any(row.error_code for row in response.coordinators),
        is_recorded=False,
    )

    def is_loaded(response: Any) -> bool:  # noqa: ANN401 - any response class
        expected_errors = {ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
        return all(row.error_code in expected_errors for row in response.transaction_states)

    cluster.call_until(describe(*transactional_ids), 0, is_loaded, is_recorded=False)


def wait_until_complete(cluster: ScenarioCluster, *transactional_ids: str) -> None:
    """Wait until the transactions of transactional ids are complete, and note their states.

    A real coordinator writes its markers after its response.
    """

    def is_done(response: Any) -> bool:  # noqa: ANN401 - any response class
        return not any(
            row.transaction_state.startswith("Prepare") for row in response.transaction_states
        )

    cluster.call_until(describe(*transactional_ids), 0, is_done)


def wait_for_state(cluster: ScenarioCluster, transactional_id: str, *states: str) -> None:
    """Wait until a transactional id is in one of these states, and note it."""
    cluster.call_until(
        describe(transactional_id),
        0,
        lambda response: response.transaction_states[0].transaction_state in states,
    )


@dataclass(slots=True)
class Transactor:
    """A transactional producer with its producer id and epoch; responses go into the transcript."""

    cluster: ScenarioCluster
    transactional_id: str
    protocol: Protocol = NEW
    producer: Producer = NO_PRODUCER

    @property
    def older(self) -> Producer:
        """Return the producer with the previous epoch."""
        return self.at(-1)

    @property
    def newer(self) -> Producer:
        """Return the producer with the next epoch."""
        return self.at(1)

    def at(self, step: int) -> Producer:
        """Return the producer with its epoch changed by `step`."""
        return Producer(self.producer.producer_id, self.producer.producer_epoch + step)

    def with_versions(self, **versions: int) -> Transactor:
        """Return the same producer with a client that uses other versions of some APIs."""
        return replace(self, protocol=self.protocol._replace(**versions))

    def init(self, expected: Producer = NO_PRODUCER, *, timeout_ms: int = _TIMEOUT_MS) -> Any:  # noqa: ANN401
        """Become the live producer, and store the new id and epoch."""
        request = init_producer_id(self.transactional_id, expected, timeout_ms=timeout_ms)
        answer = self.cluster.ask(request, self.protocol.init)
        if answer is not None and answer.error_code == ErrorCode.NONE:
            self.producer = Producer(answer.producer_id, answer.producer_epoch)
        return answer

    def fence(self) -> Any:  # noqa: ANN401
        """Initialise the producer; an open transaction is aborted, wait for that."""
        self.init()
        wait_until_complete(self.cluster, self.transactional_id)
        return self.init()

    def add(self, *partitions: int, topic: str = "", producer: Producer | None = None) -> Any:  # noqa: ANN401
        """Add partitions of a topic, by default of the scenario's own."""
        partitions_by_topic = {topic or self.cluster.name: partitions or (0,)}
        request = add(self.transactional_id, producer or self.producer, partitions_by_topic)
        return self.cluster.ask(request, self.protocol.add)

    def add_offsets(self, group: str, producer: Producer | None = None) -> Any:  # noqa: ANN401
        """Add a group's offsets."""
        request = add_offsets(self.transactional_id, producer or self.producer, group)
        return self.cluster.ask(request, self.protocol.add_offsets)

    def write(
        self,
        *values: bytes,
        topic: str = "",
        partition: int = 0,
        sequence: int = 0,
        producer: Producer | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Append to a partition, of the scenario's own topic if none is named."""
        request = write(
            self.transactional_id,
            producer or self.producer,
            topic or self.cluster.name,
            *values,
            partition=partition,
            sequence=sequence,
            **fields,
        )
        return self.cluster.ask(request, self.protocol.produce)

    def commit_offsets(
        self,
        group: str,
        offset: int = 5,
        *partitions: int,
        topic: str = "",
        producer: Producer | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Commit an offset for partitions of a topic, the scenario's own if none is named."""
        offset_by_partition = dict.fromkeys(partitions or (0,), offset)
        request = commit_offsets(
            self.transactional_id,
            producer or self.producer,
            group,
            {topic or self.cluster.name: offset_by_partition},
            **fields,
        )
        return self.cluster.ask(request, self.protocol.commit_offsets)

    def end(self, *, is_commit: bool, producer: Producer | None = None) -> Any:  # noqa: ANN401
        """Commit or abort, wait until that is complete, and continue with the returned epoch."""
        request = end(self.transactional_id, producer or self.producer, is_commit=is_commit)
        answer = self.cluster.ask(request, self.protocol.end)
        wait_until_complete(self.cluster, self.transactional_id)
        if answer is not None and answer.error_code == ErrorCode.NONE and answer.producer_id >= 0:
            self.producer = Producer(answer.producer_id, answer.producer_epoch)
        return answer

    def commit(self, producer: Producer | None = None) -> Any:  # noqa: ANN401
        """Commit, and wait until that is done."""
        return self.end(is_commit=COMMIT, producer=producer)

    def abort(self, producer: Producer | None = None) -> Any:  # noqa: ANN401
        """Abort, and wait until that is done."""
        return self.end(is_commit=ABORT, producer=producer)

    def begin(self, *partitions: int, topic: str = "") -> None:
        """Begin a transaction in the client's protocol, with a record in each partition."""
        if not self.is_new:
            self.add(*partitions, topic=topic)
        for partition in partitions or (0,):
            self.write(topic=topic, partition=partition)

    @property
    def is_new(self) -> bool:
        """Whether the protocol adds partitions implicitly."""
        return self.protocol.produce >= NEW.produce


def in_both_protocols(
    scenario: Callable[[ScenarioCluster, Protocol], None],
) -> tuple[Scenario, ...]:
    """Turn a scenario into two: one for a client of the old protocol, one for the new."""

    def old(cluster: ScenarioCluster) -> None:
        scenario(cluster, OLD)

    def new(cluster: ScenarioCluster) -> None:
        scenario(cluster, NEW)

    old.__name__ = f"{scenario.__name__}_in_the_old_protocol"
    new.__name__ = f"{scenario.__name__}_in_the_new_protocol"
    old.__module__ = new.__module__ = scenario.__module__
    return old, new


def start_producer(
    cluster: ScenarioCluster,
    protocol: Protocol,
    transactional_id: str = "",
    *,
    timeout_ms: int = _TIMEOUT_MS,
) -> Transactor:
    """Make a producer that has been initialised."""
    name = transactional_id or cluster.name
    wait_for_transaction_coordinator(cluster, name)
    transactor = Transactor(cluster, name, protocol)
    transactor.init(timeout_ms=timeout_ms)
    return transactor
