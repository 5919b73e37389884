"""ClusterMetadata: outdated Metadata responses are recognized by their epochs."""

from __future__ import annotations

import pytest

from kafkalite.client.cluster_metadata import (
    NO_METADATA,
    ClusterMetadata,
    PartitionMetadata,
    RequiredMetadata,
)
from kafkalite.client.epochs import Epochs
from kafkalite.protocol._generated.messages.metadata import MetadataResponse
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.client.scripted_client import AUDIT, NODES, ORDERS, metadata_response


def metadata(
    leader_epoch: int = 5,
    partition_epoch: int = 3,
    max_partition_epoch: int = 7,
    topic_id: bytes = b"a" * 16,
) -> ClusterMetadata:
    known = PartitionMetadata(1, leader_epoch, partition_epoch, topic_id)
    return ClusterMetadata(NODES, {ORDERS: known}, max_partition_epoch)


@pytest.mark.parametrize(
    ("response", "is_outdated"),
    [
        (metadata(), False),
        (metadata(max_partition_epoch=6), True),
        (metadata(max_partition_epoch=8), False),
        (metadata(partition_epoch=2), True),
        (metadata(partition_epoch=4, leader_epoch=0), False),
        (metadata(leader_epoch=4), True),
        (metadata(leader_epoch=6), False),
        # A broker without partition epochs is not compared with one that has them.
        (metadata(partition_epoch=-1, max_partition_epoch=-1, leader_epoch=4), False),
    ],
)
def test_a_response_with_smaller_epochs_is_outdated(
    response: ClusterMetadata,
    is_outdated: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert response.is_outdated(metadata()) is is_outdated
    assert response.is_outdated(metadata(), [ORDERS]) is is_outdated


def test_a_partition_that_is_not_of_interest_may_be_older() -> None:
    assert not metadata(leader_epoch=4).is_outdated(metadata(), [AUDIT])
    assert not metadata(leader_epoch=4).is_outdated(metadata(), [])


def test_the_maximum_partition_epoch_counts_for_all_partitions() -> None:
    """It shows that a topic was created or deleted meanwhile."""
    assert metadata(max_partition_epoch=6).is_outdated(metadata(), [AUDIT])
    without_partitions = ClusterMetadata(NODES, {}, 6)
    assert without_partitions.is_outdated(metadata())


def test_the_first_response_is_not_outdated() -> None:
    assert not metadata().is_outdated(NO_METADATA)
    assert not metadata(0, -1, -1).is_outdated(NO_METADATA)


def test_a_deleted_partition_is_not_outdated() -> None:
    assert not ClusterMetadata(NODES, {}, 8).is_outdated(metadata(), [ORDERS])


def test_leader_epochs_of_topics_with_different_ids_are_not_compared() -> None:
    """Kafka's brokers have no partition epochs; a new topic begins with leader epoch 0."""
    cached = metadata(5, -1, -1)
    assert metadata(4, -1, -1).is_outdated(cached)
    assert not metadata(0, -1, -1, topic_id=b"b" * 16).is_outdated(cached)


@pytest.mark.parametrize(
    ("required", "is_older"),
    [
        (Epochs(5, 3), False),
        (Epochs(6, 3), True),
        (Epochs(0, 4), True),
        (Epochs(9, 2), False),
        (Epochs(), False),
    ],
)
def test_metadata_must_be_as_new_as_the_epochs_of_an_offset(
    required: Epochs,
    is_older: bool,  # noqa: FBT001 - a column of the table
) -> None:
    older = metadata().partitions_older_than(
        {ORDERS: RequiredMetadata(required), AUDIT: RequiredMetadata(Epochs(1, 1))}
    )
    assert older == ({ORDERS} if is_older else set())


def test_a_response_is_parsed_without_topics_that_have_errors() -> None:
    response = metadata_response(
        leader=2, leader_epoch=5, partition_epoch=3, max_partition_epoch=7, topic_id=b"a" * 16
    )
    response.topics.append(
        MetadataResponse.MetadataResponseTopic(
            name="audit", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    )
    parsed = ClusterMetadata.parse(response)
    assert parsed.brokers == NODES
    assert parsed.partitions == {ORDERS: PartitionMetadata(2, 5, 3, b"a" * 16)}
    assert parsed.max_partition_epoch == 7


@pytest.mark.parametrize(
    ("required", "partition_epoch", "is_other"),
    [
        (RequiredMetadata(Epochs(6), b"b" * 16), -1, True),
        (RequiredMetadata(Epochs(6, 3), b"b" * 16), -1, True),
        (RequiredMetadata(Epochs(6, 4), b"b" * 16), 3, False),  # partition epochs are comparable
        (RequiredMetadata(Epochs(6), b"a" * 16), -1, False),
        (RequiredMetadata(Epochs(6)), -1, False),  # the id is unknown
    ],
)
def test_without_partition_epochs_topic_ids_show_another_topic(
    required: RequiredMetadata,
    partition_epoch: int,
    is_other: bool,  # noqa: FBT001 - a column of the table
) -> None:
    known = metadata(partition_epoch=partition_epoch)
    assert known.partitions_of_other_topics({ORDERS: required}) == ({ORDERS} if is_other else set())
    assert known.partitions_older_than({ORDERS: required}) == (set() if is_other else {ORDERS})
