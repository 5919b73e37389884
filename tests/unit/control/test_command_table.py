"""The table of commands: complete, consistent, and the only place of a command."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass

import pytest

from kafkalite.config.typed_json import fields_of, read, to_json
from kafkalite.control.command_table import families, row_of, rows, sentence
from kafkalite.control.commands.clock import ShowClock
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError


def test_every_command_has_one_row_and_one_route() -> None:
    found = rows()
    assert len({row.kind for row in found}) == len(found) > 20
    assert len({(row.method, row.path) for row in found}) == len(found)
    assert row_of(ShowClock()).path == "/v1/clock"
    assert [row.kind.__name__ for row in found if not row.purpose] == []


def test_every_field_is_described_and_can_be_sent() -> None:
    for row in rows():
        kinds = [row.kind, *([row.answer] if is_dataclass(row.answer) else [])]
        for kind in kinds:
            assert [each.name for each in fields_of(kind) if not each.about.text] == [], kind
        assert {each.name for each in fields_of(row.kind)} >= set(row.path_fields)


@pytest.mark.parametrize("value", [None, 5, True, 1.5, b"x", [], {}, "x"])
def test_a_value_of_any_type_is_accepted_or_raises_value_error(value: object) -> None:
    for kind in {row.kind for row in rows()}:
        required = {each.name: "x" for each in fields(kind) if each.default is MISSING}
        for each in fields(kind):
            with suppress(ValueError):
                kind(**{**required, each.name: value})


def test_every_example_is_a_body() -> None:
    for row in rows():
        assert (row.example is None) is (not row.has_body), row.kind
        if row.example is not None:
            types = {each.name: each.type for each in fields_of(row.kind)}
            fixed = {name: 1 if types[name] is int else "1" for name in row.path_fields}
            command: object = read(row.kind, row.example, "the body", fixed=fixed)
            sent = to_json(command, omits_defaults=True)
            assert read(row.kind, sent, "the body") == command


def test_the_words_of_a_shell_name_a_family_and_fields() -> None:
    for family in families():
        for row in family.rows:
            for words in row.words:
                assert words.words.partition(" ")[0] in family.words
                known = {each.name for each in fields_of(row.kind)}
                named = [
                    name
                    for each in words.positionals
                    for name in ((each,) if isinstance(each, str) else each.names)
                ]
                assert known >= {*named, *words.preset, *(words.offers or ())}, words.words


def test_an_error_of_kafka_becomes_a_sentence() -> None:
    error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space.")
    assert sentence(error) == "KAFKA_STORAGE_ERROR: no space"
