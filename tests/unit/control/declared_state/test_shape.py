"""The fields of a state, and the paths of wrong values."""

from __future__ import annotations

import pytest

from kafkalite.config.typed_json import to_json
from kafkalite.control.declared_state.shape import (
    MAX_END_OFFSET,
    MisplacedError,
    StateUser,
    config_texts,
    state_of,
)

STATE = {
    "brokers": 2,
    "features": {"transaction.version": 1},
    "topics": {
        "orders": {
            "partitions": 3,
            "config": {"cleanup.policy": "compact"},
            "end_offsets": {"0": 5},
            "records": [
                {"key": "k", "value_json": None, "timestamp": "2026-03-01T12:00:00Z"},
                {"key_hex": "00", "partition": 1, "headers": {"a": "b"}},
                {"value": "v", "offset": 3, "headers": [{"key": "h", "value_hex": "ff"}]},
            ],
        }
    },
    "groups": {"shop": {"offsets": {"orders": {"0": 1}}, "metadata": {"orders": {"0": "m"}}}},
    "acls": [
        {
            "principal": "User:alice",
            "operation": "READ",
            "resource_type": "TOPIC",
            "resource_name": "orders",
        }
    ],
    "users": {"alice": {"password": "secret", "mechanisms": {"SCRAM-SHA-256": 8192}}},
    "quotas": [{"user": "alice", "quotas": {"producer_byte_rate": 1024.0}}],
}


def test_a_state_is_read_and_written_in_one_form() -> None:
    assert to_json(state_of(STATE)) == STATE
    assert to_json(state_of({})) == {}


@pytest.mark.parametrize(
    ("value", "path", "text"),
    [
        ([], (), "a state must be an object with these fields: brokers, features, topics"),
        ({"topic": {}}, (), "a state has no field 'topic'; its fields are brokers"),
        ({"brokers": 0}, (), "brokers must be a whole number from 1 to 1000, not 0"),
        ({"topics": []}, ("topics",), "topics must be an object, not []"),
        ({"topics": {"a b": {}}}, ("topics", "a b"), "contains one or more characters other than"),
        ({"topics": {"a": 3}}, ("topics", "a"), "a topic must be a JSON object"),
        ({"topics": {"a": {"config": {"x": None}}}}, ("topics", "a"), "config: x must be text"),
        (
            {"topics": {"a": {"records": {}}}},
            ("topics", "a", "records"),
            "records must be a list, not {}",
        ),
        (
            {"topics": {"a": {"records": [{}, {"value": 5}]}}},
            ("topics", "a", "records", 1),
            "value must be text, not 5",
        ),
        (
            {"topics": {"a": {"records": [{"value": "a", "value_json": None}]}}},
            ("topics", "a", "records", 0),
            "a record takes one of value and value_json",
        ),
        (
            {"topics": {"a": {"records": [{"timestamp": "noon"}]}}},
            ("topics", "a", "records", 0),
            "timestamp: 'noon' is not a time",
        ),
        (
            {"topics": {"a": {"records": [{"timestamp": True}]}}},
            ("topics", "a", "records", 0),
            "timestamp must be a time such as 2026-03-01T12:00:00Z, or a number",
        ),
        (
            {"topics": {"a": {"records": [{"headers": {"a": 1}}]}}},
            ("topics", "a", "records", 0),
            "headers must be an object with texts by name, or a list",
        ),
        (
            {"topics": {"a": {"records": [{"offset": 2**63 - 1}]}}},
            ("topics", "a", "records", 0),
            f"offset must be a whole number from 0 to {MAX_END_OFFSET - 1}",
        ),
        (
            {"topics": {"a": {"end_offsets": {"0": 2**63 - 1}}}},
            ("topics", "a"),
            f"0 must be a whole number from 0 to {MAX_END_OFFSET}",
        ),
        (
            {
                "quotas": [
                    {"user": "a", "quotas": {"producer_byte_rate": 1}},
                    {"user": "a", "client_id": "b", "quotas": {"producer_byte_rate": 1}},
                    {"user": "a", "quotas": {"consumer_byte_rate": 1}},
                ]
            },
            ("quotas", 2),
            "the entry 0 has quotas of the same entity: use one entry",
        ),
        ({"acls": [{}]}, ("acls", 0), "an ACL needs the field principal"),
        (
            {"users": {"a": {"mechanisms": {"PLAIN": 4096}}}},
            ("users", "a"),
            "mechanisms must be SCRAM-SHA-256 or SCRAM-SHA-512, not 'PLAIN'",
        ),
        ({"users": {"a": {"mechanisms": {}}}}, ("users", "a"), "mechanisms must have"),
        ({"users": {"a": {"password": ""}}}, ("users", "a"), "password must not be empty"),
        ({"quotas": [{"quotas": {"a": 1}}]}, ("quotas", 0), "quotas need user, client_id or ip"),
        ({"quotas": [{"user": "a"}]}, ("quotas", 0), "quotas must have at least one quota"),
    ],
)
def test_a_wrong_value_has_a_path(value: object, path: tuple[str | int, ...], text: str) -> None:
    with pytest.raises(MisplacedError) as raised:
        state_of(value)
    assert raised.value.path == path
    assert text in str(raised.value)


def test_passwords_are_not_in_texts() -> None:
    assert "secret" not in repr(StateUser(password="secret"))  # noqa: S106 - a test
    with pytest.raises(MisplacedError) as raised:
        state_of({"users": {"a": {"password": 12345}}})
    assert "12345" not in str(raised.value)


def test_settings_are_texts() -> None:
    assert config_texts({"a": True, "b": 1, "c": "x"}) == {"a": "true", "b": "1", "c": "x"}
