"""Group logs of any length for benchmarks, written without a coordinator.

The records and batches are the same as a coordinator would write: one batch per decision.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.consumer import consumer_group_records as consumer_records
from kafkalite.groups.consumer.member import CurrentAssignment, MemberMetadata
from kafkalite.groups.group import OffsetAndMetadata
from kafkalite.groups.offsets_topic_records import (
    group_metadata_record,
    offset_commit_record,
    written_version,
)
from kafkalite.protocol._generated.records.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from kafkalite.protocol._generated.records.group_metadata import GroupMetadataValue
from kafkalite.protocol.codec import encode_value
from kafkalite.storage.batch import BatchView, build_batch
from kafkalite.storage.record_format import NewRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.groups.group import Record
    from kafkalite.storage.log import Log

TOPIC = "orders"
TOPIC_ID = bytes(range(16))
NOW_MS = 1_700_000_000_000
_BATCHES_PER_APPEND = 500
_SESSION_MS = 1_800_000
_SUBSCRIPTION = encode_value(ConsumerProtocolSubscription(topics=[TOPIC]), 3)
_SERDE = CoordinatorSerde(written_version)


def batch_of(decision: Sequence[Record], now_ms: int = NOW_MS) -> bytes:
    """Return the batch of one decision."""
    return build_batch([NewRecord(*_SERDE.encode(record), now_ms) for record in decision])


def append(log: Log, batches: Iterator[bytes]) -> int:
    """Append batches to a log, and return the number of records."""
    count = 0
    while views := list(map(BatchView, itertools.islice(batches, _BATCHES_PER_APPEND))):
        log.append(views, leader_epoch=0, now_ms=NOW_MS)
        count += sum(view.record_count for view in views)
    return count


def commit(
    group_id: str, topic: str, partition: int, offset: int, topic_id: bytes = TOPIC_ID
) -> Record:
    """Return the record of a commit, as from current clients."""
    return offset_commit_record(
        group_id,
        topic,
        partition,
        OffsetAndMetadata(
            offset=offset,
            leader_epoch=0,
            commit_timestamp_ms=NOW_MS + offset,
            topic_id=topic_id,
        ),
    )


def simple_group(group_id: str, topic_id: bytes) -> Iterator[list[Record]]:
    """Yield the decisions of a group without members and with two committed offsets."""
    yield [commit(group_id, TOPIC, 0, 4_711, topic_id)]
    yield [commit(group_id, TOPIC, 1, 4_712, topic_id)]


def classic_group(group_id: str, topic_id: bytes) -> Iterator[list[Record]]:
    """Yield the decisions of a classic group of one member, which committed once."""
    member = GroupMetadataValue.MemberMetadata(
        member_id=f"consumer-{group_id}-1-{'0' * 36}",
        client_id="consumer",
        client_host="/127.0.0.1",
        rebalance_timeout=_SESSION_MS,
        session_timeout=_SESSION_MS,
        subscription=_SUBSCRIPTION,
        assignment=bytes(40),
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=member.member_id,
        current_state_timestamp=NOW_MS,
        members=[member],
    )
    yield [group_metadata_record(group_id, value)]
    yield [commit(group_id, TOPIC, 0, 4_711, topic_id)]


def consumer_group(group_id: str, topic_id: bytes) -> Iterator[list[Record]]:
    """Yield the decisions of a consumer group of one member, which committed once."""
    member_id = f"{group_id[-8:]:0>22}"
    owned = {topic_id: {0: 2, 1: 2}}
    metadata = MemberMetadata(
        client_id="consumer",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=_SESSION_MS,
        topic_names=frozenset((TOPIC,)),
    )
    yield [
        consumer_records.member_metadata_record(group_id, member_id, metadata),
        consumer_records.group_epoch_record(group_id, 2, 1),
        consumer_records.target_assignment_record(
            group_id, member_id, {topic_id: frozenset((0, 1))}
        ),
        consumer_records.target_epoch_record(group_id, 2, NOW_MS),
        consumer_records.current_assignment_record(
            group_id,
            member_id,
            CurrentAssignment(member_epoch=2, previous_member_epoch=0, assigned=owned),
        ),
    ]
    yield [commit(group_id, TOPIC, 0, 4_711, topic_id)]


KINDS = {
    "two commits": simple_group,
    "classic, a member, a commit": classic_group,
    "consumer, a member, a commit": consumer_group,
}
"""The kinds of idle groups, by their names in the table."""
