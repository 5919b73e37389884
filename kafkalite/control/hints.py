"""Hints about common mistakes of clients, from logged requests and the state of a cluster."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from kafkalite.apis.data.list_offsets import LATEST
from kafkalite.control.turns import REQUESTS_PER_TURN, in_turns
from kafkalite.coordinator.contract import CREATED
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.transactions.state import TransactionState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.coordinator.event_history import Entry
    from kafkalite.server.request_log import LoggedRequest

_MAX_NAMED: Final = 3
_MAX_OF_KIND: Final = 10
_PREPARING_APIS: Final = frozenset(
    (
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.METADATA,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.SASL_HANDSHAKE,
    )
)
"""APIs that a client uses before it sends or reads anything."""

_PartitionOfClient = tuple[str | None, str, int]
"""Client id, topic and partition."""


async def hints(
    cluster: Cluster, requests: Sequence[LoggedRequest], entries: Sequence[Entry], now_ms: int
) -> AsyncIterator[str]:
    """Yield a sentence for each mistake that requests, entries of the history and the state show.

    There are at most ten for each kind of mistake. Other tasks run meanwhile. `now_ms` is the time
    by the broker's clock, in milliseconds.
    """
    for kind in (
        _readers_from_the_end(cluster, requests),
        _automatic_topics(entries),
        _clients_with_metadata_only(requests),
        _open_transactions(cluster, now_ms),
    ):
        async with aclosing(kind) as sentences:
            count = 0
            async for each in sentences:
                yield each
                count += 1
                if count == _MAX_OF_KIND:
                    break


async def _readers_from_the_end(
    cluster: Cluster, requests: Sequence[LoggedRequest]
) -> AsyncGenerator[str, None]:
    """Yield hints about consumers that skip the records that are in a partition already."""
    ends: dict[_PartitionOfClient, int] = {}
    starts: dict[_PartitionOfClient, int] = {}
    names = {
        uuid_to_text(each.topic_id): each.name for each in cluster.metadata.image.topics.values()
    }
    async for each in in_turns(requests, REQUESTS_PER_TURN):
        client_id, api_key = each.exchange.client_id, each.exchange.api_key
        if api_key == ApiKey.LIST_OFFSETS:
            for name, partition, offset in _latest_offsets(each):
                ends[client_id, name, partition] = offset
        elif api_key == ApiKey.FETCH:
            for topic, row in _rows(each.request):
                name = topic.get("topic") or names.get(topic.get("topicId", ""), "")
                key = (client_id, name, row["partition"])
                starts[key] = min(starts.get(key, row["fetchOffset"]), row["fetchOffset"])
    for (client_id, name, partition), offset in ends.items():
        if offset > 0 and starts.get((client_id, name, partition)) == offset:
            yield (
                f"client {client_id} reads {name}-{partition} from its end, offset {offset}, and "
                "does not get earlier records: a consumer whose group has no committed offset "
                "begins there, unless auto.offset.reset is earliest"
            )


def _latest_offsets(logged: LoggedRequest) -> Iterator[tuple[str, int, int]]:
    """Yield topic, partition and end offset of the partitions whose end a client asked for."""
    requested = {
        (topic["name"], row["partitionIndex"])
        for topic, row in _rows(logged.request)
        if row["timestamp"] == LATEST
    }
    for topic, row in _rows(logged.response or {}):
        name, partition = topic["name"], row["partitionIndex"]
        if (name, partition) in requested and not row["errorCode"]:
            yield name, partition, row.get("offset", -1)


def _rows(message: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for topic in message.get("topics", ()):
        for row in topic["partitions"]:
            yield topic, row


async def _automatic_topics(entries: Sequence[Entry]) -> AsyncGenerator[str, None]:
    async for each in in_turns(entries):
        if each.kind == CREATED and each.facts.get("partitions") == 1:
            yield (
                f"topic {each.topic} was created automatically with 1 partition: create it before "
                "the test if it needs more"
            )


async def _clients_with_metadata_only(
    requests: Sequence[LoggedRequest],
) -> AsyncGenerator[str, None]:
    """Yield hints about clients that got addresses and sent nothing to them."""
    keys_by_client: dict[str | None, set[int]] = {}
    addresses: dict[str | None, str] = {}
    async for each in in_turns(requests, REQUESTS_PER_TURN):
        exchange = each.exchange
        client_id = exchange.client_id
        keys_by_client.setdefault(client_id, set()).add(exchange.api_key)
        if exchange.api_key == ApiKey.METADATA and client_id not in addresses:
            brokers = (each.response or {}).get("brokers", ())
            shown = [f"{broker['host']}:{broker['port']}" for broker in brokers[:_MAX_NAMED]]
            addresses[client_id] = ", ".join(shown)
    for client_id, keys in keys_by_client.items():
        if ApiKey.METADATA in keys and keys <= _PREPARING_APIS:
            yield (
                f"client {client_id} has asked for metadata only: it has nothing to send or read, "
                "as a producer before flush(), or it cannot reach the advertised address "
                f"{addresses[client_id]}"
            )


async def _open_transactions(cluster: Cluster, now_ms: int) -> AsyncGenerator[str, None]:
    for shard in cluster.transactions.shards():
        async for each in in_turns(tuple(shard.machine.transactions())):
            if each.state is TransactionState.ONGOING:
                partitions = sorted(f"{topic}-{index}" for topic, index in each.partitions)
                named = ", ".join(partitions[:_MAX_NAMED])
                more = ", …" if len(partitions) > _MAX_NAMED else ""
                open_s = (now_ms - each.start_timestamp_ms) / 1000
                yield (
                    f"the transaction of id {each.transactional_id} has been open for {open_s:g} s "
                    f"with {named or 'no partitions'}{more}; consumers that read committed records "
                    "wait for its end"
                )
