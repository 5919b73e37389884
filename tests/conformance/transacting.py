"""A transactional producer by hand: every request it can send, right or deliberately wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkalite.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol.messages.describe_producers import DescribeProducersRequest
from kafkalite.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkalite.protocol.messages.end_txn import EndTxnRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.messages.list_transactions import ListTransactionsRequest
from kafkalite.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.conformance.batches import TRANSACTIONAL, Batch
from tests.conformance.scenarios.fetching import fetch_from, partition_at
from tests.conformance.setup import list_offsets, produce, producer_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.protocol.messages.fetch import FetchRequest
    from kafkalite.protocol.messages.list_offsets import ListOffsetsRequest
    from kafkalite.protocol.messages.produce import ProduceRequest
    from tests.conformance.playing import Scenario
    from tests.conformance.world import World


class Producer(NamedTuple):
    """One incarnation of a producer."""

    producer_id: int
    producer_epoch: int


NOBODY = Producer(-1, -1)
COMMIT, ABORT = True, False
READ_COMMITTED = 1
_TRANSACTION_KEY = 1
_TIMEOUT_MS = 60_000


class Protocol(NamedTuple):
    """The versions in which a client speaks; transaction.version decides (KIP-890)."""

    init: int
    add: int
    add_offsets: int
    produce: int
    commit_offsets: int
    end: int


OLDEST = Protocol(init=0, add=0, add_offsets=0, produce=3, commit_offsets=0, end=0)
OLD = Protocol(init=4, add=3, add_offsets=3, produce=11, commit_offsets=4, end=4)
NEW = Protocol(init=5, add=3, add_offsets=4, produce=12, commit_offsets=5, end=5)


def initialise(
    transactional_id: str | None,
    expected: Producer = NOBODY,
    *,
    timeout_ms: int = _TIMEOUT_MS,
) -> InitProducerIdRequest:
    """Ask to be the one live producer of a transactional id."""
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=expected.producer_id,
        producer_epoch=expected.producer_epoch,
    )


def add(
    transactional_id: str, producer: Producer, partitions: Mapping[str, Sequence[int]]
) -> AddPartitionsToTxnRequest:
    """Ask as a client does (v0-3) that partitions take part."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=_topics(partitions),
    )


def added(
    transactional_id: str,
    producer: Producer,
    partitions: Mapping[str, Sequence[int]],
    *,
    verify_only: bool = False,
) -> AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction:
    """Make one transaction of a request between brokers."""
    return AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=verify_only,
        topics=_topics(partitions),
    )


def add_together(
    *transactions: AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction,
) -> AddPartitionsToTxnRequest:
    """Ask as a broker does (v4-5), for many transactions at once."""
    return AddPartitionsToTxnRequest(transactions=list(transactions))


def _topics(
    partitions: Mapping[str, Sequence[int]],
) -> list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]:
    row = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return [row(name=name, partitions=list(indexes)) for name, indexes in partitions.items()]


def add_offsets(transactional_id: str, producer: Producer, group: str) -> AddOffsetsToTxnRequest:
    """Ask that the offsets of a group take part."""
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id=group,
    )


def end(transactional_id: str, producer: Producer, *, is_commit: bool) -> EndTxnRequest:
    """Ask to commit or to abort."""
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
    """Ask to append a batch within a transaction."""
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
    """Ask to commit offsets of a group within a transaction; topic → partition → offset."""
    row = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        generation_id=generation,
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
                    for index, offset in each.items()
                ],
            )
            for topic, each in offsets.items()
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
    """Ask to write the end of one transaction into partitions."""
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
    """Ask where transactional ids stand."""
    return DescribeTransactionsRequest(transactional_ids=list(transactional_ids))


def describe_producers(topic: str, *partitions: int) -> DescribeProducersRequest:
    """Ask who writes to partitions."""
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
    """Ask which transactional ids there are."""
    return ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )


def read(
    topic: str, offset: int = 0, *, partition: int = 0, isolation: int = READ_COMMITTED
) -> FetchRequest:
    """Ask for the records of a partition."""
    request = fetch_from(topic, partition_at(partition, offset))
    request.isolation_level = isolation
    return request


def latest(topic: str, *partitions: int, isolation: int = READ_COMMITTED) -> ListOffsetsRequest:
    """Ask where partitions end for a reader."""
    request = list_offsets(topic, *partitions)
    request.isolation_level = isolation
    return request


