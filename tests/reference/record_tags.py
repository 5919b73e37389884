"""The page of tags: kafkalite's fields in Kafka's records, and its comments in captures."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields

from kafkalite.protocol.spec import FieldSpec, MessageSpec, load_specs
from kafkalite.traffic.formats.comments import InterfaceNote, PacketNote
from tests.reference.markdown import code, page, table

_FIRST_OWN_TAG = 10_000

_INTRODUCTION = """\
kafkalite adds a few fields to records of internal topics, and comments to the captures that it
writes. Other programs ignore both."""

_RECORDS = """\
Tags from 10000 on in records of internal topics are kafkalite's. Kafka numbers its tags from 0. A
reader that does not know a tag skips it, so a real Kafka can read such a log. The records that a
real Kafka writes have none of these tags. A tag is written only if its value differs from the
default, so other records are byte for byte those of Kafka. If a real Kafka wrote the log, a
member's `RevocationEpoch` is 0, and its join is not confirmed until its next heartbeat."""

_COMMENTS = """\
A comment is a list of words `key=value`, separated by blanks; values are quoted as in URLs. A
reader skips unknown keys."""


def record_tags_page() -> str:
    """Return the page of tags and comments."""
    tags = [
        (spec.name, str(field.tag), code(field.name), code(field.type), field.about or "")
        for spec in load_specs()
        for field in _fields(spec)
        if field.tag is not None and field.tag >= _FIRST_OWN_TAG
    ]
    assert tags
    return page(
        "Record tags",
        _INTRODUCTION,
        "## Tagged fields in records",
        _RECORDS,
        table(("Record", "Tag", "Field", "Type", "Meaning"), tags),
        "## Comments in captures",
        _COMMENTS,
        "### On an interface",
        _notes(InterfaceNote),
        "### On a packet",
        _notes(PacketNote),
    )


def _fields(spec: MessageSpec) -> tuple[FieldSpec, ...]:
    return tuple(spec.fields)


def _notes(note_class: type[InterfaceNote | PacketNote]) -> str:
    meanings = attribute_docstrings(note_class)
    rows = [
        (code(field.name), "number" if "int" in str(field.type) else "text", meanings[field.name])
        for field in fields(note_class)
    ]
    return table(("Key", "Value", "Meaning"), rows)


def attribute_docstrings(note_class: type) -> dict[str, str]:
    """Return the text below each attribute in the source of a class."""
    source = inspect.getsource(note_class)
    attributes = re.findall(
        r'^    (\w+): [^\n]+\n(?:    """(.*?)""")?', source, re.MULTILINE | re.DOTALL
    )
    return {name: re.sub(r"\s+", " ", text).strip() for name, text in attributes}
