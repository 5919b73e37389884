"""Encoding and parsing of the comments of pcapng blocks in kafkalite's captures.

A comment is a list of key=value pairs separated by spaces. Values are percent-encoded, so that a
comment is readable and easy to split in any language. Readers ignore unknown keys.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote

_INT64_LIMIT: Final = 1 << 63
"""Numbers beyond 64 bits are ignored, because they do not fit the columns of the tables."""
_SAFE_CHARACTERS: Final = ":/+,@()[]{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceNote:
    """The node and listener of an interface."""

    node: int | None = None
    """The node's id; -1 if unknown, as for the first connection of a proxy."""
    listener: str | None = None
    """Name of the listener; for a proxy, the security protocol of the cluster's listener."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketNote:
    """Facts about a packet that its bytes do not contain."""

    opened: int | None = None
    """Time at which the connection was opened, in ns; set in its first packet in this file.

    The packet begins at the start of a frame unless `inside` is set.
    """
    inside: int | None = None
    """Number of bytes at the start of this packet that complete a frame of earlier packets."""
    client: str | None = None
    """The client's address as `host:port`, if the connection began in an earlier file."""
    software: str | None = None
    """Name of the client library, as reported in ApiVersions."""
    software_version: str | None = None
    """Version of the client library, as reported in ApiVersions."""
    blanked: int | None = None
    """Number of secret bytes that were overwritten in this packet."""
    snapped: int | None = None
    """Frame size, including its 4-byte length, before the records were truncated."""


_NUMERIC_BY_KEY: Final = {
    note_class: {field.name: "int" in str(field.type) for field in fields(note_class)}
    for note_class in (InterfaceNote, PacketNote)
}
"""Class of notes → key → whether the value is a number."""


def encode_interface_note(note: InterfaceNote) -> str:
    """Return the comment of an interface."""
    return _encode(note)


@lru_cache(maxsize=256)
def parse_interface_note(comment: str | None) -> InterfaceNote:
    """Parse an interface's comment; unknown keys are ignored."""
    return InterfaceNote(**_parse(InterfaceNote, comment))


def encode_packet_note(note: PacketNote) -> str:
    """Return the comment of a packet."""
    return _encode(note)


def parse_packet_note(comment: str | None) -> PacketNote:
    """Parse a packet's comment; unknown keys are ignored."""
    return PacketNote(**_parse(PacketNote, comment))


def _encode(note: InterfaceNote | PacketNote) -> str:
    values = ((field.name, getattr(note, field.name)) for field in fields(note))
    return " ".join(
        f"{name}={quote(str(value), safe=_SAFE_CHARACTERS)}"
        for name, value in values
        if value is not None
    )


def _parse(note_class: type[InterfaceNote | PacketNote], comment: str | None) -> dict[str, Any]:
    """Return the pairs of a comment whose keys are fields of `note_class`, as arguments for it."""
    values: dict[str, Any] = {}
    if not comment:
        return values
    numeric_by_key = _NUMERIC_BY_KEY[note_class]
    for item in comment.split():
        name, equals, value = item.partition("=")
        is_number = numeric_by_key.get(name)
        if not equals or is_number is None:
            continue
        if not is_number:
            values[name] = unquote(value)
        elif _is_number(value) and -_INT64_LIMIT <= (number := int(value)) < _INT64_LIMIT:
            values[name] = number
    return values


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 20  # noqa: PLR2004 - 64 bits
