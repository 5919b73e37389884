"""States from files and mappings, and the positions of their errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.declared_state import source
from kafkalite.control.declared_state.source import (
    StateError,
    parse_state,
    read_state,
    state_of_mapping,
    with_state,
)
from kafkalite.server.settings import Settings
from tests.unit.control.declared_state.test_shape import STATE

if TYPE_CHECKING:
    from pathlib import Path

YAML = """\
topics:
  orders:
    partitions: 2
    records:
    - {key: a, value_file: one.txt}
    - {value: b}
"""


def test_a_file_is_yaml_or_json_with_files_in_its_directory(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("one")
    yaml, as_json = tmp_path / "s.yaml", tmp_path / "s.json"
    yaml.write_text(YAML)
    topic = {"partitions": 2, "records": [{"key": "a", "value_file": "one.txt"}, {"value": "b"}]}
    as_json.write_text(json.dumps({"topics": {"orders": topic}}))
    first, second = read_state(yaml), read_state(as_json)
    assert first.state == second.state
    assert first.digest == second.digest
    assert [each.value for each in first.contents["orders"]] == [b"one", b"b"]
    assert (first.brokers, first.features, first.topics) == (1, {}, ("orders",))


def test_the_digest_is_that_of_everything_that_is_declared(tmp_path: Path) -> None:
    path, file = tmp_path / "s.yaml", tmp_path / "one.txt"
    path.write_text(YAML)
    file.write_text("one")
    before = read_state(path).digest
    assert read_state(path).digest == before
    file.write_text("two")
    assert read_state(path).digest != before


def test_a_state_adds_nodes() -> None:
    state = state_of_mapping(STATE)
    assert with_state(Settings(), state).brokers == 2
    assert with_state(Settings(brokers=3), state).brokers == 3
    assert "secret" not in repr(with_state(Settings(), state))
    assert parse_state("").topics == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (YAML.replace("partitions: 2", "partitions: x"), "s.yaml:3:17: partitions must be"),
        (YAML.replace("value: b", "valu: b"), "s.yaml:6:8: a record has no field 'valu'; its"),
        (YAML, "s.yaml:5:28: value_file: cannot read"),
        (YAML.replace("orders:", "a/b:"), "s.yaml:3:5: Topic name is invalid"),
        ("a: [", "s.yaml:1:5: "),
        ("brokers: 1\nbrokers: 1", "s.yaml:2:1: 'brokers' is given twice"),
        ("brokers: !!binary aGk=", "s.yaml:1:10: the tag 'tag:yaml.org,2002:binary' is not"),
        (f"brokers: 0x{'f' * 5000}", "s.yaml:1:10: brokers must be a whole number from 1 to"),
        ("- 1", "s.yaml:1:1: a state must be an object"),
        ("topics: {a: {records_file: lines}}", "s.yaml:1:28: line 1 of 'lines': not JSON"),
    ],
)
def test_an_error_has_line_and_column(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "lines").write_text("x")
    with pytest.raises(StateError) as raised:
        parse_state(text, "s.yaml", str(tmp_path))
    assert str(raised.value).startswith(expected)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"topics": {"a": {"partitions": 0}}}', "s.json:1:33: partitions must be"),
        ("{", "s.json:1:2: "),
        ('{"groups": {"\\ud800": {}}}', "s.json:1:12: a text has a lone surrogate"),
        ('{"users": {}, "users": {}}', "s.json: no valid JSON: 'users' is given twice"),
    ],
)
def test_an_error_in_json_has_line_and_column(text: str, expected: str) -> None:
    with pytest.raises(StateError) as raised:
        parse_state(text, "s.json")
    assert str(raised.value).startswith(expected)


def test_json_has_characters_of_any_plane() -> None:
    text = json.dumps({"topics": {"a": {"records": [{"value": "\U0001f600"}]}}})
    (content,) = parse_state(text, "s.json").contents["a"]
    assert content.value == "\U0001f600".encode()


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ({"topics": {"a": {"records": [{"value": 1}]}}}, "state: topics.a.records[0]: value must"),
        (
            {"topics": {"a": {"records": [{"value": b"\0"}]}}},
            (
                "state: topics.a.records[0].value: a value must be text, a number, a list, a "
                "mapping or None, not b'\\x00': use the fields _hex or _base64 for bytes"
            ),
        ),
        ({"brokers": {3}}, "state: brokers: a value must be text, a number, a list, a mapping"),
        (
            {"topics": {"a": {"records": [{"timestamp": datetime(2026, 3, 1)}]}}},  # noqa: DTZ001
            "state: topics.a.records[0].timestamp: 2026-03-01 00:00:00 needs a time zone",
        ),
        ([], "state must be the path of a file or a mapping, not []"),
    ],
)
def test_an_error_in_a_mapping_has_a_path(mapping: object, expected: str) -> None:
    with pytest.raises(StateError) as raised:
        state_of_mapping(mapping)  # type: ignore[arg-type]  # a mistake
    assert str(raised.value).startswith(expected)


def test_a_mapping_may_have_times_and_tuples() -> None:
    record = {"value": "a", "timestamp": datetime(2026, 3, 1, tzinfo=UTC)}
    (content,) = state_of_mapping({"topics": {"a": {"records": (record,)}}}).contents["a"]
    assert content.timestamp_ms == 1_772_323_200_000


def test_a_mapping_that_contains_itself_is_refused() -> None:
    mapping: dict[str, object] = {}
    mapping["topics"] = mapping
    with pytest.raises(StateError, match="a value must not contain itself"):
        state_of_mapping(mapping)


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StateError, match=r"no\.yaml: No such file"):
        read_state(tmp_path / "no.yaml")
    path = tmp_path / "s.yaml"
    path.write_bytes(b"a: \xff")
    with pytest.raises(StateError, match=r"s\.yaml: no UTF-8 at byte 3"):
        read_state(path)
    monkeypatch.setattr(source, "MAX_STATE_BYTES", 3)
    with pytest.raises(StateError, match=r"s\.yaml: a state has at most 3 bytes"):
        read_state(path)


def test_yaml_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_YAML_BYTES", 20)
    parse_state("brokers: 1", "s.yaml")
    with pytest.raises(StateError, match=r"s\.yaml: a state in YAML has at most 20 bytes: write"):
        parse_state("brokers: 1" + " " * 20, "s.yaml")
    with pytest.raises(StateError, match=r"s\.json: brokers must be a whole number"):
        parse_state('{"brokers": 0}' + " " * 20, "s.json")
