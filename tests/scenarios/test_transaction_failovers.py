"""Leaders and coordinators that fail while the markers of a transaction are being replicated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing.files import MemoryFiles
from kafkalite.transactions.state import ProducerIdAndEpoch
from tests.scenarios.transaction_nodes import LAG_TIME_MS, TransactionNodes

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITION = ("dst", 0)
LEADER, FOLLOWER, COORDINATOR = 1, 2, 3
RETRY_MS = 500
"""The time until a refused marker is sent again."""
REQUEST_TIMEOUT_MS = 30_000
"""The default of request.timeout.ms."""


class Ends:
    """Transactions of one id, whose coordinator does not lead their partition."""

    def __init__(self, nodes: TransactionNodes) -> None:
        self.nodes = nodes
        self.id = nodes.id_coordinated_by(COORDINATOR)
        self.producer = nodes.new_producer(transactional_id=self.id, node=COORDINATOR)

    def write(self, value: bytes, node: int = LEADER) -> None:
        """Write a record, which every replica in sync gets."""
        answer = self.nodes.produce(
            self.producer, PARTITION, value, transactional_id=self.id, node=node
        )
        assert answer.responses[0].partition_responses[0].error_code == 0

    def end(self, *, is_commit: bool) -> None:
        """End the transaction; the answer has the next epoch."""
        answer = self.nodes.end_transaction(
            self.producer, is_commit=is_commit, transactional_id=self.id, node=COORDINATOR
        )
        assert answer.error_code == 0
        self.producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    def state(self) -> str:
        """Return the state of the transaction as DescribeTransactions has it."""
        name: str = self.nodes.describe(self.id, COORDINATOR).transaction_state
        return name


@pytest.fixture
def nodes() -> Iterator[TransactionNodes]:
    running = TransactionNodes(files=MemoryFiles())
    running.create_replicated("dst", (LEADER, FOLLOWER))
    yield running
    running.end()


@pytest.fixture
def ends(nodes: TransactionNodes) -> Ends:
    return Ends(nodes)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_failover_does_not_reverse_an_acknowledged_end(
    nodes: TransactionNodes, ends: Ends, *, is_commit: bool
) -> None:
    ends.write(b"first")
    nodes.control.pause_replication(FOLLOWER)
    ends.end(is_commit=is_commit)
    assert ends.state() == ("PrepareCommit" if is_commit else "PrepareAbort")
    nodes.control.stop(LEADER)
    nodes.control.resume_replication(FOLLOWER)
    assert nodes.committed(PARTITION, FOLLOWER) == []
    nodes.clock.advance(RETRY_MS)
    assert ends.state() == ("CompleteCommit" if is_commit else "CompleteAbort")
    committed = [b"first"] * is_commit
    assert nodes.committed(PARTITION, FOLLOWER) == committed
    ends.write(b"second", FOLLOWER)
    ends.end(is_commit=not is_commit)
    assert nodes.committed(PARTITION, FOLLOWER) == committed + [b"second"] * (not is_commit)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_ends_for_readers_when_the_replicas_have_its_marker(
    nodes: TransactionNodes, ends: Ends, *, is_commit: bool
) -> None:
    ends.write(b"first")
    nodes.control.pause_replication(FOLLOWER)
    ends.end(is_commit=is_commit)
    answer = nodes.fetch(PARTITION)
    assert (answer.last_stable_offset, answer.high_watermark) == (0, 1)
    nodes.control.resume_replication(FOLLOWER)
    answer = nodes.fetch(PARTITION)
    assert (answer.last_stable_offset, answer.high_watermark) == (2, 2)
    assert nodes.committed(PARTITION) == [b"first"] * is_commit
    assert ends.state() == ("CompleteCommit" if is_commit else "CompleteAbort")


def test_the_next_transaction_waits_until_the_replicas_have_the_markers(
    nodes: TransactionNodes, ends: Ends
) -> None:
    ends.write(b"first")
    nodes.control.pause_replication(FOLLOWER)
    ends.end(is_commit=True)
    code = nodes.end_transaction(
        ends.producer, is_commit=False, transactional_id=ends.id, node=COORDINATOR
    ).error_code
    assert code == ErrorCode.CONCURRENT_TRANSACTIONS
    nodes.clock.advance(2 * LAG_TIME_MS)
    assert nodes.cluster.metadata.image.topics["dst"].partitions[0].isr == (LEADER,)
    assert ends.state() == "CompleteCommit"
    assert nodes.committed(PARTITION) == [b"first"]


def test_a_marker_that_is_not_replicated_in_time_is_written_again(
    nodes: TransactionNodes, ends: Ends
) -> None:
    ends.write(b"first")
    nodes.control.pause_replication(FOLLOWER)
    ends.end(is_commit=True)
    nodes.clock.advance(REQUEST_TIMEOUT_MS + RETRY_MS)
    assert ends.state() == "PrepareCommit"
    assert len(nodes.markers(*PARTITION)) == 2
    nodes.control.resume_replication(FOLLOWER)
    assert ends.state() == "CompleteCommit"
    assert nodes.committed(PARTITION) == [b"first"]


@pytest.fixture
def replicated() -> Iterator[TransactionNodes]:
    """Nodes whose internal topics have three replicas, too."""
    factors = dict.fromkeys(
        ("transaction.state.log.replication.factor", "offsets.topic.replication.factor"), "3"
    )
    running = TransactionNodes(factors, files=MemoryFiles())
    running.create_replicated("dst", (LEADER, FOLLOWER))
    yield running
    running.end()


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_next_coordinator_writes_the_markers_again(
    replicated: TransactionNodes, *, is_commit: bool
) -> None:
    """The first one fails while the marker is being replicated."""
    ends = Ends(replicated)
    ends.write(b"first")
    replicated.control.pause_replication(FOLLOWER)
    ends.end(is_commit=is_commit)
    replicated.control.stop(COORDINATOR)
    (next_coordinator,) = replicated.find(ends.id)
    described = replicated.describe(ends.id, next_coordinator)
    assert described.transaction_state == ("PrepareCommit" if is_commit else "PrepareAbort")
    replicated.control.resume_replication(FOLLOWER)
    described = replicated.describe(ends.id, next_coordinator)
    assert described.transaction_state == ("CompleteCommit" if is_commit else "CompleteAbort")
    assert replicated.committed(PARTITION) == [b"first"] * is_commit
    assert len(replicated.markers(*PARTITION)) == 2
    replicated.clock.advance(REQUEST_TIMEOUT_MS)
    assert len(replicated.markers(*PARTITION)) == 2
    assert len(replicated.cluster.outbox) == 0


def test_a_coordinator_with_old_metadata_writes_the_markers_of_new_partitions_later(
    replicated: TransactionNodes,
) -> None:
    """It becomes the coordinator of a transaction whose partition it does not know."""
    ends = Ends(replicated)
    replicated.control.freeze_metadata(FOLLOWER)
    replicated.create_replicated("later", (LEADER,))
    later = ("later", 0)
    written = replicated.produce(ends.producer, later, b"first", transactional_id=ends.id)
    assert written.responses[0].partition_responses[0].error_code == 0
    replicated.cluster.metadata.move_leader(
        "__transaction_state", replicated.cluster.transactions.partition_for(ends.id), FOLLOWER
    )
    answer = replicated.end_transaction(
        ends.producer, is_commit=True, transactional_id=ends.id, node=FOLLOWER
    )
    assert answer.error_code == 0
    assert replicated.describe(ends.id, FOLLOWER).transaction_state == "PrepareCommit"
    replicated.control.thaw_metadata(FOLLOWER)
    replicated.clock.advance(RETRY_MS)
    assert replicated.describe(ends.id, FOLLOWER).transaction_state == "CompleteCommit"
    assert replicated.committed(later) == [b"first"]
    (marker,) = (batch.control_marker() for batch in replicated.control_batches(later))
    assert marker is not None
    assert marker.coordinator_epoch == 1
