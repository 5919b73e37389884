"""Fault rules: parsing, JSON representation, and when they fire."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.config.typed_json import fields_of
from kafkalite.gateway.fault_rules import (
    MAX_DELAY_MS,
    Action,
    Disconnect,
    FaultError,
    FaultFields,
    Match,
    Rule,
    Trigger,
    describe_rule,
    parse_rule,
    rule_of,
    rule_to_json,
)
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

REFUSE = {"error": "NOT_ENOUGH_REPLICAS"}


def test_a_rule_is_parsed() -> None:
    body = {
        "match": {
            "api": "Produce",
            "topic": "orders",
            "client_id": "shop",
            "node": 1,
            "listener": "out",
        },
        "trigger": {"times": 1},
        "action": {"error": "NOT_ENOUGH_REPLICAS", "delay_ms": 500},
    }
    assert parse_rule(body) == Rule(
        Match(api=ApiKey.PRODUCE, topic="orders", client_id="shop", node=1, listener="OUT"),
        Trigger(times=1),
        Action(error=ErrorCode.NOT_ENOUGH_REPLICAS, delay_ms=500),
    )


def test_the_fields_of_python_are_those_of_json() -> None:
    parts = (Match, Trigger, Action)
    names = [field.name for part in parts for field in fields_of(part)]
    assert list(FaultFields.__annotations__) == names
    rule = rule_of({"group": "g", "nth": 2, "delay_ms": 5, "api": None})
    body = {"match": {"group": "g"}, "trigger": {"nth": 2}, "action": {"delay_ms": 5}}
    assert rule == parse_rule(body)
    with pytest.raises(FaultError, match="no field 'groups'; similar names are group"):
        rule_of({"groups": "g"})  # type: ignore[typeddict-unknown-key]


def test_only_the_action_is_required() -> None:
    assert parse_rule({"action": {"disconnect": True}}) == Rule(
        Match(), Trigger(), Action(disconnect=Disconnect.BEFORE)
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "a fault must be a JSON object with these fields: match, trigger, action"),
        ([], "a fault must be a JSON object"),
        ({}, "a fault needs an action"),
        ({"action": {}}, "action needs at least one of these: error, delay_ms, delay_max_ms"),
        ({"action": "no"}, "action must be a JSON object with these fields: error, delay_ms"),
        ({"action": REFUSE, "when": {}}, "a fault has no field 'when'"),
        ({"action": REFUSE, "match": {"topics": "a"}}, "match has no field 'topics'"),
        ({"action": REFUSE, "match": {"topic": 5}}, "match.topic must be text"),
        ({"action": REFUSE, "match": {"topic": ""}}, "match.topic must not be empty"),
        ({"action": REFUSE, "match": {"group": ["g"]}}, "match.group must be text"),
        ({"action": REFUSE, "match": {"node": True}}, "match.node must be a whole number from 0"),
        ({"action": REFUSE, "match": {"listener": 1}}, "match.listener must be text"),
        ({"action": REFUSE, "match": {"api": 0}}, "match.api must be the name of an API of Kafka"),
        ({"action": REFUSE, "match": {"api": "Produze"}}, "similar names are Produce"),
        ({"action": REFUSE, "match": {"api": "offset_commit"}}, "similar names are OffsetCommit"),
        ({"action": REFUSE, "match": {"api": "☃"}}, "'☃' is not an API of Kafka"),
        ({"action": {"error": "NONE"}}, "action.error 'NONE' is not an error of Kafka"),
        ({"action": {"error": "NOT_ENOUGH_REPLICA"}}, "similar names are NOT_ENOUGH_REPLICAS"),
        ({"action": {"error": 19}}, "action.error must be the name of an error of Kafka"),
        ({"action": {"delay_ms": 0}}, "action.delay_ms must be a whole number from 1 to 86400000"),
        ({"action": {"delay_ms": MAX_DELAY_MS + 1}}, "action.delay_ms must be a whole number"),
        ({"action": {"delay_ms": 1.5}}, "action.delay_ms must be a whole number"),
        ({"action": {"disconnect": False}}, 'action.disconnect must be true, "before" or "after"'),
        ({"action": {"disconnect": "now"}}, 'action.disconnect must be true, "before" or "after"'),
        (
            {"action": {"disconnect": True, **REFUSE}},
            "action must not have both error and disconnect",
        ),
        (
            {"action": REFUSE, "trigger": []},
            "trigger must be a JSON object with these fields: after",
        ),
        (
            {"action": REFUSE, "trigger": {"times": 0}},
            "trigger.times must be a whole number from 1",
        ),
        ({"action": REFUSE, "trigger": {"times": True}}, "trigger.times must be a whole number"),
        ({"action": REFUSE, "trigger": {"nth": 0}}, "trigger.nth must be a whole number from 1"),
        (
            {"action": REFUSE, "trigger": {"nth": 3, "times": 2}},
            "trigger.nth cannot be combined with other",
        ),
        (
            {"action": REFUSE, "trigger": {"every": "2"}},
            "trigger.every must be a whole number from 1",
        ),
        (
            {"action": REFUSE, "trigger": {"after": -1}},
            "trigger.after must be a whole number from 0",
        ),
        ({"action": REFUSE, "trigger": {"probability": 0}}, "trigger.probability must be a number"),
        (
            {"action": REFUSE, "trigger": {"probability": 1.1}},
            "trigger.probability must be a number",
        ),
        (
            json.loads('{"action": {"delay_ms": 1}, "trigger": {"probability": NaN}}'),
            "must be a number",
        ),
    ],
)
def test_an_invalid_rule_is_rejected_in_one_sentence(body: object, message: str) -> None:
    with pytest.raises(FaultError) as refused:
        parse_rule(body)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["Produce", "NOT_ENOUGH_REPLICAS", "after"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.text(max_size=3) | st.sampled_from(["match", "trigger", "action", "api", "topic", "nth",
                                               "times", "error", "delay_ms", "disconnect"]),
        inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(_JSON)
def test_any_json_is_a_rule_or_raises_fault_error(body: object) -> None:
    with contextlib.suppress(FaultError):
        rule = parse_rule(body)
        assert parse_rule(rule_to_json(rule)) == rule


@pytest.mark.parametrize(
    ("trigger", "fired"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7]),
        ({"times": 2}, [1, 2]),
        ({"after": 2}, [3, 4, 5, 6, 7]),
        ({"nth": 3}, [3]),
        ({"every": 3}, [3, 6]),
        ({"after": 1, "every": 2, "times": 2}, [3, 5]),
    ],
)
def test_a_trigger_fires_for_the_configured_requests(trigger: object, fired: list[int]) -> None:
    assert firings_of(trigger, 7) == fired


def firings_of(trigger: object, requests: int) -> list[int]:
    parsed = parse_rule({"action": REFUSE, "trigger": trigger}).trigger
    entropy = SeededEntropy(5)
    found: list[int] = []
    for number in range(1, requests + 1):
        if parsed.fires(number, len(found), entropy):
            found.append(number)
    return found


def test_probabilities_use_the_entropy_of_the_broker() -> None:
    fired = firings_of({"probability": 0.25}, 1_000)
    assert 200 < len(fired) < 300
    assert firings_of({"probability": 0.25}, 1_000) == fired


@pytest.mark.parametrize(
    ("action", "lowest", "highest", "mean"),
    [
        ({"delay_ms": 200}, 200, 200, 200),
        ({"delay_ms": 100, "delay_max_ms": 300}, 100, 300, 200),
        ({"delay": "200ms", "delay_deviation": "50ms"}, 0, 500, 200),
        ({"delay_ms": 1, "delay_deviation_ms": 1_000}, 0, MAX_DELAY_MS, 400),
    ],
)
def test_delays_follow_a_distribution(action: object, lowest: int, highest: int, mean: int) -> None:
    def delays(seed: int) -> list[int]:
        entropy, parsed = SeededEntropy(seed), parse_rule({"action": action}).action
        return [parsed.next_delay_ms(entropy) for _ in range(500)]

    drawn = delays(1)
    assert drawn == delays(1)
    assert lowest <= min(drawn) <= max(drawn) <= highest
    assert 0.9 * mean < sum(drawn) / len(drawn) < 1.1 * mean


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ({"delay_max_ms": 5}, "action.delay_max_ms needs delay_ms"),
        ({"delay_ms": 5, "delay_max_ms": 4}, "delay_max_ms must not be below"),
        (
            {"delay_ms": 5, "delay_max_ms": 6, "delay_deviation_ms": 1},
            "must not have both delay_max_ms and delay_deviation_ms",
        ),
        ({"answer": "late"}, "action.answer must be truncated, partial, corrupted, reordered or"),
        ({"answer": "corrupted_records", "hold": True}, "must not have hold or delay_ms"),
        ({"answer": "partial", "throttle_ms": 5}, "must not have both answer and throttle_ms"),
        ({"hold": True, "delay_ms": 1}, "both hold and delay_ms"),
        ({"late": True}, "late needs delay_ms or hold"),
        ({"late": True, "hold": True, "disconnect": "after"}, "disconnect is not after"),
        ({"error": "NOT_COORDINATOR", "lost": "answer"}, "both error and lost"),
        ({"twice": True, "disconnect": True}, "both disconnect and twice"),
        ({"lost": "both"}, 'must be "request" or "answer"'),
    ],
)
def test_contradictory_effects_are_refused(action: object, message: str) -> None:
    with pytest.raises(FaultError, match=message):
        parse_rule({"action": action})


def test_a_rule_is_shown_without_defaults() -> None:
    body = {
        "match": {"api": "OffsetCommit", "group": "g"},
        "trigger": {"nth": 3},
        "action": {"delay_ms": 20, "disconnect": "after"},
    }
    shape = rule_to_json(parse_rule(body))
    assert shape == {
        "match": {"api": "OffsetCommit", "group": "g"},
        "trigger": {"after": 2, "times": 1},
        "action": {"delay_ms": 20, "disconnect": "after"},
    }
    assert json.loads(json.dumps(shape)) == shape


def test_a_rule_is_described_in_one_line() -> None:
    rule = parse_rule({"match": {"topic": "a"}, "trigger": {"times": 1}, "action": REFUSE})
    assert describe_rule(rule) == "topic=a; times=1; error=NOT_ENOUGH_REPLICAS"
    assert describe_rule(parse_rule({"action": {"delay_ms": 5}})) == "delay_ms=5"
