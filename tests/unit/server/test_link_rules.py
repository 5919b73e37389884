"""Link rules: what is valid, their text, and the shape of several rules."""

from __future__ import annotations

import pytest

from kafkalite.config.typed_json import to_json
from kafkalite.server.link_rules import (
    UNCHANGED,
    Direction,
    LinkError,
    LinkRule,
    Shape,
    describe_link,
    parse_link,
)


def test_a_rule_is_parsed_and_printed_in_the_form_in_which_it_can_be_parsed_again() -> None:
    body = {"client_id": "shop-*", "node": 2, "direction": "in", "cut": True}
    rule = parse_link(body)
    assert rule == LinkRule(client_id="shop-*", node=2, direction=Direction.IN, cut=True)
    assert to_json(rule) == body
    assert describe_link(rule) == "client_id=shop-* node=2 direction=in cut=true"
    slow = parse_link({"latency": "50ms", "jitter": "2s", "bytes_per_second": 1000})
    assert describe_link(slow) == "latency_ms=50 jitter_ms=2000 bytes_per_second=1000"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "a link must be a JSON object with these fields: client_id"),
        ({}, "a link needs an effect: cut, half_open, latency_ms, jitter_ms or bytes_per_second"),
        ({"client": "a", "cut": True}, "a link has no field 'client'"),
        ({"cut": 1}, "cut must be true or false"),
        ({"cut": True, "direction": "up"}, "direction must be both, in or out, not 'up'"),
        ({"cut": True, "latency_ms": 5}, "cut cannot be combined with latency_ms"),
        ({"cut": True, "half_open": True}, "half_open cannot be combined with other effects"),
        ({"half_open": True, "direction": "in"}, "half_open has no direction"),
        ({"latency_ms": 0}, "latency_ms must be a whole number from 1"),
        ({"bytes_per_second": 0}, "bytes_per_second must be a whole number from 1"),
        ({"from_node": 1, "latency_ms": 5}, "links between nodes can only be cut"),
        ({"from_node": 1, "client_id": "a", "cut": True}, "cannot be combined with client_id"),
        ({"from_node": 1, "node": 1, "cut": True}, "a node has no link to itself"),
    ],
)
def test_an_invalid_rule_is_refused_in_one_sentence(body: object, message: str) -> None:
    with pytest.raises(LinkError, match=message):
        parse_link(body)


def test_the_effects_of_rules_add_up() -> None:
    slow = LinkRule(latency_ms=5, jitter_ms=1, bytes_per_second=20)
    rules = (slow, LinkRule(latency_ms=3), LinkRule(bytes_per_second=10, direction=Direction.IN))
    assert Shape.of(rules, Direction.IN) == Shape(False, 8, 1, 10)
    assert Shape.of(rules, Direction.OUT) == Shape(False, 8, 1, 20)
    assert Shape.of((*rules, LinkRule(cut=True)), Direction.OUT).is_cut
    assert Shape.of((), Direction.IN) == UNCHANGED


@pytest.mark.parametrize(
    ("direction", "affected"),
    [("both", (True, True)), ("in", (True, False)), ("out", (False, True))],
)
def test_a_rule_affects_its_direction(direction: str, affected: tuple[bool, bool]) -> None:
    rule = LinkRule(cut=True, direction=Direction(direction))
    assert (rule.affects(Direction.IN), rule.affects(Direction.OUT)) == affected
