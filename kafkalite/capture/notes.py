"""What our captures say in comments, beside the packets: written here, and read back here.

A comment is words of the form key=value, values quoted as in URLs, so that people can read it and
any language split it. Unknown keys are for readers to pass over.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote

_NUMBERS: Final = 1 << 63
"""No number that we note is as large: what tables could not hold says nothing."""
_PLAIN: Final = ":/+,@()[]{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceNote:
    """Which door of which broker an interface stands for."""

    node: int | None = None
    """The node's id; -1 where it is not known, as for a proxy's first connection."""
    listener: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketNote:
    """What is to be known of a packet beyond its bytes."""

    opened: int | None = None
    """When the connection was opened, in nanoseconds: its first packet in this file continues it.

    The packet begins with a frame unless `inside` says otherwise.
    """
    inside: int | None = None
    """How many more bytes belong to the frame of earlier packets with which this one begins."""
    client: str | None = None
    """The client's end, as `host:port`, where the packet continues a connection."""
    software: str | None = None
    """What the client says it is: its library's name."""
    software_version: str | None = None
    blanked: int | None = None
    """How many bytes of this packet's frame were secret, and are not here."""
    snapped: int | None = None
    """How long the frame was before its records were cut, the four bytes of its length included."""


_KNOWN: Final = {
    kind: {each.name: "int" in str(each.type) for each in fields(kind)}
    for kind in (InterfaceNote, PacketNote)
}
"""The words that each kind of note knows, and which of them are numbers."""


def interface_text(note: InterfaceNote) -> str:
    """Return the comment of an interface."""
    return _text(note)


@lru_cache(maxsize=256)
def interface_note(comment: str | None) -> InterfaceNote:
    """Return what an interface's comment says, whoever wrote it."""
    return InterfaceNote(**_words(InterfaceNote, comment))


def packet_text(note: PacketNote) -> str:
    """Return the comment of a packet."""
    return _text(note)


def packet_note(comment: str | None) -> PacketNote:
    """Return what a packet's comment says, whoever wrote it."""
    return PacketNote(**_words(PacketNote, comment))


def _text(note: InterfaceNote | PacketNote) -> str:
    said = ((each.name, getattr(note, each.name)) for each in fields(note))
    return " ".join(
        f"{name}={quote(str(value), safe=_PLAIN)}" for name, value in said if value is not None
    )


def _words(kind: type[InterfaceNote | PacketNote], comment: str | None) -> dict[str, Any]:
    """Return the words of a comment that `kind` knows; what is none of them says nothing."""
    found: dict[str, Any] = {}
    if not comment:
        return found
    known = _KNOWN[kind]
    for word in comment.split():
        name, equals, value = word.partition("=")
        is_number = known.get(name)
        if not equals or is_number is None:
            continue
        if not is_number:
            found[name] = unquote(value)
        elif _is_number(value) and -_NUMBERS <= (number := int(value)) < _NUMBERS:
            found[name] = number
    return found


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 20  # noqa: PLR2004 - 64 bits
