"""Scenarios: what classic groups tell of themselves, so that somebody can ask why."""

from __future__ import annotations

import pytest

from kafkalite.groups.moments import time_of_day
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.scenarios.group_world import (
    REBALANCE_MS,
    SESSION_MS,
    GroupWorld,
    answered,
    subscription,
    topic_image,
    waits,
)


def rules(world: GroupWorld) -> list[object]:
    """Return why the group rebalanced, each time."""
    return [each.facts["rule"] for each in world.events("rebalance")]


# Rebalances


def test_a_newcomer_is_the_reason() -> None:
    world = GroupWorld()
    (leader,) = world.stable(None)
    world.join()
    first, second = world.events("rebalance")
    assert first.facts["state"] == "Empty"
    assert second.facts["rule"] == "new-member"
    assert (second.facts["generation"], second.facts["state"]) == (1, "Stable")
    assert second.facts["members"] == 2
    newcomer = world.events("joined")[-1].facts["member_id"]
    assert second.facts["because_of"] == [newcomer]
    assert newcomer != leader
    assert str(newcomer) in second.text


def test_each_generation_tells_who_is_in_and_who_was_dropped() -> None:
    world = GroupWorld()
    (leader,) = world.stable(None)
    newcomer = world.join()
    for _ in range(REBALANCE_MS // 5_000):
        world.clock.advance(5_000)
        world.heartbeat(leader, 1)
    joined = answered(newcomer)
    told = world.events("generation")[-1].facts
    assert told["generation"] == 2
    assert told["members"] == [joined.member_id]
    assert told["leader"] == joined.member_id
    assert told["protocol"] == "range"
    assert told["dropped"] == [leader]


def test_a_leader_that_joins_again_is_the_reason() -> None:
    world = GroupWorld()
    leader, _ = world.stable(None, None)
    world.join(leader)
    assert rules(world)[-1] == "leader-rejoined"


def test_a_changed_subscription_is_the_reason() -> None:
    world = GroupWorld(topics=[topic_image("t", 4), topic_image("u", 4)])
    _, follower = world.stable(None, None)
    world.join(follower, protocols={"range": subscription("u")})
    assert rules(world)[-1] == "member-changed"


def test_who_leaves_is_the_reason() -> None:
    world = GroupWorld()
    leader, _ = world.stable(None, "two")
    world.leave((leader, None), ("stranger", None))
    assert rules(world)[-1] == "member-left"
    assert world.events("rebalance")[-1].facts["because_of"] == [leader]
    (left,) = world.events("left")
    assert left.facts["member_id"] == leader
    assert world.events("refused")[-1].facts["member_id"] == "stranger"


def test_a_session_that_ends_is_the_reason() -> None:
    world = GroupWorld()
    leader, follower = world.stable(None, None)
    world.clock.advance(SESSION_MS - 1)
    world.heartbeat(follower, 1)
    world.clock.advance(1)
    assert rules(world)[-1] == "session-timeout"
    (expired,) = world.events("expired")
    assert expired.facts["member_id"] == leader
    assert expired.facts["timeout_ms"] == SESSION_MS
    assert expired.at_ms == world.clock.now_ms()


def test_syncs_that_do_not_come_are_the_reason() -> None:
    world = GroupWorld()
    joins = [world.join(session_ms=2 * REBALANCE_MS) for _ in range(2)]
    world.clock.advance(0)
    leader, silent = [answered(join).member_id for join in joins]
    world.sync(leader, 1, {})
    world.clock.advance(REBALANCE_MS)
    assert rules(world)[-1] == "sync-timeout"
    assert world.events("expired")[-1].facts["member_id"] == silent


def test_a_static_member_that_comes_back_before_its_sync_costs_a_rebalance() -> None:
    """The sync of the id that was replaced is still awaited, in Kafka as well."""
    world = GroupWorld()
    joins = [world.join(instance=name, session_ms=2 * REBALANCE_MS) for name in ("one", "two")]
    world.clock.advance(0)
    leader, follower = [answered(join).member_id for join in joins]
    world.sync(leader, 1, {}, instance="one")
    back = answered(world.join("", instance="two", session_ms=2 * REBALANCE_MS))
    world.sync(back.member_id, 1, instance="two")
    world.clock.advance(REBALANCE_MS - 1)
    assert world.state() == "Stable"
    world.clock.advance(1)
    assert rules(world)[-1] == "sync-timeout"
    assert world.events("rebalance")[-1].facts["because_of"] == [follower]
    assert world.heartbeat(back.member_id, 1, instance="two") is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_static_member_that_comes_back_is_told_of() -> None:
    world = GroupWorld()
    _, follower = world.stable("one", "two")
    back = answered(world.join("", instance="two"))
    assert rules(world) == ["new-member"], "it makes no rebalance"
    told = world.events("joined")[-1].facts
    assert told["replaced"] == follower
    assert told["member_id"] == back.member_id
    world.join("", instance="two", protocols={"sticky": b"", "range": b""})
    world.join("", instance="one", protocols={"sticky": b"", "range": b""})
    assert rules(world)[-1] == "static-member-changed"


def test_a_group_that_was_loaded_too_large_tells_so() -> None:
    world = GroupWorld()
    world.stable(None, None, None)
    smaller = GroupWorld({"group.max.size": "2"}, MemoryCoordinatorLog(world.log.entries))
    assert rules(smaller) == ["group.max.size"]


def test_an_assignment_that_cannot_be_recorded_is_the_reason() -> None:
    world = GroupWorld()
    join = world.join()
    world.clock.advance(0)
    member_id = answered(join).member_id
    world.log.fails_with = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        world.sync(member_id, 1, {})
    assert world.state() == "PreparingRebalance"


def test_the_reason_of_a_client_is_quoted() -> None:
    """KIP-800."""
    world = GroupWorld()
    world.stable(None)
    join = world.join(reason="need to\nrevoke " + "x" * 1_000)
    assert waits(join)
    text = world.events("rebalance")[-1].text
    assert "need to" in text
    assert len(text) < 600


def test_steady_groups_tell_nothing() -> None:
    world = GroupWorld()
    (leader,) = world.stable(None)
    told = len(world.events())
    for _ in range(100):
        world.clock.advance(1_000)
        world.heartbeat(leader, 1)
        world.commit({("t", 0): 1}, member_id=leader, generation=1)
    assert len(world.events()) == told


# Refusals


def test_a_heartbeat_of_another_generation_is_explained() -> None:
    world = GroupWorld()
    (leader,) = world.stable(None)
    since_ms = world.clock.now_ms()
    world.clock.advance(3)
    assert world.heartbeat(leader, 7) is ErrorCode.ILLEGAL_GENERATION
    (refused,) = world.events("refused")
    assert refused.facts == {
        "error": "ILLEGAL_GENERATION",
        "rule": "generation",
        "action": "heartbeat",
        "member_id": leader,
        "generation": 7,
        "group_generation": 1,
        "state": "Stable",
        "since_ms": since_ms,
    }
    assert f"Stable since {time_of_day(since_ms)}" in refused.text


def test_the_same_refusal_is_counted_not_told_again() -> None:
    world = GroupWorld()
    (leader,) = world.stable(None)
    for _ in range(5):
        world.clock.advance(10)
        world.heartbeat(leader, 7)
    (refused,) = world.events("refused")
    assert refused.times == 5


def test_a_process_whose_place_was_taken_is_told_by_whom() -> None:
    world = GroupWorld()
    _, follower = world.stable("one", "two")
    back = answered(world.join("", instance="two"))
    assert world.heartbeat(follower, 1, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    (fenced,) = world.events("fenced")
    assert fenced.facts["owner"] == back.member_id
    assert fenced.facts["group_instance_id"] == "two"


@pytest.mark.parametrize(
    ("claim", "rule"),
    [
        ({"member_id": "x", "generation": 1}, "member-id"),
        ({"member_id": "x", "instance": "i-9"}, "group-instance-id"),
        ({"generation": -1}, "member-id"),
    ],
)
def test_a_refused_commit_brings_its_reason_along(claim: dict[str, object], rule: str) -> None:
    world = GroupWorld()
    world.stable(None)
    with pytest.raises(KafkaError) as refusal:
        world.commit({("t", 0): 1}, **claim)  # type: ignore[arg-type]
    assert refusal.value.facts is not None
    assert refusal.value.facts["rule"] == rule
    assert refusal.value.facts["action"] == "offset commit"
    assert refusal.value.message is not None
    assert refusal.value.message.startswith("offset commit")


def test_a_commit_in_the_middle_of_a_rebalance_says_since_when() -> None:
    world = GroupWorld()
    join = world.join()
    world.clock.advance(0)
    member_id = answered(join).member_id
    with pytest.raises(KafkaError) as refusal:
        world.commit({("t", 0): 1}, member_id=member_id, generation=1)
    assert refusal.value.facts is not None
    assert refusal.value.facts["rule"] == "rebalance"
    assert refusal.value.facts["since_ms"] == world.clock.now_ms()


def test_joins_that_are_refused_say_which_rule_it_was() -> None:
    world = GroupWorld({"group.max.size": "1"})
    world.stable(None)
    answered(world.join())
    answered(world.join("stranger", group="none"))
    assert world.events("refused")[-1].facts["rule"] == "group.max.size"
    assert world.events("refused", group="none")[-1].facts["rule"] == "member-id"
    other = GroupWorld()
    other.stable(None)
    answered(other.join(protocol_type="connect"))
    assert other.events("refused")[-1].facts["rule"] == "protocols"


def test_deleting_tells_how_much_went() -> None:
    world = GroupWorld()
    world.commit({("t", 0): 1, ("t", 1): 2})
    world.shard.write(lambda machine, _: machine.offsets.delete("g", [("t", 0), ("t", 3)]))
    world.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    first, second = world.events("deleted")
    assert (first.facts["rule"], first.facts["offsets"]) == ("OffsetDelete", 1)
    assert (second.facts["rule"], second.facts["offsets"]) == ("DeleteGroups", 1)
    assert second.text == "group g and 1 offset(s) of it deleted by DeleteGroups"


def test_deleting_a_group_with_members_is_explained() -> None:
    world = GroupWorld()
    world.stable(None)
    with pytest.raises(KafkaError) as refusal:
        world.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    assert refusal.value.facts == {
        "rule": "empty-group",
        "action": "deletion of the group",
        "state": "Stable",
        "members": 1,
    }


# The first delay


def test_an_id_that_expires_ends_the_first_delay_when_nobody_else_is_awaited() -> None:
    world = GroupWorld({"group.initial.rebalance.delay.ms": "20000"})
    join = world.join()
    world.join(knows_ids=True)
    world.clock.advance(SESSION_MS - 1)
    assert waits(join)
    world.clock.advance(1)
    assert answered(join).generation_id == 1
    assert world.events("expired")[0].facts["rule"] == "pending-join"


def test_who_leaves_does_not_end_the_first_delay() -> None:
    world = GroupWorld({"group.initial.rebalance.delay.ms": "20000"})
    join = world.join()
    told = answered(world.join(knows_ids=True))
    world.leave((told.member_id, None))
    world.clock.advance(19_999)
    assert waits(join)
    world.clock.advance(1)
    assert answered(join).generation_id == 1


def test_a_place_taken_in_vain_is_given_back() -> None:
    """The record of who came back could not be appended: the old process is still the member."""
    world = GroupWorld()
    _, follower = world.stable("one", "two")
    world.log.fails_with = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        world.join("", instance="two")
    world.log.fails_with = None
    assert world.heartbeat(follower, 1, instance="two") is ErrorCode.NONE
    assert answered(world.sync(follower, 1, instance="two")).assignment == follower.encode()
    world.clock.advance(SESSION_MS)
    assert world.state() == "Empty"


def test_a_group_that_cannot_record_being_empty_is_empty_all_the_same() -> None:
    world = GroupWorld()
    (leader,) = world.stable(None)
    world.log.fails_with = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        world.leave((leader, None))
    world.log.fails_with = None
    assert world.state() == "Empty"
    assert world.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    again = world.restarted()
    assert again.state() == "Stable", "the log knows no better, until a session later"
    again.clock.advance(SESSION_MS)
    assert again.state() == "Empty"
