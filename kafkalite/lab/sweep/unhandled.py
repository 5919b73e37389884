"""Unhandled errors: refused records and commits that a run never made up for, and expelled members.

A record is lost if it was refused, or lost with its connection, if no log has it although the
command has succeeded, and if the logs have fewer records than after a run without a failure. So a
program may write a record with another content or to another topic instead, such as one for dead
letters.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.reading.messages import error_name
from kafkalite.lab.checker.fetched_batches import UnreadableBatchesError, batches_of, topic_of
from kafkalite.lab.sweep.final_state import Anomaly, call
from kafkalite.lab.sweep.requests import Partition
from kafkalite.ports.texts import count_text
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalite.gateway.exchanges import Exchange
    from kafkalite.server.broker import Broker as ServerBroker
    from kafkalite.storage.batch import BatchView
    from kafkalite.testing.broker import Broker

UNHANDLED: Final = "unhandled error"
EXPELLED: Final = "expelled member"
_EXPIRED: Final = "expired"
"""The kind of event of a member that the broker removes after a timeout."""
_MEMBER: Final = "member_id"
_LOST: Final = "lost with the connection"
_WRITTEN: Final = frozenset((ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER))


def record_count(cluster: Broker) -> int:
    """Return the sum of the offsets at the ends of all logs, without those of internal topics."""

    def count(broker: ServerBroker) -> int:
        assert broker.cluster is not None
        topics = broker.cluster.metadata.image.topics.values()
        own = {topic.name for topic in topics if not topic.is_internal}
        logs = broker.cluster.partitions.logs()
        return sum(log.end_offset for (topic, _), log in logs.items() if topic in own)

    found: int = call(cluster, count)
    return found


def lost_records(
    cluster: Broker, exchanges: Iterable[Exchange], usual_count: int
) -> Iterator[Anomaly]:
    """Yield the records that a command did not write, although it has succeeded.

    `usual_count` is the number of records after a run without a failure.
    """
    refused = [*_refused_batches(exchanges)]
    if not refused or record_count(cluster) >= usual_count:
        return
    topics = {partition.topic for partition, _, _, _ in refused}
    written = {
        (each.topic, each.key, each.value)
        for topic in topics & set(cluster.topics())
        for each in cluster.records(topic, isolation="read_uncommitted")
    }
    lost: Counter[tuple[Partition, str, str]] = Counter()
    for partition, client, reason, view in refused:
        lost[partition, client, reason] += sum(
            (partition.topic, each.key, each.value) not in written for each in view.records()
        )
    for (partition, client, reason), count in lost.items():
        if count:
            text = f"{count_text(count, 'record')} of {client} to {partition}"
            yield Anomaly(
                UNHANDLED, f"{text}: {reason}, and never written, but the command succeeded"
            )


def _refused_batches(
    exchanges: Iterable[Exchange],
) -> Iterator[tuple[Partition, str, str, BatchView]]:
    """Yield each batch that was not acknowledged: its partition, client and reason."""
    for exchange in exchanges:
        if exchange.api_key != ApiKey.PRODUCE or exchange.request is None:
            continue
        codes = _codes(exchange)
        for topic in exchange.request.topic_data:
            for row in topic.partition_data:
                code = codes.get((topic_of(topic), row.index))
                if code in _WRITTEN:
                    continue
                name = _name_of(exchange, topic_of(topic))
                reason = _LOST if code is None else f"refused with {error_name(code)}"
                client = exchange.client_id or "a client without id"
                try:
                    views = batches_of(row.records)
                except UnreadableBatchesError:
                    continue
                for view in views if name is not None else ():
                    yield Partition(name or "", row.index), client, reason, view


def _codes(exchange: Exchange) -> Mapping[tuple[Any, int], int]:
    """Return the error codes in the answer to a Produce request, by topic and partition."""
    response = exchange.response
    return {
        (topic_of(topic), row.index): row.error_code
        for topic in (() if response is None else response.responses)
        for row in topic.partition_responses
    }


def _name_of(exchange: Exchange, topic: str | bytes) -> str | None:
    if isinstance(topic, str):
        return topic
    known = exchange.node.image.topics_by_id.get(topic)
    return None if known is None else known.name


def notes_of(cluster: Broker, exchanges: Iterable[Exchange]) -> Iterator[str]:
    """Yield what correct programs cause, too: refused commits without later ones, expelled members.

    A member is expelled if the broker removes it because it sent nothing in time.
    """
    committed: dict[str, Mapping[tuple[str, int], int]] = {}
    refused: dict[tuple[str, str, int], tuple[int, int]] = {}
    for group, topic, index, offset, code in _refused_commits(exchanges):
        refused[group, topic, index] = (offset, code)
    for (group, topic, index), (offset, code) in refused.items():
        if group not in committed:
            committed[group] = _committed(cluster, group)
        at = committed[group].get((topic, index), 0)
        if at < offset:
            yield (
                f"{UNHANDLED}: group {group} got {error_name(code)} for its commit of offset "
                f"{offset} of {topic}-{index}, and has committed {at} at the end"
            )
    for each in cluster.explain():
        is_of_member = each.group is not None and _MEMBER in each.facts
        if each.kind == _EXPIRED and is_of_member:
            yield f"{EXPELLED}: {each.text}"


def _committed(cluster: Broker, group: str) -> Mapping[tuple[str, int], int]:
    try:
        return cluster.committed(group)
    except ValueError:  # the group is deleted
        return {}


def _refused_commits(exchanges: Iterable[Exchange]) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield group, topic, partition, offset and error code of each refused commit."""
    for exchange in exchanges:
        request, response = exchange.request, exchange.response
        if exchange.api_key != ApiKey.OFFSET_COMMIT or request is None or response is None:
            continue
        offsets = {
            (topic_of(topic), row.partition_index): row.committed_offset
            for topic in request.topics
            for row in topic.partitions
        }
        for topic in response.topics:
            for row in topic.partitions:
                key = topic_of(topic), row.partition_index
                name = _name_of(exchange, key[0])
                if row.error_code and key in offsets and name is not None:
                    yield request.group_id, name, key[1], offsets[key], row.error_code
