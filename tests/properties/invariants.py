"""What must be so in a cluster after any history, when no client is connected."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from kafkalite.control.command_table import running_cluster
from kafkalite.gateway.faults import MAX_LATE_BYTES
from kafkalite.storage.batch import split_batches
from kafkalite.transactions.state import PREPARED_STATES
from tests.properties import test_group_replay, test_streams_replay, test_transaction_replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.coordinator.runtime import CoordinatorRuntime
    from kafkalite.partitions.partition import Partition
    from kafkalite.server.broker import Broker as ServedBroker
    from kafkalite.testing import Broker

_TIMEOUT_S: Final = 30
_POLL_S: Final = 0.02
_READ_BYTES: Final = 1 << 20


def wait_until_idle(broker: Broker) -> None:
    """Wait until no client is connected, all replicas are in sync, and no transaction ends.

    The coordinators of transactions are loaded again before. As in Kafka, they write no markers
    where another node has answered that there are later ones, which a fault may have answered.
    """
    _call(broker, _reload_transactions)
    deadline = time.monotonic() + _TIMEOUT_S
    while busy := _call(broker, _busy):
        assert time.monotonic() < deadline, busy
        time.sleep(_POLL_S)


def check_invariants(broker: Broker) -> None:
    """Raise AssertionError if a log or a state of an idle cluster is wrong.

    - Nothing is left of faults and links: no request waits, and no memory is reserved.
    - Replaying the log of a coordinator gives its state.
    - Offsets and epochs of a log grow, checksums are right, and all its records are committed.
    """
    _call(broker, _check)


def _call(broker: Broker, function: Callable[[ServedBroker], Any]) -> Any:  # noqa: ANN401 - its result
    """Call a function in the thread of the broker."""

    async def call() -> Any:  # noqa: ANN401 - as above
        return function(broker._running_broker())

    return broker._run_on_loop(call())


def _reload_transactions(broker: ServedBroker) -> None:
    transactions = running_cluster(broker).transactions
    for shard in transactions.shards():
        transactions.reload(shard.partition)


def _busy(broker: ServedBroker) -> list[str]:
    cluster = running_cluster(broker)
    lagging = [
        f"{topic.name}-{each.index} has the ISR {each.isr}"
        for topic in cluster.metadata.image.topics.values()
        for each in topic.partitions
        if sorted(each.isr) != sorted(each.replicas)
    ]
    prepared = [
        f"{each.transactional_id} is in state {each.state.name}"
        for shard in cluster.transactions.shards()
        for each in shard.machine.transactions()
        if each.state in PREPARED_STATES
    ]
    return [
        *lagging,
        *prepared,
        *(f"{each.client_id} is connected" for each in broker.nodes.connections()),
    ]


def _check(broker: ServedBroker) -> None:
    cluster = running_cluster(broker)
    assert not broker.faults.states()
    faults, links = broker.faults, broker.nodes.links
    assert faults._shared.budget.free_bytes == MAX_LATE_BYTES
    assert not links._linked
    _check_replay(cluster.groups, _group_state)
    _check_replay(cluster.transactions, test_transaction_replay.hard_state)
    _check_replay(cluster.shares, lambda machine: machine.states())
    for topic in cluster.partitions.topics():
        for partition in topic.partitions:
            _check_log(partition)


def _group_state(machine: Any) -> dict[str, object]:  # noqa: ANN401 - a GroupShard
    return test_group_replay.hard_state(machine) | test_streams_replay.hard_state(machine)


def _check_replay(coordinator: CoordinatorRuntime[Any], state_of: Callable[[Any], object]) -> None:
    for shard in tuple(coordinator.shards()):
        before = state_of(shard.machine)
        coordinator.reload(shard.partition)
        after = coordinator.read(shard.partition, lambda machine, _: state_of(machine))
        assert after == before, f"{after} was {before}"


def _check_log(partition: Partition) -> None:
    end = partition.end_offset
    assert partition.high_watermark == end, partition
    offset, epoch = partition.log_start_offset, -1
    while offset < end:
        read = partition.read(offset, max_bytes=_READ_BYTES, limit_offset=end, at_least_one=True)
        for batch in split_batches(read):
            assert batch.last_offset >= offset, (partition, offset)
            assert batch.leader_epoch >= epoch, (partition, offset)
            assert batch.has_valid_crc(), (partition, offset)
            offset, epoch = batch.last_offset + 1, batch.leader_epoch
    assert offset == end, partition
