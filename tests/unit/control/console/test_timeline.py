"""The picture of a group's history."""

from __future__ import annotations

import pytest

from kafkalite.control.commands.explain import HistoryEntry
from kafkalite.control.console.source import Commit, MemberAssignment, TransactionMoment
from kafkalite.control.console.timeline import (
    MAX_MEMBERS,
    WIDTH,
    Lane,
    Scale,
    Timeline,
    timeline_of,
    transaction_timeline,
)

T = 1_700_000_000_000


def entry(number: int, kind: str, at: int, text: str = "", **facts: object) -> HistoryEntry:
    return HistoryEntry(
        number=number, group="g", transactional_id=None, topic=None, client=None, kind=kind,
        text=text or kind, facts=facts, times=1, first_ms=T + at, first_iso="", at_ms=T + at,
        at_iso="", members=(),
    )  # fmt: skip


def picture(
    *entries: HistoryEntry, present: tuple[str, ...] = (), commits: tuple[Commit, ...] = ()
) -> Timeline:
    found = timeline_of(
        entries,
        texts={each.number: each.text for each in entries},
        names={"m": "client"},
        present=present,
        commits=commits,
        now_ms=T + 100_000,
    )
    assert found is not None
    return found


def lane(timeline: Timeline, label: str) -> Lane:
    (found,) = (each for each in timeline.lanes if each.label == label)
    return found


def test_distances_grow_less_than_times() -> None:
    scale = Scale([0, 1_000, 1_000_000])
    first, second, last = scale.x(0), scale.x(1_000), scale.x(1_000_000)
    assert 0 < first < second < last < WIDTH
    assert last - second < 3 * (second - first)
    assert scale.x(-5) == first
    assert scale.x(2_000_000) == last
    assert second < scale.x(500_000) < last


def test_one_moment_is_no_division_by_zero() -> None:
    scale = Scale([5])
    assert scale.x(5) == scale.x(6)


def test_a_member_is_in_the_group_from_its_join_to_its_end() -> None:
    found = picture(
        entry(1, "joined", 0, member_id="m"),
        entry(2, "joined", 10, member_id="n"),
        entry(3, "left", 5_000, member_id="m"),
        present=("n",),
    )
    gone, stays = lane(found, "client"), lane(found, "n")
    assert (gone.note, stays.note) == ("gone", "")
    (short,), (long,) = gone.bars, stays.bars
    assert short.x < long.x
    assert short.x + short.width < long.x + long.width
    assert [mark.kind for mark in gone.marks] == ["joined", "left"]
    assert "until now" in long.title


def test_a_lane_has_the_partitions_of_its_member() -> None:
    entries = [
        entry(1, "joined", 0, member_id="m"),
        entry(2, "joined", 100_000, member_id="n"),
        entry(3, "left", 400_000, member_id="m"),
    ]
    had = [
        MemberAssignment(T, "m", 1, {"orders": (0, 1, 2, 5)}),
        MemberAssignment(T + 50_000, "m", 2, {"orders": (0, 1, 2, 5)}),
        MemberAssignment(T + 100_000, "m", 3, {}),
        MemberAssignment(T + 200_000, "m", 4, {"orders": (1,), "pay": (0,)}),
        MemberAssignment(T + 200_000, "other", 4, {"orders": (9,)}),
    ]
    found = timeline_of(
        entries,
        texts={each.number: each.text for each in entries},
        names={},
        present=("n",),
        commits=(),
        now_ms=T + 900_000,
        assignments=had,
    )
    assert found is not None
    member, first, second = lane(found, "m").bars
    assert {first.kind, second.kind} == {"assignment"}
    assert first.title.startswith("orders 0-2 5 from ")
    assert first.title.endswith("epoch 1")
    assert second.title.startswith("orders 1, pay 0 from ")
    assert first.x + first.width < second.x
    assert second.x + second.width == pytest.approx(member.x + member.width)
    assert "orders 0-2 5".startswith(first.label.removesuffix("…"))
    assert len(lane(found, "n").bars) == 1


@pytest.mark.parametrize("kind", ["left", "expired", "expelled", "reset"])
def test_a_member_that_returns_has_two_bars(kind: str) -> None:
    found = picture(
        entry(1, "joined", 0, member_id="m"),
        entry(2, kind, 1_000, member_id="m"),
        entry(3, "rejoined", 2_000, member_id="m"),
        present=("m",),
    )
    assert len(lane(found, "client").bars) == 2


