"""Intents of share groups: partitions get share state, and the group records it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.share_persister import NoSharePersister
from kafkalite.config.broker import NO_SHARE_PERSISTER, SHARE_PERSISTER
from kafkalite.groups.share.intents import InitializeShareState, SharePartitionInitialization
from kafkalite.metadata.internal_topics import SHARE_STATE_TOPIC
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.state import LeaderState, ShareKey, ShareSummary
from tests.cluster.share_groups import ShareGroupCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[ShareGroupCluster]:
    wire = ShareGroupCluster(tmp_path)
    yield wire
    wire.end()


def intent_for(topic_id: bytes, *partitions: int, epoch: int = 9, start: int = 7) -> object:
    return InitializeShareState(
        "g",
        tuple(SharePartitionInitialization(topic_id, index, epoch, start) for index in partitions),
    )


def test_partitions_get_share_state_and_the_group_records_it(wire: ShareGroupCluster) -> None:
    topic_id = wire.create("t", 2)
    wire.beat(topics=["t"])
    assert len(wire.cluster.outbox) == 0
    shares = wire.cluster.shares
    assert [shares.summary("g", topic_id, index).state_epoch for index in range(2)] == [2, 2]
    (row,) = wire.beat(epoch=2).assignment.topic_partitions
    assert row.partitions == [0, 1]


def test_a_failed_initialization_is_retried(
    wire: ShareGroupCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = wire.create("t", 2)

    def refuse(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    monkeypatch.setattr(wire.cluster.shares, "initialize_state", refuse)
    wire.beat(topics=["t"])
    assert len(wire.cluster.outbox) == 1
    wire.clock.advance(500)
    assert len(wire.cluster.outbox) == 1
    assert wire.beat(epoch=2).assignment is None
    monkeypatch.undo()
    wire.clock.advance(1_000)
    assert len(wire.cluster.outbox) == 0
    assert wire.beat(epoch=2).assignment is not None
    assert wire.cluster.shares.summary("g", topic_id, 1).state_epoch == 2


def test_existing_share_state_is_not_initialized_again(wire: ShareGroupCluster) -> None:
    """An intent may be carried out again after it succeeded."""
    topic_id = wire.create("t")
    wire.beat(topics=["t"])
    wire.cluster.shares.read_state(ShareKey("g", topic_id, 0), leader_epoch=3)
    wire.cluster.outbox.carry_out(intent_for(topic_id, 0))
    summary = wire.cluster.shares.summary("g", topic_id, 0)
    assert (summary.state_epoch, summary.leader_epoch, summary.start_offset) == (2, 3, -1)


def test_nothing_is_initialized_for_deleted_groups_and_topics(wire: ShareGroupCluster) -> None:
    topic_id = wire.create("t")
    wire.cluster.shares.ensure_topic()
    wire.cluster.outbox.carry_out(intent_for(topic_id, 0))
    assert wire.cluster.shares.summary("g", topic_id, 0).state_epoch == 0
    wire.beat(topics=["later"])
    wire.cluster.outbox.carry_out(intent_for(bytes(16), 0))
    assert len(wire.cluster.outbox) == 0
    wire.cluster.outbox.carry_out(intent_for(topic_id, 0))
    assert wire.cluster.shares.summary("g", topic_id, 0).start_offset == 7


@pytest.mark.parametrize("name", ["", NO_SHARE_PERSISTER])
def test_no_state_is_stored_with_an_empty_class(tmp_path: Path, name: str) -> None:
    wire = ShareGroupCluster(tmp_path, config={SHARE_PERSISTER: name})
    topic_id = wire.create("t", 2)
    wire.beat(topics=["t"])
    (row,) = wire.beat(epoch=2).assignment.topic_partitions
    assert row.partitions == [0, 1]
    persister = wire.cluster.nodes[1].share_persister
    key = ShareKey("g", topic_id, 0)
    assert isinstance(persister, NoSharePersister)
    assert persister.read_state(key, 5) == LeaderState(0, -1, ())
    assert persister.summaries("g", {topic_id: [0]}) == {key: ShareSummary(0, 0, -1, -1)}
    assert persister.delete("g", {topic_id: [0]}) == {}
    assert SHARE_STATE_TOPIC not in wire.cluster.metadata.image.topics
    wire.end()
