"""MemberTimers: removal of members by expired timers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.contract import CoordinatorResult, Event
from kafkalite.groups.consumer.events import REVOCATION_TIMED_OUT
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.member import CurrentAssignment, MemberMetadata
from kafkalite.groups.directory import GroupDirectory
from kafkalite.groups.modern.events import LEFT, SESSION_TIMED_OUT
from kafkalite.groups.modern.sessions import RebalanceExpiry, SessionExpiry, Sessions
from kafkalite.groups.modern.timers import MemberTimers, remove_members_result, with_response
from kafkalite.groups.share.group import ShareGroup
from kafkalite.ports.seeded_entropy import SeededEntropy
from tests.unit.groups.consumer.stage import image_of

if TYPE_CHECKING:
    from kafkalite.groups.modern.events import Departure

NOTHING: CoordinatorResult[None] = CoordinatorResult(None)


class Removals:
    """Timers of a directory with one group of one member, and the removals they cause."""

    def __init__(self) -> None:
        config = BrokerConfig.from_text({})
        self.directory = GroupDirectory(config=config, entropy=SeededEntropy(1), image=image_of({}))
        self.group = ConsumerGroup("g", self.directory)
        self.group.replay_member_metadata("m", MemberMetadata())
        self.group.replay_current("m", CurrentAssignment(member_epoch=3))
        self.directory.groups["g"] = self.group
        self.directory.groups["other"] = ShareGroup("other")
        self.sessions = Sessions(SessionExpiry)
        self.seen: list[tuple[str, Departure]] = []
        self.timers = MemberTimers(
            self.directory, ConsumerGroup, self.sessions, self._remove, REVOCATION_TIMED_OUT
        )

    def _remove(
        self, group: ConsumerGroup, member_id: str, going: Departure, now_ms: int
    ) -> CoordinatorResult[None]:
        assert (group, now_ms) == (self.group, 50)
        self.seen.append((member_id, going))
        return NOTHING


def test_only_groups_of_the_type_are_processed() -> None:
    removals = Removals()
    assert list(removals.timers.groups()) == [removals.group]


def test_an_extended_session_does_not_expire() -> None:
    removals = Removals()
    removals.sessions.start("g", "m", 40)
    removals.sessions.try_extend("g", "m", 60)
    result = removals.timers.expire_session(SessionExpiry("g", "m"), 50)
    assert [timer.key for timer in result.timers] == [SessionExpiry("g", "m")]
    assert removals.seen == []
    removals.sessions.start("g", "m", 50)
    removals.timers.expire_session(SessionExpiry("g", "m"), 50)
    assert removals.seen == [("m", SESSION_TIMED_OUT)]


@pytest.mark.parametrize(("group_id", "member_id"), [("g", "x"), ("other", "m"), ("none", "m")])
def test_a_removed_member_is_not_removed_again(group_id: str, member_id: str) -> None:
    removals = Removals()
    assert removals.timers.expire_session(SessionExpiry(group_id, member_id), 50) == NOTHING
    expiry = RebalanceExpiry(group_id, member_id, 3)
    assert removals.timers.expire_rebalance(expiry, 50) == NOTHING
    assert removals.seen == []


@pytest.mark.parametrize(("epoch", "removed"), [(3, [("m", REVOCATION_TIMED_OUT)]), (2, [])])
def test_a_rebalance_timeout_removes_a_member_at_the_same_epoch(
    epoch: int, removed: list[tuple[str, Departure]]
) -> None:
    removals = Removals()
    removals.timers.expire_rebalance(RebalanceExpiry("g", "m", epoch), 50)
    assert removals.seen == removed


def test_a_removal_is_recorded_and_raises_the_group_epoch() -> None:
    removals = Removals()
    event = Event("g", "left", "member m was removed", {})
    removed = remove_members_result(
        removals.group, LEFT, {"m": event}, records=[], timers=[], now_ms=50
    )
    first, second = removed.events
    assert first is event
    assert second.text == "group epoch 1 → 2: member m was removed"
    departure = removals.group.ownership().departure("m")
    assert departure is not None
    assert (departure.reason, departure.at_ms) == (LEFT.reason, 50)
    assert with_response(removed, "done") == removed._replace(response="done")  # type: ignore[arg-type]
