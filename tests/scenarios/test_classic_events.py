"""Scenarios: the history of classic groups, with the reasons of rebalances and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.groups.timestamps import time_of_day
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.scenarios.group_coordinator import (
    REBALANCE_MS,
    SESSION_MS,
    ManualGroupCoordinator,
    answered,
    subscription,
    topic_image,
    waits,
)

if TYPE_CHECKING:
    from kafkalite.coordinator.event_history import Entry


def rules(coordinator: ManualGroupCoordinator) -> list[object]:
    """Return the reason of each rebalance of the group."""
    return [each.facts["rule"] for each in coordinator.events("rebalance")]


def assert_names_its_client(entry: Entry) -> None:
    client_id, client_host = entry.facts["client_id"], entry.facts["client_host"]
    assert client_host
    assert entry.text.endswith(f", client {client_id} at {client_host}")


# Rebalances


def test_a_joining_member_is_the_reason_of_a_rebalance() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    coordinator.join()
    first, second = coordinator.events("rebalance")
    assert first.facts["state"] == "Empty"
    assert second.facts["rule"] == "new-member"
    assert (second.facts["generation"], second.facts["state"]) == (1, "Stable")
    assert second.facts["members"] == 2
    new_member = coordinator.events("joined")[-1].facts["member_id"]
    assert second.facts["triggered_by_members"] == [new_member]
    assert new_member != leader
    assert str(new_member) in second.text


def test_each_generation_has_its_members_and_the_removed_ones() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    new_member = coordinator.join()
    for _ in range(REBALANCE_MS // 5_000):
        coordinator.clock.advance(5_000)
        coordinator.heartbeat(leader, 1)
    joined = answered(new_member)
    recorded = coordinator.events("generation")[-1].facts
    assert recorded["generation"] == 2
    assert recorded["members"] == 1
    assert recorded["member_ids"] == [joined.member_id]
    assert recorded["leader"] == joined.member_id
    assert recorded["protocol"] == "range"
    assert recorded["removed_members"] == [leader]
    (expired,) = coordinator.events("expired")
    assert expired.facts["rule"] == "rebalance-timeout"
    assert expired.facts["member_id"] == leader
    assert_names_its_client(expired)


def test_a_leader_that_joins_again_is_the_reason_of_a_rebalance() -> None:
    coordinator = ManualGroupCoordinator()
    leader, _ = coordinator.stable(None, None)
    coordinator.join(leader)
    assert rules(coordinator)[-1] == "leader-rejoined"


def test_a_changed_subscription_is_the_reason_of_a_rebalance() -> None:
    coordinator = ManualGroupCoordinator(topics=[topic_image("t", 4), topic_image("u", 4)])
    _, follower = coordinator.stable(None, None)
    coordinator.join(follower, protocols={"range": subscription("u")})
    assert rules(coordinator)[-1] == "member-changed"


def test_a_leaving_member_is_the_reason_of_a_rebalance() -> None:
    coordinator = ManualGroupCoordinator()
    leader, _ = coordinator.stable(None, "two")
    coordinator.leave((leader, None), ("unknown", None))
    assert rules(coordinator)[-1] == "member-left"
    assert coordinator.events("rebalance")[-1].facts["triggered_by_members"] == [leader]
    (left,) = coordinator.events("left")
    assert left.facts["member_id"] == leader
    assert_names_its_client(left)
    assert coordinator.events("refused")[-1].facts["member_id"] == "unknown"


def test_an_expired_session_is_the_reason_of_a_rebalance() -> None:
    coordinator = ManualGroupCoordinator()
    leader, follower = coordinator.stable(None, None)
    coordinator.clock.advance(SESSION_MS - 1)
    coordinator.heartbeat(follower, 1)
    coordinator.clock.advance(1)
    assert rules(coordinator)[-1] == "session-timeout"
    (expired,) = coordinator.events("expired")
    assert expired.facts["member_id"] == leader
    assert expired.facts["timeout_ms"] == SESSION_MS
    assert_names_its_client(expired)
    assert expired.at_ms == coordinator.clock.now_ms()


def test_missing_syncs_are_the_reason_of_a_rebalance() -> None:
    coordinator = ManualGroupCoordinator()
    joins = [coordinator.join(session_ms=2 * REBALANCE_MS) for _ in range(2)]
    coordinator.clock.advance(0)
    leader, silent = [answered(join).member_id for join in joins]
    coordinator.sync(leader, 1, {})
    coordinator.clock.advance(REBALANCE_MS)
    assert rules(coordinator)[-1] == "sync-timeout"
    (expired,) = coordinator.events("expired")
    assert expired.facts["member_id"] == silent
    assert_names_its_client(expired)


def test_a_static_member_that_returns_before_its_sync_triggers_a_rebalance() -> None:
    """The coordinator still waits for the sync of the replaced member id, as in Kafka."""
    coordinator = ManualGroupCoordinator()
    joins = [
        coordinator.join(instance=name, session_ms=2 * REBALANCE_MS) for name in ("one", "two")
    ]
    coordinator.clock.advance(0)
    leader, follower = [answered(join).member_id for join in joins]
    coordinator.sync(leader, 1, {}, instance="one")
    back = answered(coordinator.join("", instance="two", session_ms=2 * REBALANCE_MS))
    coordinator.sync(back.member_id, 1, instance="two")
    coordinator.clock.advance(REBALANCE_MS - 1)
    assert coordinator.state() == "Stable"
    coordinator.clock.advance(1)
    assert rules(coordinator)[-1] == "sync-timeout"
    assert coordinator.events("rebalance")[-1].facts["triggered_by_members"] == [follower]
    assert (
        coordinator.heartbeat(back.member_id, 1, instance="two") is ErrorCode.REBALANCE_IN_PROGRESS
    )


def test_the_return_of_a_static_member_is_recorded() -> None:
    coordinator = ManualGroupCoordinator()
    _, follower = coordinator.stable("one", "two")
    back = answered(coordinator.join("", instance="two"))
    assert rules(coordinator) == ["new-member"], "it makes no rebalance"
    recorded = coordinator.events("joined")[-1].facts
    assert recorded["replaced"] == follower
    assert recorded["member_id"] == back.member_id
    coordinator.join("", instance="two", protocols={"sticky": b"", "range": b""})
    coordinator.join("", instance="one", protocols={"sticky": b"", "range": b""})
    assert rules(coordinator)[-1] == "static-member-changed"


def test_a_group_that_is_too_large_after_loading_is_recorded() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.stable(None, None, None)
    smaller = ManualGroupCoordinator(
        {"group.max.size": "2"}, MemoryCoordinatorLog(coordinator.log.entries)
    )
    assert rules(smaller) == ["group.max.size"]


def test_an_assignment_that_cannot_be_stored_is_the_reason_of_a_rebalance() -> None:
    coordinator = ManualGroupCoordinator()
    join = coordinator.join()
    coordinator.clock.advance(0)
    member_id = answered(join).member_id
    coordinator.log.next_error = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        coordinator.sync(member_id, 1, {})
    assert coordinator.state() == "PreparingRebalance"


def test_the_reason_of_a_client_is_quoted() -> None:
    """KIP-800."""
    coordinator = ManualGroupCoordinator()
    coordinator.stable(None)
    join = coordinator.join(reason="need to\nrevoke " + "x" * 1_000)
    assert waits(join)
    text = coordinator.events("rebalance")[-1].text
    assert "need to" in text
    assert len(text) < 600


def test_heartbeats_are_not_recorded() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    recorded = len(coordinator.events())
    for _ in range(100):
        coordinator.clock.advance(1_000)
        coordinator.heartbeat(leader, 1)
        coordinator.commit({("t", 0): 1}, member_id=leader, generation=1)
    assert len(coordinator.events()) == recorded


# Refusals


def test_a_heartbeat_with_another_generation_has_a_reason() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    since_ms = coordinator.clock.now_ms()
    coordinator.clock.advance(3)
    assert coordinator.heartbeat(leader, 7) is ErrorCode.ILLEGAL_GENERATION
    (refused,) = coordinator.events("refused")
    assert refused.facts == {
        "error": "ILLEGAL_GENERATION",
        "rule": "generation",
        "action": "heartbeat",
        "member_id": leader,
        "received_generation": 7,
        "group_generation": 1,
        "state": "Stable",
        "state_since_ms": since_ms,
    }
    assert f"Stable since {time_of_day(since_ms)}" in refused.text


def test_repeated_refusals_are_counted() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    for _ in range(5):
        coordinator.clock.advance(10)
        coordinator.heartbeat(leader, 7)
    (refused,) = coordinator.events("refused")
    assert refused.times == 5


def test_a_fenced_static_member_has_the_replacing_member_in_the_reason() -> None:
    coordinator = ManualGroupCoordinator()
    _, follower = coordinator.stable("one", "two")
    back = answered(coordinator.join("", instance="two"))
    assert coordinator.heartbeat(follower, 1, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    (fenced,) = coordinator.events("fenced")
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
def test_a_refused_commit_has_a_reason(claim: dict[str, object], rule: str) -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.stable(None)
    with pytest.raises(KafkaError) as refusal:
        coordinator.commit({("t", 0): 1}, **claim)  # type: ignore[arg-type]
    assert refusal.value.facts is not None
    assert refusal.value.facts["rule"] == rule
    assert refusal.value.facts["action"] == "offset commit"
    assert refusal.value.message is not None
    assert refusal.value.message.startswith("offset commit")


def test_a_commit_during_a_rebalance_has_the_start_of_the_rebalance() -> None:
    coordinator = ManualGroupCoordinator()
    join = coordinator.join()
    coordinator.clock.advance(0)
    member_id = answered(join).member_id
    with pytest.raises(KafkaError) as refusal:
        coordinator.commit({("t", 0): 1}, member_id=member_id, generation=1)
    assert refusal.value.facts is not None
    assert refusal.value.facts["rule"] == "rebalance"
    assert refusal.value.facts["state_since_ms"] == coordinator.clock.now_ms()


def test_refused_joins_have_the_violated_rule() -> None:
    coordinator = ManualGroupCoordinator({"group.max.size": "1"})
    coordinator.stable(None)
    answered(coordinator.join())
    answered(coordinator.join("unknown", group="none"))
    assert coordinator.events("refused")[-1].facts["rule"] == "group.max.size"
    assert coordinator.events("refused", group="none")[-1].facts["rule"] == "member-id"
    other = ManualGroupCoordinator()
    other.stable(None)
    answered(other.join(protocol_type="connect"))
    assert other.events("refused")[-1].facts["rule"] == "protocols"


def test_a_deletion_has_the_number_of_deleted_offsets() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.commit({("t", 0): 1, ("t", 1): 2})
    coordinator.shard.write(lambda machine, _: machine.offsets.delete("g", [("t", 0), ("t", 3)]))
    coordinator.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    first, second = coordinator.events("deleted")
    assert (first.facts["rule"], first.facts["offsets"]) == ("OffsetDelete", 1)
    assert (second.facts["rule"], second.facts["offsets"]) == ("DeleteGroups", 1)
    assert second.text == "group g with 1 offset deleted by DeleteGroups"


def test_a_refused_deletion_of_a_group_with_members_has_a_reason() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.stable(None)
    with pytest.raises(KafkaError) as refusal:
        coordinator.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    assert refusal.value.facts == {
        "rule": "empty-group",
        "action": "deletion of the group",
        "state": "Stable",
        "members": 1,
    }


# The initial rebalance delay


def test_an_expired_member_id_ends_the_initial_delay_if_no_other_is_pending() -> None:
    coordinator = ManualGroupCoordinator({"group.initial.rebalance.delay.ms": "20000"})
    join = coordinator.join()
    coordinator.join(knows_ids=True)
    coordinator.clock.advance(SESSION_MS - 1)
    assert waits(join)
    coordinator.clock.advance(1)
    assert answered(join).generation_id == 1
    assert coordinator.events("expired")[0].facts["rule"] == "pending-join"


def test_a_leaving_member_does_not_end_the_initial_delay() -> None:
    coordinator = ManualGroupCoordinator({"group.initial.rebalance.delay.ms": "20000"})
    join = coordinator.join()
    recorded = answered(coordinator.join(knows_ids=True))
    coordinator.leave((recorded.member_id, None))
    coordinator.clock.advance(19_999)
    assert waits(join)
    coordinator.clock.advance(1)
    assert answered(join).generation_id == 1


def test_a_failed_static_replacement_is_reverted() -> None:
    """If the record of the replacement cannot be appended, the old process remains the member."""
    coordinator = ManualGroupCoordinator()
    _, follower = coordinator.stable("one", "two")
    coordinator.log.next_error = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        coordinator.join("", instance="two")
    coordinator.log.next_error = None
    assert coordinator.heartbeat(follower, 1, instance="two") is ErrorCode.NONE
    assert answered(coordinator.sync(follower, 1, instance="two")).assignment == follower.encode()
    coordinator.clock.advance(SESSION_MS)
    assert coordinator.state() == "Empty"


def test_a_group_that_cannot_record_its_empty_state_is_empty() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    coordinator.log.next_error = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        coordinator.leave((leader, None))
    coordinator.log.next_error = None
    assert coordinator.state() == "Empty"
    assert coordinator.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    again = coordinator.restarted()
    assert again.state() == "Stable", "the log knows no better, until a session later"
    again.clock.advance(SESSION_MS)
    assert again.state() == "Empty"
