"""Target assignments: selection and input of the assignor."""

from __future__ import annotations

import pytest

from kafkalite.groups.consumer.member import MemberMetadata
from kafkalite.groups.consumer.regex import ResolvedRegex
from kafkalite.groups.consumer.target import (
    compute_target,
    is_homogeneous,
    preferred_assignor,
)
from tests.scenarios.group_coordinator import image_of, topic_image


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
    ("votes", "elected"),
    [
        ([], "uniform"),
        ([None, None], "uniform"),
        (["range", None], "range"),
        (["range", "uniform", "range"], "range"),
        (["uniform", "range"], "range"),
    ],
    ids=[
        "no members",
        "no request",
        "one requests",
        "most request",
        "a tie goes to the first name",
    ],
)
def test_the_assignor_requested_by_most_members_is_used(
    votes: list[str | None], elected: str
) -> None:
    members = [member(assignor=vote) for vote in votes]
    assert preferred_assignor(members, "uniform") == elected


def test_an_unknown_assignor_is_ignored() -> None:
    members = [MemberMetadata(server_assignor=name) for name in ("theirs", "theirs", "range")]
    assert preferred_assignor(members, "uniform") == "range"
    assert preferred_assignor(members[:2], "uniform") == "uniform"


@pytest.mark.parametrize(
    ("members", "expected"),
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
def test_subscriptions_are_homogeneous_by_names_or_by_one_expression(
    members: list[MemberMetadata], *, expected: bool
) -> None:
    assert is_homogeneous({str(number): each for number, each in enumerate(members)}) is expected


def test_targets_use_resolved_topics_and_omit_missing_ones() -> None:
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


def test_a_member_retains_its_previous_target() -> None:
    image = image_of(topic_image("a", 4))
    a = image.topics["a"].topic_id
    members = {"m": member("a"), "n": member("a")}
    retained = compute_target("uniform", members, {"n": {a: frozenset({0, 1})}}, {}, image)
    assert retained == {"m": {a: frozenset({2, 3})}, "n": {a: frozenset({0, 1})}}
