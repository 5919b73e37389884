"""Subscriptions by regular expression: validation, resolution and refresh."""

from __future__ import annotations

import pytest

from kafkalite.groups.consumer.regex import check_regex, hide_topics, resolve
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.unit.groups.consumer.stage import Stage, assigned_partitions

INTERVAL_MS = 10_001


def test_an_expression_matches_whole_names() -> None:
    resolved = resolve(["a.*b", "x", "["], ["ab", "axb", "abc", "x", "xx"], 7, 1)
    assert resolved["a.*b"].topics == {"ab", "axb"}
    assert resolved["x"].topics == {"x"}
    assert resolved["["].topics == frozenset()
    assert (resolved["x"].version, resolved["x"].timestamp_ms) == (7, 1)


def test_expressions_in_batches_match_like_single_ones() -> None:
    """Batches are a hundred times faster, so that the event loop is not blocked."""
    topics = [f"t{number}" for number in range(40)]
    regexes = [f"t{number}.*" for number in range(250)] + [".*", "[", "nothing", r"\pL{20}\d+"]
    resolved = resolve(regexes, topics, 7, 1)
    assert list(resolved) == regexes
    for regex in regexes:
        assert resolved[regex] == resolve([regex], topics, 7, 1)[regex]
    assert resolved["t1.*"].topics == {"t1", *(f"t1{digit}" for digit in range(10))}
    assert resolved[".*"].topics == set(topics)


@pytest.mark.parametrize(
    "regex", ["((a{1000}){1000}){1000}", r"(\pN+|\pL+){1000}", "a{0,1000}{0,1000}"]
)
def test_a_too_large_expression_is_refused(regex: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_regex(regex)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_an_expression_with_exponential_backtracking_is_fast() -> None:
    regex = "(a+)+(a+)+(a+)+$"
    assert resolve([regex], ["a" * 249, "a" * 248 + "b"], 7, 1)[regex].topics == {"a" * 249}


@pytest.mark.parametrize("regex", ["(", "a{2000}", r"(a)\1", "(?=look)"])
def test_syntax_unknown_to_re2_is_refused(regex: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KafkaError) as refused:
        check_regex(regex)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert capfd.readouterr().err == ""


def test_the_first_response_has_no_topics_of_an_expression() -> None:
    stage = Stage({"foo1": 1, "foo2": 1, "bar": 1})
    response = stage.join("A", None, regex="foo.*")
    assert (response.member_epoch, assigned_partitions(response)) == (1, {})
    stage.advance(0)
    assert stage.group.resolved_regexes["foo.*"].topics == {"foo1", "foo2"}
    response = stage.beat("A", 1)
    assert (response.member_epoch, assigned_partitions(response)) == (2, {"foo1": [0], "foo2": [0]})
    assert stage.group.is_subscribed_to("foo1")
    assert not stage.group.is_subscribed_to("bar")


def test_names_and_expressions_are_combined() -> None:
    stage = Stage({"foo": 1, "bar": 1})
    assert assigned_partitions(stage.join("A", ["bar"], regex="foo")) == {"bar": [0]}
    stage.advance(INTERVAL_MS)
    assert assigned_partitions(stage.beat("A", 2)) == {"bar": [0], "foo": [0]}


def test_a_second_subscriber_uses_the_resolved_expression() -> None:
    stage = Stage({"foo": 2}, config={"group.consumer.assignment.interval.ms": "0"})
    stage.join("A", None, regex="foo")
    stage.advance(0)
    stage.beat("A", 1)
    assert stage.join("B", None, regex="foo").member_epoch == 3


def test_expressions_are_resolved_at_most_every_ten_seconds() -> None:
    stage = Stage({"foo1": 1}, config={"group.consumer.assignment.interval.ms": "0"})
    stage.join("A", None, regex="foo.*")
    stage.advance(0)
    stage.beat("A", 1)
    stage.change_topics({"foo1": 1, "foo2": 1})
    stage.beat("A", 2)
    stage.advance(0)
    assert assigned_partitions(stage.beat("A", 2)) is None
    stage.advance(INTERVAL_MS)
    stage.beat("A", 2)
    stage.advance(0)
    assert assigned_partitions(stage.beat("A", 2)) == {"foo1": [0], "foo2": [0]}


def test_deleted_topics_are_removed_at_the_next_refresh() -> None:
    stage = Stage({"foo1": 1, "foo2": 1}, config={"group.consumer.assignment.interval.ms": "0"})
    stage.join("A", None, regex="foo.*")
    stage.advance(0)
    stage.beat("A", 1)
    for _ in range(61):
        stage.advance(10_000)
        stage.beat("A", 2)
    stage.change_topics({"foo1": 1})
    assert assigned_partitions(stage.beat("A", 2)) == {"foo1": [0]}


def test_an_expression_without_subscribers_is_removed() -> None:
    stage = Stage({"foo": 1})
    stage.join("A", None, regex="foo")
    stage.advance(0)
    assert assigned_partitions(stage.beat("A", 1)) == {"foo": [0]}
    assert assigned_partitions(stage.beat("A", 2, regex="")) == {}
    assert stage.group.resolved_regexes == {}
    stage.beat("A", 2, regex="foo")
    stage.advance(0)
    stage.beat("A", -1)
    assert stage.group.resolved_regexes == {}
    assert not stage.group.regex_subscribers


def test_resolved_expressions_survive_a_restart() -> None:
    stage = Stage({"foo": 1})
    stage.join("A", None, regex="foo")
    stage.advance(0)
    stage.restart()
    assert assigned_partitions(stage.beat("A", 1)) == {"foo": [0]}


def test_topics_that_a_client_may_not_describe_are_hidden() -> None:
    resolved = resolve(["a.*", ".*b"], ["a", "ab", "b"], 7, 1)
    remaining, hidden = hide_topics(resolved, "a".__eq__)
    assert {regex: each.topics for regex, each in remaining.items()} == {
        "a.*": {"a"}, ".*b": set(),
    }  # fmt: skip
    assert {(each.version, each.timestamp_ms) for each in remaining.values()} == {(7, 1)}
    assert hidden == {"ab", "b"}
