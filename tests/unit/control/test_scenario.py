"""Scenarios: what a file means, the positions of its errors, and its expectations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator, ValidationError

from kafkalite.control.commands.requests import ExpectRequests
from kafkalite.control.openapi import json_schema
from kafkalite.control.positioned_yaml import MAX_BYTES
from kafkalite.control.scenario import (
    Scenario,
    ScenarioError,
    parse_scenario,
    read_scenario,
    scenario_text,
)
from kafkalite.gateway.fault_rules import parse_rule
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.server.link_rules import LinkRule
from kafkalite.server.settings import Settings
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path

FAULT = {
    "match": {"api": "Produce", "topic": "orders"},
    "trigger": {"times": 1},
    "action": {"error": "NOT_ENOUGH_REPLICAS"},
}
TEXT = f"""\
start:
  brokers: 2
  topics: {{orders: 3}}
  config: {{auto.create.topics.enable: false}}
  node_config: {{2: {{broker.rack: b}}}}
  as_version: "4.4"
seed: 42
clock: manual@2026-03-01T12:00:00Z
faults:
- {json.dumps(FAULT)}
links:
- {{client_id: audit-*, cut: true}}
expect:
  all_faults_fired: true
  requests:
  - {{api: Produce, topic: orders, at_least: 2}}
