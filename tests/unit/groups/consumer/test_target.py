"""Target assignments: when the assignor may run, which one it is, and what it is told."""

from __future__ import annotations

import pytest

from kafkalite.groups.consumer.member import MemberMetadata
from kafkalite.groups.consumer.regex import ResolvedRegex
from kafkalite.groups.consumer.target import (
    compute_target,
    is_homogeneous,
    may_assign_now,
    preferred_assignor,
)
from tests.scenarios.group_world import image_of, topic_image


def member(
    *names: str, regex: str | None = "", assignor: str | None = None, instance: str | None = None
) -> MemberMetadata:
    return MemberMetadata(
        topic_names=frozenset(names),
        topic_regex=regex,
        server_assignor=assignor,
        instance_id=instance,
    )


@pytest.mark.parametrize(
    ("last_ms", "interval_ms", "now_ms", "may"),
    [
        (0, 1000, 5, True),
        (5000, 0, 10, True),
        (5000, 1000, 5999, False),
        (5000, 1000, 6000, True),
        (5000, 1000, 10, False),
    ],
    ids=["never ran", "no interval", "too soon", "interval over", "clock set back"],
)
def test_the_assignor_rests_between_two_runs(
    last_ms: int, interval_ms: int, now_ms: int, *, may: bool
) -> None:
    assert may_assign_now(last_ms, interval_ms, now_ms) is may


@pytest.mark.parametrize(
    ("votes", "elected"),
    [
        ([], "uniform"),
        ([None, None], "uniform"),
        (["range", None], "range"),
        (["range", "uniform", "range"], "range"),
        (["uniform", "range"], "range"),
    ],
    ids=["nobody", "nobody says", "one says", "most say", "a tie goes to the first name"],
)
def test_the_assignor_is_what_most_members_ask_for(votes: list[str | None], elected: str) -> None:
    members = [member(assignor=vote) for vote in votes]
    assert preferred_assignor(members, "uniform") == elected


def test_an_assignor_of_another_brokers_counts_for_nothing() -> None:
    members = [MemberMetadata(server_assignor=name) for name in ("theirs", "theirs", "range")]
    assert preferred_assignor(members, "uniform") == "range"
    assert preferred_assignor(members[:2], "uniform") == "uniform"


@pytest.mark.parametrize(
    ("members", "alike"),
    [
        ([], True),
        ([member("a", "b"), member("b", "a")], True),
        ([member("a"), member("b")], False),
        ([member(regex="a.*"), member(regex="a.*")], True),
        ([member(regex="a.*"), member(regex="b.*")], False),
        ([member("a", regex=None), member("a", regex="")], True),
        ([member("a", regex="b"), member("a", regex="b")], False),
    ],
    ids=["empty", "names", "other names", "regex", "other regexes", "no regex", "names and regex"],
)
def test_subscriptions_are_alike_by_names_or_by_one_expression(
    members: list[MemberMetadata], *, alike: bool
) -> None:
    assert is_homogeneous({str(number): each for number, each in enumerate(members)}) is alike


def test_expressions_count_as_what_they_were_resolved_to_and_missing_topics_as_nothing() -> None:
    image = image_of(topic_image("a", 2), topic_image("b", 1))
    targets = compute_target(
        "range",
        {"m": member("a", "missing"), "n": member(regex="b.*"), "o": member(regex="unresolved")},
        {},
        {"b.*": ResolvedRegex(topics=frozenset({"b"}))},
        image,
    )
    a, b = image.topics["a"].topic_id, image.topics["b"].topic_id
    assert targets == {"m": {a: frozenset({0, 1})}, "n": {b: frozenset({0})}, "o": {}}


def test_what_a_member_was_to_have_before_stays_with_it() -> None:
    image = image_of(topic_image("a", 4))
    a = image.topics["a"].topic_id
    members = {"m": member("a"), "n": member("a")}
    kept = compute_target("uniform", members, {"n": {a: frozenset({0, 1})}}, {}, image)
    assert kept == {"m": {a: frozenset({2, 3})}, "n": {a: frozenset({0, 1})}}
