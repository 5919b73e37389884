"""Incidents in groups: members and epochs afterwards, also after their logs are loaded again."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kafkalite.groups import incidents
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.consumers import ConsumerCluster, G


@pytest.fixture
def cluster() -> ConsumerCluster:
    return ConsumerCluster(config={"group.consumer.assignment.interval.ms": "0"})


def decide(cluster: ConsumerCluster, decision: Any, **arguments: Any) -> Any:  # noqa: ANN401
    """Run a decision about the group on its shard."""
    (shard,) = cluster.groups.shards()
    return shard.write(partial(decision, group_id=G, cause="a test", **arguments))


def state(cluster: ConsumerCluster) -> tuple[object, ...]:
    group = cluster.group()
    return (group.epoch, group.target_epoch, group.members, group.current, group.target)


def test_only_expelled_members_that_exist_leave_and_the_others_get_their_partitions(
    cluster: ConsumerCluster,
) -> None:
    first = cluster.epoch("a")
    cluster.beat("b")
    expelled = decide(cluster, incidents.expel, member_ids=("b", "x"))
    assert expelled == ["b"]
    assert list(cluster.group().members) == ["a"]
    assert cluster.events("expelled")[-1].text == "member b removed: expelled by a test"
    before = state(cluster)
    cluster.restart()
    assert state(cluster) == before
    assert cluster.epoch("a", first) > first


@pytest.mark.parametrize("keeps_previous", [True, False])
def test_a_member_that_does_not_know_its_epoch_may_send_a_heartbeat_at_the_previous_one(
    cluster: ConsumerCluster, *, keeps_previous: bool
) -> None:
    epoch = cluster.epoch("a")
    owned = {"t": range(4)}
    assert decide(cluster, incidents.raise_epoch, member_id="a", keeps_previous=keeps_previous)
    before = state(cluster)
    cluster.restart()
    assert state(cluster) == before
    assert cluster.commit("a", epoch, ("t", 0)) == [ErrorCode.STALE_MEMBER_EPOCH]
    answer = cluster.beat("a", epoch, owned)
    if keeps_previous:
        assert (answer.error_code, answer.member_epoch) == (0, cluster.group().epoch)
    else:
        assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert cluster.given(cluster.beat("a")) == {"t": [0, 1, 2, 3]}


def test_a_member_that_revokes_partitions_keeps_its_epoch(cluster: ConsumerCluster) -> None:
    epoch = cluster.epoch("a")
    cluster.beat("b")
    cluster.beat("a", epoch, {"t": range(4)})
    before = state(cluster)
    assert not decide(cluster, incidents.raise_epoch, member_id="a", keeps_previous=False)
    assert not decide(cluster, incidents.raise_epoch, member_id="x", keeps_previous=False)
    assert state(cluster) == before


def test_an_assignor_that_has_to_run_still_has_to_after_a_raised_epoch(
    cluster: ConsumerCluster,
) -> None:
    epoch = cluster.epoch("a")
    assert decide(cluster, incidents.begin_rebalance)
    assert decide(cluster, incidents.begin_rebalance)  # it has begun
    assert cluster.group().epoch == epoch + 1
    assert decide(cluster, incidents.raise_epoch, member_id="a", keeps_previous=True)
    assert cluster.group().epoch == cluster.group().target_epoch + 1
    assert cluster.epoch("a", epoch, {"t": range(4)}) == cluster.group().epoch


def test_a_group_without_members_does_not_rebalance(cluster: ConsumerCluster) -> None:
    assert not decide(cluster, incidents.begin_rebalance)
    cluster.beat("a")
    cluster.beat("a", -1)
    assert not decide(cluster, incidents.begin_rebalance)