"""


def test_a_scenario_is_read_and_printed_in_the_form_in_which_it_is_read() -> None:
    scenario = parse_scenario(TEXT)
    assert scenario.faults == (parse_rule(FAULT),)
    assert scenario.links == (LinkRule(client_id="audit-*", cut=True),)
    expected = ExpectRequests(api=ApiKey.PRODUCE, topic="orders", at_least=2)
    assert scenario.expect.requests == (expected,)
    assert (scenario.seed, scenario.start.node_config) == (42, {"2": {"broker.rack": "b"}})
    assert parse_scenario(scenario_text(scenario)) == scenario
    assert parse_scenario("") == parse_scenario(scenario_text(Scenario()))
    assert scenario_text(parse_scenario("")) == scenario_text(Scenario())


def test_options_have_precedence_and_topics_and_settings_are_merged() -> None:
    scenario = parse_scenario(TEXT)
    settings = scenario.settings(Settings())
    assert settings.config == {"auto.create.topics.enable": "false"}
    assert (settings.brokers, settings.topics, settings.seed) == (2, {"orders": 3}, 42)
    assert (settings.as_version, settings.request_log) == ("4.4", 10_000)
    assert settings.node_config == {2: {"broker.rack": "b"}}
    given = Settings(
        brokers=3,
        seed=1,
        topics={"orders": 1, "audit": 1},
        config={"log.retention.hours": "1"},
        node_config={2: {"log.retention.hours": "2"}, 1: {"broker.rack": "a"}},
    )
    merged = scenario.settings(given)
    assert (merged.brokers, merged.seed) == (3, 1)
    assert merged.topics == {"orders": 1, "audit": 1}
    assert merged.config == {"auto.create.topics.enable": "false", "log.retention.hours": "1"}
    assert merged.node_config == {
        2: {"broker.rack": "b", "log.retention.hours": "2"},
        1: {"broker.rack": "a"},
    }
    assert scenario.clock_mode("real") == "manual@2026-03-01T12:00:00Z"
    assert scenario.clock_mode("accelerated:60") == "accelerated:60"
    assert Scenario().clock_mode("real") == "real"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "1:1: a scenario must be a JSON object"),
        (
            "fault: []",
            "1:1: a scenario has no field 'fault'; its fields are start, state, seed, clock",
        ),
        ("start:\n  topic: {a: 1}", "2:3: start has no field 'topic'; its fields are brokers"),
        ("start: {topics: {a: 0}}", "1:8: a must be a whole number from 1, not 0"),
        ("start: {node_config: {a: {}}}", "1:22: node_config 'a' must be the id of a node"),
        ("start: {topics: {a: 1, 'b c': 1}}", "1:31: Topic name is invalid: 'b c'"),
        ("start: {topics: [a]}", "1:17: topics must be an object, not ['a']"),
        ("start: {config: {no.such: 1}}", "1:27: Unknown configuration no.such"),
        ("start:\n  as_version: '9.9'", "2:15: as-version '9.9' is not one of '3.3'"),
        ("seed: 1\nclock: manuel", "2:8: 'manuel' is not a mode: the modes are real, manual"),
        ("seed: x", "1:7: seed must be a whole number from 0"),
        ("faults: 3", "1:9: faults must be a list, not 3"),
        ("faults:\n- {}", "2:3: a fault needs an action"),
        ("faults:\n- match:\n    api: Produze\n  action: {lost: answer}", "3:10: match.api 'Prod"),
        ("links:\n- {cut: true}\n- {cut: true, direction: up}", "3:26: direction must be both"),
        ("links:\n- {}", "2:3: a link needs an effect"),
        ("expect:\n  fired: true", "2:3: expect has no field 'fired'"),
        ("expect: {requests: [{api: Produce, tims: 1}]}", "1:36: an expectation has no field 'ti"),
        ("expect: {requests: [{times: 1, never: true}]}", "1:21: an expectation takes one of"),
    ],
)
def test_an_error_has_line_and_column(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        parse_scenario(text, "s.yaml")
    assert str(refused.value).startswith(f"s.yaml:{message}")
    assert "\n" not in str(refused.value)


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    with pytest.raises(ScenarioError, match=r"s\.yaml: No such file"):
        read_scenario(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ScenarioError, match=r"s\.yaml: no UTF-8 at byte 0"):
        read_scenario(path)
    path.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(ScenarioError, match="a scenario has at most 1048576 bytes"):
        read_scenario(path)


def test_the_schema_accepts_what_the_reader_accepts() -> None:
    validator = Draft202012Validator(json_schema(Scenario))
    Draft202012Validator.check_schema(validator.schema)
    validator.validate(
        {
            "start": {"topics": {"orders": 3}, "config": {"a": 1}},
            "faults": [FAULT, {"action": {"delay": "2s"}}],
            "links": [{"latency": "5ms"}],
            "expect": {"requests": [{"api": "Produce"}]},
        }
    )
    invalid: list[dict[str, object]] = [
        {"fault": []},
        {"faults": [{"match": {}}]},
        {"start": {"topics": {"a": "b"}}},
    ]
    for each in invalid:
        with pytest.raises(ValidationError):
            validator.validate(each)


def test_a_broker_begins_with_a_scenario_and_checks_its_expectations(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT)
    broker = Broker(scenario=path)
    with pytest.raises(AssertionError, match=r"(?s)fault f1 never fired.*expected"), broker:
        check_beginning(broker)
    with pytest.raises(RuntimeError, match="not running"):
        broker.faults.list()


def check_beginning(broker: Broker) -> None:
    assert broker.topic("orders").partitions[2].end_offset == 0
    assert broker.clock.now_ms() == 1_772_366_400_000
    assert [each.rule for each in broker.faults.list()] == [parse_rule(FAULT)]
    assert [each.rule.client_id for each in broker.links.list()] == ["audit-*"]
    broker.faults.add(group="g", delay_ms=5)
    present = parse_scenario(broker.scenario_text())
    assert [each.match.group for each in present.faults] == [None, "g"]
    assert present.expect == parse_scenario(TEXT).expect


def test_an_exception_of_a_block_is_not_replaced_by_unmet_expectations(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT)
    with pytest.raises(LookupError), Broker(scenario=path):
        raise LookupError


def test_met_expectations_and_a_rule_that_fits_no_cluster(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("expect: {all_faults_fired: true, requests: [{api: Fetch, never: true}]}")
    with Broker(scenario=path) as broker:
        broker.check_scenario()
    path.write_text("links:\n- {cut: true}\n- {node: 9, cut: true}")
    with pytest.raises(ScenarioError, match="yaml:3:10: node: there is no node 9; the nodes are 1"):
        Broker(scenario=path).start()


def test_a_printed_scenario_has_the_options_of_the_broker_and_no_secrets() -> None:
    config: dict[str, str | float] = {"num.partitions": 2, "ssl.key.password": "secret"}
    with Broker(brokers=2, config=config, as_version="3.9", request_log=5) as broker:
        start = parse_scenario(broker.scenario_text()).start
    assert (start.brokers, start.as_version, start.request_log) == (2, "3.9", 5)
    assert start.config == {"num.partitions": "2"}