def test_a_member_whose_join_is_forgotten_begins_before_the_first_entry() -> None:
    found = picture(entry(1, "rebalance", 0), present=("m",))
    (bar,) = lane(found, "client").bars
    assert bar.x == 0
    assert "before the first entry" in bar.title


def test_a_replaced_static_member_ends() -> None:
    found = picture(
        entry(1, "joined", 0, member_id="m"),
        entry(2, "rejoined", 1_000, member_id="n", replaces="m"),
        present=("n",),
    )
    assert lane(found, "client").note == "gone"


def test_generations_and_rebalances_are_bars() -> None:
    found = picture(
        entry(1, "rebalance", 0),
        entry(2, "generation", 100, generation=1, members=1),
        entry(3, "assigned", 200),
        entry(4, "rebalance", 5_000),
        entry(5, "generation", 5_100, generation=2, members=0),
        entry(6, "rebalance", 9_000, group_epoch=3),
    )
    assert [bar.title.split(" from")[0] for bar in found.epochs] == [
        "generation 1", "generation 2", "epoch 3",
    ]  # fmt: skip
    rebalances = [bar.title for bar in lane(found, "group").bars]
    assert rebalances == ["rebalance, 200 ms", "rebalance, 100 ms", "rebalance, not ended"]


def test_refusals_of_unknown_members_are_in_the_lane_of_the_group() -> None:
    found = picture(entry(1, "refused", 0, member_id="<made up>"), entry(2, "refused", 1))
    assert [mark.kind for mark in lane(found, "group").marks] == ["refused", "refused"]
    assert len(found.lanes) == 1
    assert "Refusals: 2" in found.summary


def test_commits_have_a_lane_for_each_partition() -> None:
    commits = (Commit("t", 0, 5, T + 10), Commit("t", 1, 7, T + 20), Commit("t", 0, 8, T + 30))
    found = picture(commits=commits)
    assert [mark.title.split(" ", 1)[1] for mark in lane(found, "t-0").marks] == [
        "t-0 committed 5", "t-0 committed 8",
    ]  # fmt: skip


def test_a_large_group_is_shown_in_part() -> None:
    present = tuple(f"m{number}" for number in range(MAX_MEMBERS + 5))
    found = picture(entry(1, "rebalance", 0), present=present)
    assert found.hidden_members == 5
    assert len(found.lanes) == 1 + MAX_MEMBERS


def test_states_of_a_transactional_id_are_bars() -> None:
    moments = [
        TransactionMoment(T, "Empty", 1, 0, 0),
        TransactionMoment(T + 1_000, "Ongoing", 1, 0, 2),
        TransactionMoment(T + 9_000, "CompleteAbort", 1, 1, 0),
    ]
    fenced = entry(1, "fenced", 9_000)
    found = transaction_timeline(moments, [fenced], texts={1: "why"}, now_ms=T + 50_000)
    assert found is not None
    states, events = found.lanes
    assert [bar.kind for bar in states.bars] == [
        "state empty", "state ongoing", "state completeabort",
    ]  # fmt: skip
    assert states.bars[0].x + states.bars[0].width == pytest.approx(states.bars[1].x, abs=0.02)
    assert [mark.title.split(" ", 1)[1] for mark in events.marks] == ["fenced: why"]
    assert [bar.label for bar in found.epochs] == ["0", "1"]
    assert transaction_timeline([], [], texts={}, now_ms=T) is None


def test_nothing_has_no_picture() -> None:
    assert timeline_of((), texts={}, names={}, present=(), commits=(), now_ms=T) is None


def test_of_many_members_those_that_are_present_and_the_latest_have_lanes() -> None:
    joined = [entry(number, "joined", number, member_id=f"m{number:02}") for number in range(50)]
    found = picture(*joined, present=("m00", "m01"))
    names = [each.label for each in found.lanes[1:]]
    assert names == ["m00", "m01", *(f"m{number}" for number in range(22, 50))]
    assert found.hidden_members == 20
    crowd = tuple(f"m{number:02}" for number in range(40))
    names = [each.label for each in picture(*joined, present=crowd).lanes[1:]]
    assert names == [*crowd[:30]]


def test_a_long_topic_leaves_room_for_the_partition() -> None:
    found = picture(commits=(Commit("t" * 200, 7, 1, T),))
    assert [each.label for each in found.lanes] == ["group", f"{'t' * 39}\u2026-7"]