def ready_transactions(world: World, *transactional_ids: str) -> None:
    """Wait until the coordinator of transactional ids has loaded and has producer ids to give."""
    producer_id(world)
    find = FindCoordinatorRequest(
        key_type=_TRANSACTION_KEY, coordinator_keys=list(transactional_ids)
    )
    world.settle(
        find, 4, lambda found: not any(each.error_code for each in found.coordinators), note=False
    )

    def is_loaded(found: Any) -> bool:  # noqa: ANN401 - any response class
        known = {ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
        return all(each.error_code in known for each in found.transaction_states)

    world.settle(describe(*transactional_ids), 0, is_loaded, note=False)


def completed(world: World, *transactional_ids: str) -> None:
    """Wait until nothing is left to be done for transactional ids, and note where they stand.

    A real coordinator writes its markers after it has answered.
    """

    def is_done(found: Any) -> bool:  # noqa: ANN401 - any response class
        return not any(
            each.transaction_state.startswith("Prepare") for each in found.transaction_states
        )

    world.settle(describe(*transactional_ids), 0, is_done)


def reached(world: World, transactional_id: str, *states: str) -> None:
    """Wait until a transactional id is in one of some states, and note where it stands."""
    world.settle(
        describe(transactional_id),
        0,
        lambda found: found.transaction_states[0].transaction_state in states,
    )


@dataclass(slots=True)
class Transactor:
    """One incarnation of a transactional producer; what it asks is put into the transcript."""

    world: World
    transactional_id: str
    protocol: Protocol = NEW
    producer: Producer = NOBODY

    @property
    def older(self) -> Producer:
        """Give the incarnation before this one."""
        return self.at(-1)

    @property
    def newer(self) -> Producer:
        """Give the incarnation after this one."""
        return self.at(1)

    def at(self, step: int) -> Producer:
        """Give an incarnation so many epochs away."""
        return Producer(self.producer.producer_id, self.producer.producer_epoch + step)

    def speaking(self, **versions: int) -> Transactor:
        """Give the same producer with a client that speaks some APIs in other versions."""
        return replace(self, protocol=self.protocol._replace(**versions))

    def init(self, expected: Producer = NOBODY, *, timeout_ms: int = _TIMEOUT_MS) -> Any:  # noqa: ANN401
        """Become the live producer; what was given is kept."""
        request = initialise(self.transactional_id, expected, timeout_ms=timeout_ms)
        answer = self.world.ask(request, self.protocol.init)
        if answer is not None and answer.error_code == ErrorCode.NONE:
            self.producer = Producer(answer.producer_id, answer.producer_epoch)
        return answer

    def fence(self) -> Any:  # noqa: ANN401
        """Initialise although a transaction may be open; wait until it is ended."""
        self.init()
        completed(self.world, self.transactional_id)
        return self.init()

    def add(self, *partitions: int, topic: str = "", producer: Producer | None = None) -> Any:  # noqa: ANN401
        """Bring partitions of a topic in, the scenario's own if none is named."""
        named = {topic or self.world.name: partitions or (0,)}
        request = add(self.transactional_id, producer or self.producer, named)
        return self.world.ask(request, self.protocol.add)

    def add_offsets(self, group: str, producer: Producer | None = None) -> Any:  # noqa: ANN401
        """Bring a group's offsets in."""
        request = add_offsets(self.transactional_id, producer or self.producer, group)
        return self.world.ask(request, self.protocol.add_offsets)

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
            topic or self.world.name,
            *values,
            partition=partition,
            sequence=sequence,
            **fields,
        )
        return self.world.ask(request, self.protocol.produce)

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
        each = dict.fromkeys(partitions or (0,), offset)
        request = commit_offsets(
            self.transactional_id,
            producer or self.producer,
            group,
            {topic or self.world.name: each},
            **fields,
        )
        return self.world.ask(request, self.protocol.commit_offsets)

    def end(self, *, is_commit: bool, producer: Producer | None = None) -> Any:  # noqa: ANN401
        """Commit or abort, wait until that is done, and go on as the answer says."""
        request = end(self.transactional_id, producer or self.producer, is_commit=is_commit)
        answer = self.world.ask(request, self.protocol.end)
        completed(self.world, self.transactional_id)
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
        """Begin a transaction with a record in each of some partitions, as the protocol has it."""
        if not self.is_new:
            self.add(*partitions, topic=topic)
        for partition in partitions or (0,):
            self.write(topic=topic, partition=partition)

    @property
    def is_new(self) -> bool:
        """Say whether the protocol adds partitions by itself."""
        return self.protocol.produce >= NEW.produce


def in_both_protocols(scenario: Callable[[World, Protocol], None]) -> tuple[Scenario, ...]:
    """Make two scenarios of one: played by a client of the old protocol, and of the new."""

    def old(world: World) -> None:
        scenario(world, OLD)

    def new(world: World) -> None:
        scenario(world, NEW)

    old.__name__ = f"{scenario.__name__}_in_the_old_protocol"
    new.__name__ = f"{scenario.__name__}_in_the_new_protocol"
    return old, new


def begun(
    world: World, protocol: Protocol, transactional_id: str = "", *, timeout_ms: int = _TIMEOUT_MS
) -> Transactor:
    """Make a producer that has been initialised."""
    name = transactional_id or world.name
    ready_transactions(world, name)
    transactor = Transactor(world, name, protocol)
    transactor.init(timeout_ms=timeout_ms)
    return transactor
