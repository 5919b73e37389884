"""The time lines of groups: events, and the time of each member in its group."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kafkalite.lab.spark.report.formatting import MAX_EVENTS
from kafkalite.lab.spark.report.groups import groups

AT = datetime(2026, 1, 2, tzinfo=UTC)


def row(second: int, kind: str, *members: str, group: str = "shop") -> dict[str, Any]:
    return {
        "group_id": group, "number": second, "at": AT + timedelta(seconds=second), "kind": kind,
        "text": f"{kind} {second}", "member_ids": [*members], "clients": "web at 10.0.0.7",
    }  # fmt: skip


def test_a_member_has_a_lane_from_its_join_to_its_end() -> None:
    rows = [
        row(0, "joined", "one"),
        row(1, "rebalance", "one"),
        row(2, "joined", "two"),
        row(3, "refused", "one"),
        row(4, "expired", "one"),
        row(8, "rebalance", "two"),
    ]
    section = groups({"group_timelines": rows})
    (timeline,) = section.timelines
    assert timeline.title == "shop: 2 rebalances"
    assert [(each.at, each.kind, each.tone) for each in timeline.events][3:5] == [
        ("00:00:03.000", "refused", "bad"),
        ("00:00:04.000", "expired", "bad"),
    ]
    assert timeline.plot is not None
    lanes = timeline.plot.split('<div class="row">')[1:]
    assert [lane.count("box point warn") for lane in lanes] == [2, 0, 0]
    assert "left:0.00%;width:50.00%" in lanes[1]
    assert "box point bad" in lanes[1]
    assert "left:25.00%;width:75.00%" in lanes[2]


def test_groups_with_most_rebalances_come_first() -> None:
    rows = [row(1, "rebalance", group="calm")]
    rows += [row(each, "rebalance", group="wild") for each in range(MAX_EVENTS)]
    section = groups({"group_timelines": rows})
    assert section.headline.endswith("wild has most rebalances: 100.")
    assert [timeline.title for timeline in section.timelines] == [
        "wild: 100 rebalances (first 100 events)",
        "calm: 1 rebalance",
    ]


def test_no_group_has_no_time_line() -> None:
    assert groups({"group_timelines": []}).timelines == ()
