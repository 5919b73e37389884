"""Hints about common mistakes of clients, from logged requests and the state of a cluster."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from kafkalite.apis.data.list_offsets import LATEST
from kafkalite.control.turns import REQUESTS_PER_TURN, in_turns
from kafkalite.coordinator.contract import CREATED
from kafkalite.ports.similar_names import similar_names_hint
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.transactions.state import TransactionState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.coordinator.event_history import Entry
    from kafkalite.server.request_log import LoggedRequest

_MAX_NAMED: Final = 3
_UNKNOWN_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
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
        _automatic_topics(cluster, entries),
        _clients_with_metadata_only(cluster, requests),
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


async def _automatic_topics(
    cluster: Cluster, entries: Sequence[Entry]
) -> AsyncGenerator[str, None]:
    async for each in in_turns(entries):
        if each.kind == CREATED and each.facts.get("partitions") == 1:
            name = each.topic or ""
            others = (other for other in cluster.metadata.image.topics if other != name)
            yield (
                f"topic {name} was created automatically with 1 partition: create it before the "
                f"test if it needs more{similar_names_hint(name, others)}"
            )


async def _clients_with_metadata_only(
    cluster: Cluster, requests: Sequence[LoggedRequest]
) -> AsyncGenerator[str, None]:
    """Yield hints about clients that know no topic, or that sent nothing to known addresses."""
    topics = cluster.metadata.image.topics
    keys_by_client: dict[str | None, set[int]] = {}
    addresses: dict[str | None, str] = {}
    unknown: dict[tuple[str | None, str], None] = {}
    async for each in in_turns(requests, REQUESTS_PER_TURN):
        exchange = each.exchange
        client_id = exchange.client_id
        keys_by_client.setdefault(client_id, set()).add(exchange.api_key)
        if exchange.api_key == ApiKey.METADATA:
            response = each.response or {}
            for topic in response.get("topics", ()):
                if topic["errorCode"] == _UNKNOWN_TOPIC and topic["name"] not in topics:
                    unknown[client_id, topic["name"] or ""] = None
            brokers = response.get("brokers", ())[:_MAX_NAMED]
            shown = ", ".join(f"{broker['host']}:{broker['port']}" for broker in brokers)
            addresses.setdefault(client_id, shown)
    for client_id, name in unknown:
        yield (
            f"client {client_id} asks for topic {name}, which does not exist"
            f"{similar_names_hint(name, topics)}"
        )
    without_topic = {client_id for client_id, _ in unknown}
    for client_id, keys in keys_by_client.items():
        if ApiKey.METADATA in keys and keys <= _PREPARING_APIS and client_id not in without_topic:
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
