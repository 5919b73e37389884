"""The share partitions of a cluster: begun once per leader, gone with topic, leader or session."""

from __future__ import annotations

import pytest

from kafkalite.coordinator.journal import Journal
from kafkalite.metadata.image import MetadataDelta
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.acquiring import Fetched, Wish
from kafkalite.shares.sessions import SessionKey, TopicPartition
from kafkalite.shares.settling import AckBatch
from kafkalite.shares.table import SharePartitions
from tests.unit.shares.share_world import KEY, ShareWorld

MEMBER = SessionKey("g", "a")


class Stage:
    """A table beside a share coordinator."""

    def __init__(self) -> None:
        self.world = ShareWorld({"group.share.delivery.count.limit": "3"})
        self.world.begin()
        self.table = SharePartitions(
            clock=self.world.clock,
            config=self.world.config,
            store=self.world.coordinator,
            journal=Journal(),
        )

    def begin(self, leader_epoch: int = 0) -> None:
        share = self.table.begin(KEY, name="t-0", leader_epoch=leader_epoch, choose_start=lambda: 0)
        assert self.table.find(KEY) is share

    def open_session(self, owner: object = None) -> None:
        place = TopicPartition(KEY.topic_id, KEY.partition)
        self.table.sessions(1).begin_fetch(
            MEMBER, 0, [(place, "t")], (), acknowledges=False, owner=owner
        )

    def take(self) -> int:
        share = self.table.find(KEY)
        assert share is not None
        fetched = Fetched([(0, 4)], share.window.next_fetch_offset())
        return share.acquire(fetched, Wish("a", 500, 500))[1]


def test_limits_are_the_groups() -> None:
    limits = Stage().table.limits("g")
    assert (limits.deliveries, limits.records, limits.lock_ms) == (3, 2000, 30_000)
    assert limits.allows_renewal


def test_what_a_group_leaves_is_no_other_groups() -> None:
    """Connections may end by the thousand, each with a thousand groups: only these are touched."""
    stage = Stage()
    me = object()
    other = SessionKey("h", "a")
    place = (TopicPartition(KEY.topic_id, KEY.partition), "t")
    for key in (MEMBER, other):
        share_key = KEY._replace(group_id=key.group_id)
        stage.world.begin(share_key)
        stage.table.begin(share_key, name="t-0", leader_epoch=0, choose_start=lambda: 0)
        stage.table.sessions(1).begin_fetch(key, 0, [place], (), acknowledges=False, owner=me)
    stage.table.end_sessions_of(1, me, "g")
    assert stage.table.find(KEY) is None
    assert stage.table.find(KEY._replace(group_id="h")) is not None
    assert (len(stage.table.sessions(1)), stage.table.sessions(1).has_group("h")) == (1, True)
    stage.table.end_sessions_of(1, me, "h")
    assert stage.table.find(KEY._replace(group_id="h")) is None
    stage.table.end_sessions_of(1, me, "h")
    assert len(stage.table.sessions(1)) == 0


def test_a_share_partition_is_begun_once_per_leader() -> None:
    stage = Stage()
    stage.begin()
    stage.take()
    stage.begin()
    assert stage.take() == 0
    stage.begin(leader_epoch=1)
    assert stage.take() == 5


def test_a_leader_that_was_replaced_lets_go() -> None:
    stage = Stage()
    stage.begin()
    stage.take()
    topic = stage.world.topics["t"]
    moved = topic._replace(
        partitions=tuple(each._replace(leader_epoch=1) for each in topic.partitions)
    )
    stage.table.on_image(stage.world.image, MetadataDelta())
    stage.table.on_image(stage.world.image, MetadataDelta(changed=(topic,)))
    assert stage.table.find(KEY) is not None
    stage.world.topics["t"] = moved
    stage.table.on_image(stage.world.image, MetadataDelta(changed=(moved,)))
    assert stage.table.find(KEY) is None


def test_a_topic_that_goes_takes_its_share_partitions_along() -> None:
    stage = Stage()
    stage.begin()
    deleted = stage.world.topics.pop("t")
    stage.table.on_image(stage.world.image, MetadataDelta(deleted=(deleted,)))
    assert stage.table.find(KEY) is None


@pytest.mark.parametrize(
    ("code", "is_dropped"),
    [(ErrorCode.NOT_LEADER_OR_FOLLOWER, True), (ErrorCode.INVALID_RECORD_STATE, False)],
)
def test_errors_that_say_another_leads_let_go(code: ErrorCode, *, is_dropped: bool) -> None:
    stage = Stage()
    stage.begin()
    stage.table.drop_after(KEY, KafkaError(code))
    assert (stage.table.find(KEY) is None) is is_dropped


def test_a_session_that_ends_gives_back_what_its_member_has() -> None:
    stage = Stage()
    stage.begin()
    stage.open_session()
    stage.take()
    stage.table.end_session(1, MEMBER)
    assert stage.take() == 5
    stage.table.end_session(1, MEMBER)


def test_a_session_whose_state_was_begun_anew_gives_back_nothing() -> None:
    stage = Stage()
    stage.begin()
    stage.open_session()
    stage.take()
    stage.world.begin(state_epoch=1)
    stage.table.end_session(1, MEMBER)
    assert stage.table.find(KEY) is None


def test_whoever_leaves_last_takes_the_share_partitions_along() -> None:
    stage = Stage()
    stage.begin()
    owner = object()
    stage.open_session(owner)
    stage.table.sessions(2).begin_fetch(
        SessionKey("g", "b"), 0, [], (), acknowledges=False, owner=owner
    )
    stage.table.end_sessions_of(1, owner, "g")
    assert stage.table.find(KEY) is not None
    stage.table.end_sessions_of(2, owner, "g")
    assert stage.table.find(KEY) is None


def test_stopping_lets_go_of_all() -> None:
    stage = Stage()
    stage.begin()
    share = stage.table.find(KEY)
    assert share is not None
    stage.take()
    share.acknowledge("a", [AckBatch(0, 4, [1])])
    stage.table.stop()
    assert stage.table.find(KEY) is None
    assert share.is_closed
