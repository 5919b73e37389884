"""YAML with positions: values, and the line and column of errors."""

from __future__ import annotations

import pytest

from kafkalite.control.positioned_yaml import PositionedYaml, YamlError

TEXT = """\
match:
  api: Produce
  topics: [orders, 2026-01-01]
times: 3
flags: {a: true, b: null, c: 1.5}
"""


def parse(text: str) -> PositionedYaml:
    return PositionedYaml.parse("s.yaml", text)


def test_values_are_those_of_json() -> None:
    assert parse(TEXT).value == {
        "match": {"api": "Produce", "topics": ["orders", "2026-01-01"]},
        "times": 3,
        "flags": {"a": True, "b": None, "c": 1.5},
    }
    assert parse("").value == {}
    assert parse('{"a": [1]}').value == {"a": [1]}
    assert [each.value for each in parse("[a, 1]").elements] == ["a", 1]


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("match.api 'Produce' is wrong", "2:8"),
        ("match.topics must be text", "3:11"),
        ("match has no field 'topics'; its fields are a", "3:3"),
        ("a rule has no field 'times'", "4:1"),
        ("times must be small", "4:8"),
        ("the rule is incomplete", "1:1"),
        ("match.missing must be set", "2:3"),
    ],
)
def test_an_error_has_the_position_of_the_value_that_it_names(text: str, position: str) -> None:
    assert str(parse(TEXT).error(text)) == f"s.yaml:{position}: {text}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", r"^s\.yaml:1:5: while parsing a flow node expected the node content"),
        ("a: &x 1\nb: *x", r"^s\.yaml:2:4: aliases are not supported$"),
        ("a: 1\na: 2", r"^s\.yaml:2:1: 'a' is given twice$"),
        ("? [a]\n: 1", r"^s\.yaml:1:3: a key must be a text$"),
        ("a: \x00", r"^s\.yaml: no valid YAML: "),
        ("[" * 5000, r"^s\.yaml: no valid YAML: maximum recursion depth"),
    ],
)
def test_an_invalid_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(YamlError, match=message):
        _ = parse(text).value
