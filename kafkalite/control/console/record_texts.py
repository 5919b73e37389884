"""Keys, values and headers of records as text, JSON or hexadecimal numbers, large ones in part."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from kafkalite.control.console.texts import visible
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.texts import truncate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.control.console.schema_values import Decoded

AUTO, TEXT, JSON, HEX = "auto", "text", "json", "hex"
FORMATS: Final = (AUTO, TEXT, JSON, HEX)
"""What a page can be asked for.

`auto` is the first of JSON by a schema, JSON, text and hexadecimal that fits.
"""

MAX_BYTES: Final = 64 * 1024
"""The number of bytes of a key or a value that a page about one record shows."""
MAX_LINE: Final = 240
"""The number of characters of a key or a value in a table of records."""
_MAX_LINE_BYTES: Final = 1_000
_MAX_HEX_BYTES: Final = 4_096
_MAX_JSON_BYTES: Final = 1024 * 1024
"""Larger JSON is not parsed, so it is shown as text."""
_HEX_COLUMNS: Final = 16
_HEX_CHARACTERS: Final = 3
"""Characters of a byte, with the space after it."""
_MAX_CHARACTER_BYTES: Final = 4
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"\[\]{},:]+|[\[\]{},:]')
_OPENING: Final = {"{": "}", "[": "]"}


class ShownBytes(NamedTuple):
    """Bytes as a page shows them."""

    text: str
    format: str
    """TEXT, JSON or HEX; empty for null."""
    size: int
    """Number of all bytes."""
    shown: int
    """Number of the first bytes that the text shows."""
    schema: str = ""
    """The format and the schema by which the text was decoded, or why it was not."""

    @property
    def is_cut(self) -> bool:
        """Whether the text shows only a part."""
        return self.shown < self.size


def show(
    content: bytes | None,
    wished: str = AUTO,
    decoded: Decoded | None = None,
    *,
    limit: int = MAX_BYTES,
) -> ShownBytes:
    """Return at most `limit` bytes as lines of text: in the format `wished` if they have it."""
    if content is None:
        return ShownBytes("null", "", 0, 0)
    if decoded is not None:
        if not decoded.text:
            return show(content, wished)._replace(schema=visible(decoded.about))
        text = indented(decoded.text)
        size = len(content)
        return ShownBytes(visible(text, len(text)), JSON, size, size, visible(decoded.about))
    found = format_of(content, wished)
    if found == HEX:
        part = content[: min(limit, _MAX_HEX_BYTES)]
        return ShownBytes("\n".join(_hex_lines(part)), HEX, len(content), len(part))
    part = content[:limit]
    text = _text(part)
    if found == JSON and len(part) == len(content):
        text = indented(text)
    return ShownBytes(visible(text, len(text)), found, len(content), len(part))


def show_line(
    content: bytes | None,
    wished: str = AUTO,
    limit: int = MAX_LINE,
    decoded: Decoded | None = None,
) -> ShownBytes:
    """Return the first bytes as one line of text, with at most `limit` characters."""
    if content is None:
        return ShownBytes("null", "", 0, 0)
    if decoded is not None:
        if not decoded.text:
            return show_line(content, wished, limit)._replace(schema=visible(decoded.about))
        line = visible(decoded.text[: limit + 1].replace("\n", " ").replace("\t", " "), limit)
        size = len(content)
        is_cut = len(decoded.text) > limit or len(line) > limit
        line = truncate(line, limit)
        return ShownBytes(line, JSON, size, size - is_cut, visible(decoded.about))
    found = format_of(content, wished)
    if found == HEX:
        part = content[: limit // _HEX_CHARACTERS]
        return ShownBytes(part.hex(" "), HEX, len(content), len(part))
    part = content[:_MAX_LINE_BYTES]
    text = _text(part)
    # Escapes make a text longer.
    line = visible(text.replace("\n", " ").replace("\t", " "), limit)
    is_cut = len(part) < len(content) or len(text) > limit or len(line) > limit
    line = truncate(line, limit)
    return ShownBytes(line, found, len(content), len(part) - 1 if is_cut else len(content))


def format_of(content: bytes, wished: str = AUTO) -> str:
    """Return the format in which bytes are shown: TEXT for JSON that is none."""
    if wished in {TEXT, HEX}:
        return wished
    if _is_json(content, any_value=wished == JSON):
        return JSON
    return TEXT if wished == JSON or is_text(content) else HEX


def is_text(content: bytes) -> bool:
    """Return whether bytes are UTF-8 without control characters."""
    try:
        text = content[:MAX_BYTES].decode()
    except UnicodeDecodeError as error:
        # The last character may be incomplete.
        if len(content) <= MAX_BYTES or error.start < MAX_BYTES - _MAX_CHARACTER_BYTES:
            return False
        text = content[: error.start].decode()
    return all(each >= " " or each in "\n\r\t" for each in text) and "\x7f" not in text


def _text(content: bytes) -> str:
    return content.decode(errors="backslashreplace")


def _is_json(content: bytes, *, any_value: bool) -> bool:
    if len(content) > _MAX_JSON_BYTES or not (any_value or content.lstrip()[:1] in {b"{", b"["}):
        return False
    try:
        json.loads(content.decode())
    except (ValueError, RecursionError):
        return False
    return True


def indented(text: str) -> str:
    """Return JSON with a member or an item on each line; names and numbers are as they were."""
    parts: list[str] = []
    depth, previous = 0, ""
    for match in _TOKEN.finditer(text):
        token = match.group()
        is_end = token in {"]", "}"}
        depth -= is_end
        begins = previous in _OPENING
        if previous == "," or (begins and token != _OPENING[previous]) or (is_end and not begins):
            parts.append(f"\n{'  ' * depth}")
        elif previous == ":":
            parts.append(" ")
        parts.append(token)
        depth += token in _OPENING
        previous = token
    return "".join(parts)


def _hex_lines(content: bytes) -> Iterator[str]:
    for start in range(0, len(content), _HEX_COLUMNS):
        row = content[start : start + _HEX_COLUMNS]
        text = "".join(chr(each) if " " <= chr(each) <= "~" else "." for each in row)
        yield f"{start:08x}  {row.hex(' '):<47}  {text}"
