"""The page of tags: kafkalite's fields in Kafka's records, and its comments in captures."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import TYPE_CHECKING

from kafkalite.capture.formats.comments import InterfaceNote, PacketNote
from kafkalite.protocol.primitives import FIRST_PRIVATE_TAG
from kafkalite.protocol.spec import FieldSpec, MessageSpec, load_specs
from tests.reference.markdown import code, page, table

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTRODUCTION = """\
kafkalite adds a few fields to records of internal topics, requests and responses, and comments to
the captures that it writes. Other programs ignore them."""

_RECORDS = """\
Tags from 10000 on in records of internal topics are kafkalite's. Kafka numbers its tags from 0. A
reader that does not know a tag skips it, so a real Kafka can read such a log. The records that a
real Kafka writes have none of these tags. A tag is written only if its value differs from the
default, so other records are byte for byte those of Kafka. If a real Kafka wrote the log, a
member's `RevocationEpoch` is 0, and its join is not confirmed until its next heartbeat."""

_MESSAGES = """\
Tags from 10000 on in requests and responses are kafkalite's, too. A broker neither sends nor reads
them unless `kafkalite.partition.epochs` is `true`. A tag with a value of another size is skipped,
as in Kafka. They carry the partition epochs of KIP-232;
[the how-to page](../how-to/partition-epochs.md) explains them."""

_COMMENTS = """\
A comment is a list of words `key=value`, separated by blanks; values are quoted as in URLs. A
reader skips unknown keys."""


def record_tags_page() -> str:
    """Return the page of tags and comments."""
    messages: list[tuple[str, ...]] = []
    records: list[tuple[str, ...]] = []
    for spec in load_specs():
        rows = messages if spec.kind in {"request", "response"} else records
        rows += [
            (spec.name, str(field.tag), code(path), code(field.type), field.about or "")
            for path, field in _fields(spec, spec.fields, "")
            if field.tag is not None and field.tag >= FIRST_PRIVATE_TAG
        ]
    assert messages
    assert records
    return page(
        "Record tags",
        _INTRODUCTION,
        "## Tagged fields in records",
        _RECORDS,
        table(("Record", "Tag", "Field", "Type", "Meaning"), records),
        "## Tagged fields in requests and responses",
        _MESSAGES,
        table(("Message", "Tag", "Field", "Type", "Meaning"), messages),
        "## Comments in captures",
        _COMMENTS,
        "### On an interface",
        _notes(InterfaceNote),
        "### On a packet",
        _notes(PacketNote),
    )


def _fields(
    spec: MessageSpec, fields: tuple[FieldSpec, ...], prefix: str
) -> Iterator[tuple[str, FieldSpec]]:
    """Yield the fields of a message and of its structs, with their paths."""
    for field in fields:
        yield f"{prefix}{field.name}", field
        if field.type in spec.structs:
            yield from _fields(spec, spec.structs[field.type].fields, f"{prefix}{field.name}.")


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
