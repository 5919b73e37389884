"""Rules that mask records: their texts, what they change, and what they refuse."""

from __future__ import annotations

import pytest

from kafkalite.cli.masks import MaskError, masked, parse_mask
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.records import ConsumerRecord

PARTITION = TopicPartition("orders", 0)


def record(
    value: bytes | None,
    key: bytes | None = b"k",
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> ConsumerRecord:
    return ConsumerRecord(PARTITION, 5, value, key, headers, 0, 0)


def mask(rule: str, value: bytes | None, key: bytes | None = b"k") -> ConsumerRecord:
    return masked(record(value, key), [parse_mask(rule)])


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        ("value=drop", b"secret", None),
        ("value=fixed:x", b"secret", b"x"),
        ("value=fixed:", b"secret", b""),
        ("value=drop", None, None),
        ("value.card=drop", None, None),
        ("value.card=drop", b'{"card": 1, "b": [1.5]}', b'{"b":[1.5]}'),
        ("value.card=fixed:*", b'{"card": {"number": 1}}', b'{"card":"*"}'),
        (
            "value.a.b=drop",
            b'[{"a": {"b": 1}}, {"a": [{"b": 2, "c": 3}]}]',
            b'[{"a":{}},{"a":[{"c":3}]}]',
        ),
        ("value.a.b=drop", b'{"a": 1}', b'{"a":1}'),
        ("value.a=drop", b'"text"', b'"text"'),
        ("audit:value=drop", b"open", b"open"),
        ("ord*:value=drop", b"open", None),
    ],
)
def test_a_rule_changes_a_value(rule: str, value: bytes | None, expected: bytes | None) -> None:
    found = mask(rule, value)
    assert (found.value, found.key) == (expected, b"k")


def test_a_hash_is_the_same_for_the_same_text_and_seed() -> None:
    key = mask("key=hash:seed", b"{}", b"alice").key
    field = mask("value.user=hash:seed", b'{"user": "alice"}').value
    assert key is not None
    assert field == b'{"user":"' + key + b'"}'
    assert len(key) == 32
    assert mask("key=hash:other", b"", b"alice").key != key
    assert mask("key=hash:seed", b"", b"bob").key != key
    assert mask("value.n=hash:s", b'{"n": 1}') == mask("value.n=hash:s", b'{"n":1}')


def test_headers_are_masked_by_name_and_rules_apply_in_their_order() -> None:
    headers = (("a.b", b"1"), ("c", b"2"), ("a.b", None))
    given = record(b"no JSON", headers=headers)
    rules = [parse_mask("headers.a.b=fixed:x"), parse_mask("headers.c=drop")]
    assert masked(given, rules).headers == (("a.b", b"x"), ("a.b", None))
    assert masked(given, [parse_mask("value=drop"), parse_mask("value.a=drop")]).value is None


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "value",
        "value=",
        "value=mask",
        "value=hash",
        "price=drop",
        "headers=drop",
        "value.=drop",
        "value=drop:x",
        ":value=drop",
        "value..a=drop",
    ],
)
def test_an_invalid_rule_names_the_form(rule: str) -> None:
    with pytest.raises(MaskError, match=r"must be \[TOPIC:\]FIELD=drop, .*a FIELD is key"):
        parse_mask(rule)


def test_a_hash_needs_a_seed() -> None:
    with pytest.raises(MaskError, match="needs a seed: write hash:SEED"):
        parse_mask("key=hash:")


def test_a_rule_is_utf_8() -> None:
    with pytest.raises(MaskError, match="must be UTF-8"):
        parse_mask("value=fixed:\udcff")


def test_a_value_that_is_too_deep_is_not_printed_unmasked() -> None:
    value = b"[" * 900 + b'{"card":1}' + b"]" * 900
    with pytest.raises(MaskError, match="the value of orders-0 at offset 5 is too deep; mask the"):
        mask("value.card=drop", value)


def test_a_value_that_is_no_json_is_not_printed_unmasked() -> None:
    with pytest.raises(
        MaskError, match="the value of orders-0 at offset 5 is no JSON; mask the wh"
    ):
        mask("value.card=drop", b"card=1")
