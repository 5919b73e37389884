"""The final state of a run: what its history proves, and transactions that are still open."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.client import KafkaClient
from kafkalite.client.connection import UnreachableError
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import ClientError
from kafkalite.client.offsets import OffsetTarget
from kafkalite.client.topic_reader import TopicReader
from kafkalite.control.commands.transactions import ListTransactions
from kafkalite.lab.sweep.requests import Partition
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalite.lab.checker.findings import Finding
    from kafkalite.server.broker import Broker as ServerBroker
    from kafkalite.testing.broker import Broker

_MAX_POLLS: Final = 1_000
"""Answers that are read; the records after these are not checked."""
_OPEN: Final = frozenset(("Ongoing", "PrepareCommit", "PrepareAbort"))
HANGING: Final = "hanging transaction"


class Anomaly(NamedTuple):
    """What is wrong at the end of a run."""

    rule: str
    text: str


def call(cluster: Broker, function: Callable[[ServerBroker], Any]) -> Any:  # noqa: ANN401
    """Return the result of a function that is called on the thread of a cluster."""
    return cluster._call(function)  # noqa: SLF001 - tests need no such method


def anomalies_of(cluster: Broker) -> dict[Anomaly, None]:
    """Return what the history of a cluster proves, and its open transactions.

    The logs are read once more. The history then has all records, also those that no client has
    read, so records that are missing or doubled are found.
    """
    found = _of_checker(cluster.check().violations)
    partitions = call(cluster, _partitions_with_records)
    if partitions:
        cluster._run_on_loop(_read_all(cluster.bootstrap_servers, partitions))  # noqa: SLF001 - as above
        found |= _of_checker(cluster.check().violations)
    listed = cluster._perform(ListTransactions())  # noqa: SLF001 - as above
    for each in listed.transactions:
        if each.state in _OPEN:
            text = f"the transaction of {each.transactional_id} was not ended ({each.state})"
            found[Anomaly(HANGING, text)] = None
    return found


def _of_checker(findings: Iterable[Finding]) -> dict[Anomaly, None]:
    return {Anomaly(each.rule, each.text): None for each in findings}


def in_sync(cluster: Broker) -> Mapping[Partition, int]:
    """Return the number of replicas in sync of each partition, without internal topics."""

    def read(broker: ServerBroker) -> dict[Partition, int]:
        assert broker.cluster is not None
        return {
            Partition(topic.name, each.index): len(each.isr)
            for topic in broker.cluster.metadata.image.topics.values()
            if not topic.is_internal
            for each in topic.partitions
        }

    found: dict[Partition, int] = call(cluster, read)
    return found


def _partitions_with_records(broker: ServerBroker) -> list[TopicPartition]:
    """Return the partitions with records, without those of internal topics."""
    assert broker.cluster is not None
    return [
        TopicPartition(topic.name, each.index)
        for topic in broker.cluster.metadata.image.topics.values()
        if not topic.is_internal
        for each in topic.partitions
        if not broker.cluster.partitions.is_log_empty(topic.name, each.index)
    ]


async def _read_all(bootstrap_servers: str, partitions: Sequence[TopicPartition]) -> None:
    """Read the records of partitions, as a client does."""
    addresses = [Address.parse(each) for each in bootstrap_servers.split(",")]
    topics = sorted({each.topic for each in partitions})
    with suppress(ClientError, UnreachableError):  # what cannot be read is not checked
        async with (
            KafkaClient(addresses) as client,
            TopicReader.open(
                client,
                topics,
                group_id=None,
                start=OffsetTarget(),
                isolation="read_uncommitted",
                follows=False,
            ) as reader,
        ):
            await reader.assign(partitions)
            for _ in range(_MAX_POLLS):
                if await reader.poll() is None:
                    return
